//! `information_schema`: relations and columns in the words of the SQL standard.

use std::collections::HashMap;

use tidemill_federation::Options;
use tidemill_sql::Result;
use tidemill_sql::objects::INSERTABLE;
use tidemill_sql::types::{Scalar, Type};

use super::class::{self, Attribute, Class};
use super::datatype::DataType;
use super::foreign;
use super::namespace::NAMESPACES;
use super::role::ROLES;
use super::{Fillers, INFORMATION_SCHEMA, PG_CATALOG, Rows, Snapshot, Value};
use crate::catalog::UserMappingObject;
use crate::tables::{DATABASE, SCHEMA};

pub(super) const FILLERS: Fillers = &[
    (INFORMATION_SCHEMA, "information_schema_catalog_name", catalog_name),
    (INFORMATION_SCHEMA, "schemata", schemata),
    (INFORMATION_SCHEMA, "tables", tables),
    (INFORMATION_SCHEMA, "columns", columns),
    (INFORMATION_SCHEMA, "views", views),
    (INFORMATION_SCHEMA, "table_privileges", table_privileges),
    (INFORMATION_SCHEMA, "role_table_grants", table_privileges),
    (INFORMATION_SCHEMA, "enabled_roles", enabled_roles),
    (INFORMATION_SCHEMA, "character_sets", character_sets),
    (INFORMATION_SCHEMA, "foreign_tables", foreign_tables),
    (INFORMATION_SCHEMA, "foreign_servers", foreign_servers),
    (INFORMATION_SCHEMA, "foreign_data_wrappers", foreign_data_wrappers),
    (INFORMATION_SCHEMA, "foreign_server_options", foreign_server_options),
    (INFORMATION_SCHEMA, "foreign_table_options", foreign_table_options),
    (INFORMATION_SCHEMA, "column_options", column_options),
    (INFORMATION_SCHEMA, "user_mappings", user_mappings),
    (INFORMATION_SCHEMA, "user_mapping_options", user_mapping_options),
];

fn catalog_name(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    rows.add([("catalog_name", DATABASE.into())])
}

fn schemata(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    for (name, _) in NAMESPACES {
        rows.add([
            ("catalog_name", DATABASE.into()),
            ("schema_name", name.into()),
            ("schema_owner", ROLES[0].name.into()),
        ])?;
    }
    Ok(())
}

fn tables(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    let changes = snapshot.relations.iter().map(|r| (r.oid(), class::changes(snapshot, r)));
    let changes: HashMap<_, _> = changes.collect();
    for class in Class::every(snapshot)? {
        let takes_rows = changes.get(&class.oid).is_some_and(|changes| changes & INSERTABLE != 0);
        let kind = match class.kind {
            'f' => "FOREIGN",
            'v' => "VIEW",
            _ => "BASE TABLE",
        };
        rows.add([
            ("table_catalog", DATABASE.into()),
            ("table_schema", class.schema.into()),
            ("table_name", class.name.as_str().into()),
            ("table_type", kind.into()),
            ("is_insertable_into", yes(takes_rows).into()),
            ("is_typed", "NO".into()),
        ])?;
    }
    Ok(())
}

fn yes(answer: bool) -> &'static str {
    if answer { "YES" } else { "NO" }
}

fn columns(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for class in Class::every(snapshot)? {
        for (i, column) in class.columns.iter().enumerate() {
            add_column(rows, &class, i + 1, column)?;
        }
    }
    Ok(())
}

fn add_column(rows: &mut Rows, class: &Class, number: usize, column: &Attribute) -> Result<()> {
    let is_array = column.ty.category == 'A' && column.ty.element != 0;
    let limits = Limits::of(column.ty, column.typmod);
    // As PostgreSQL: the default collation is not mentioned.
    let collation = (column.ty.collation == 950).then_some("C");
    rows.add([
        ("table_catalog", DATABASE.into()),
        ("table_schema", class.schema.into()),
        ("table_name", class.name.as_str().into()),
        ("column_name", column.name.as_str().into()),
        ("ordinal_position", number.into()),
        ("column_default", column.default.as_ref().map(|(_, text)| text.as_str()).into()),
        ("is_nullable", yes(!column.not_null).into()),
        ("data_type", if is_array { "ARRAY" } else { column.ty.shown }.into()),
        ("character_maximum_length", limits.characters.into()),
        ("character_octet_length", limits.bytes.into()),
        ("numeric_precision", limits.precision.into()),
        ("numeric_precision_radix", limits.radix.into()),
        ("numeric_scale", limits.scale.into()),
        ("datetime_precision", limits.fraction.into()),
        ("collation_catalog", collation.map(|_| DATABASE).into()),
        ("collation_schema", collation.map(|_| PG_CATALOG).into()),
        ("collation_name", collation.into()),
        ("udt_catalog", DATABASE.into()),
        ("udt_schema", PG_CATALOG.into()),
        ("udt_name", column.ty.name.into()),
        ("dtd_identifier", number.to_string().into()),
        ("is_self_referencing", "NO".into()),
        ("is_identity", "NO".into()),
        ("identity_cycle", "NO".into()),
        ("is_generated", "NEVER".into()),
        ("is_updatable", "NO".into()),
    ])
}

/// What `information_schema` says about the size of a type's values.
#[derive(Debug, Default, PartialEq, Eq)]
struct Limits {
    characters: Option<i32>,
    bytes: Option<i32>,
    precision: Option<i32>,
    radix: Option<i32>,
    scale: Option<i32>,
    fraction: Option<i32>,
}

impl Limits {
    fn of(ty: &DataType, typmod: i32) -> Self {
        let Some(Type { scalar, array: false, .. }) = Type::from_oid(ty.oid) else { return Self::default() };
        let binary = |bits| Self { precision: Some(bits), radix: Some(2), ..Self::default() };
        let integer = |bits| Self { scale: Some(0), ..binary(bits) };
        let fraction = |default| Some(if typmod >= 0 { typmod } else { default });
        match scalar {
            Scalar::Int2 => integer(16),
            Scalar::Int4 => integer(32),
            Scalar::Int8 => integer(64),
            Scalar::Float4 => binary(24),
            Scalar::Float8 => binary(53),
            Scalar::Numeric => {
                let parts = Type::new(scalar).with_typmod(typmod).numeric_precision_scale();
                Self {
                    precision: parts.map(|(precision, _)| i32::from(precision)),
                    radix: Some(10),
                    scale: parts.map(|(_, scale)| i32::from(scale)),
                    ..Self::default()
                }
            }
            Scalar::Text => Self { bytes: Some(1 << 30), ..Self::default() },
            Scalar::Varchar | Scalar::Bpchar => {
                let characters = (typmod >= 4).then(|| typmod - 4);
                let bytes = characters.map_or(1 << 30, |n| n.saturating_mul(4));
                Self { characters, bytes: Some(bytes), ..Self::default() }
            }
            Scalar::Date => Self { fraction: Some(0), ..Self::default() },
            Scalar::Time | Scalar::Timestamp | Scalar::Timestamptz | Scalar::Interval => {
                Self { fraction: fraction(6), ..Self::default() }
            }
            _ => Self::default(),
        }
    }
}

fn views(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    let system = super::all().iter().filter(|r| r.kind == 'v').map(|r| (r.schema, r.name, None));
    let user =
        snapshot.relations.iter().filter_map(|r| Some((SCHEMA, r.name(), Some(class::definition(r)?))));
    for (schema, name, definition) in system.chain(user) {
        rows.add([
            ("table_catalog", DATABASE.into()),
            ("table_schema", schema.into()),
            ("table_name", name.into()),
            ("view_definition", definition.into()),
            ("check_option", "NONE".into()),
            ("is_updatable", "NO".into()),
            ("is_insertable_into", "NO".into()),
            ("is_trigger_updatable", "NO".into()),
            ("is_trigger_deletable", "NO".into()),
            ("is_trigger_insertable_into", "NO".into()),
        ])?;
    }
    Ok(())
}

/// What the owner may do: insert into streams, read everything else.
fn table_privileges(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for class in Class::every(snapshot)? {
        let privilege = if class.kind == 'f' { "INSERT" } else { "SELECT" };
        rows.add([
            ("grantor", ROLES[0].name.into()),
            ("grantee", ROLES[0].name.into()),
            ("table_catalog", DATABASE.into()),
            ("table_schema", class.schema.into()),
            ("table_name", class.name.into()),
            ("privilege_type", privilege.into()),
            ("is_grantable", "YES".into()),
            ("with_hierarchy", yes(privilege == "SELECT").into()),
        ])?;
    }
    Ok(())
}

fn enabled_roles(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    for role in &ROLES {
        rows.add([("role_name", role.name.into())])?;
    }
    Ok(())
}

fn character_sets(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    rows.add([
        ("character_set_name", "UTF8".into()),
        ("character_repertoire", "UCS".into()),
        ("form_of_use", "UTF8".into()),
        ("default_collate_catalog", DATABASE.into()),
        ("default_collate_schema", PG_CATALOG.into()),
        ("default_collate_name", "C".into()),
    ])
}

fn foreign_tables(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for relation in &snapshot.relations {
        let Some(server) = foreign::server_of(snapshot, relation) else { continue };
        rows.add([
            ("foreign_table_catalog", DATABASE.into()),
            ("foreign_table_schema", SCHEMA.into()),
            ("foreign_table_name", relation.name().into()),
            ("foreign_server_catalog", DATABASE.into()),
            ("foreign_server_name", server.into()),
        ])?;
    }
    Ok(())
}

fn foreign_servers(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for (server, wrapper) in foreign::all_servers(snapshot) {
        rows.add([
            ("foreign_server_catalog", DATABASE.into()),
            ("foreign_server_name", server.into()),
            ("foreign_data_wrapper_catalog", DATABASE.into()),
            ("foreign_data_wrapper_name", wrapper.into()),
            ("authorization_identifier", ROLES[0].name.into()),
        ])?;
    }
    Ok(())
}

fn foreign_data_wrappers(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    for (_, name) in foreign::all_wrappers() {
        rows.add([
            ("foreign_data_wrapper_catalog", DATABASE.into()),
            ("foreign_data_wrapper_name", name.into()),
            ("authorization_identifier", ROLES[0].name.into()),
        ])?;
    }
    Ok(())
}

fn foreign_server_options(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for server in &snapshot.servers {
        let of = [
            ("foreign_server_catalog", DATABASE.into()),
            ("foreign_server_name", server.object.name.as_str().into()),
        ];
        add_options(rows, &of, &server.object.options)?;
    }
    Ok(())
}

fn foreign_table_options(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for table in snapshot.relations.iter().filter_map(foreign::table_of) {
        let of = [
            ("foreign_table_catalog", DATABASE.into()),
            ("foreign_table_schema", SCHEMA.into()),
            ("foreign_table_name", table.object.name.as_str().into()),
        ];
        add_options(rows, &of, &table.object.options)?;
    }
    Ok(())
}

fn column_options(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for table in snapshot.relations.iter().filter_map(foreign::table_of) {
        for known in &table.object.columns {
            let of = [
                ("table_catalog", DATABASE.into()),
                ("table_schema", SCHEMA.into()),
                ("table_name", table.object.name.as_str().into()),
                ("column_name", known.column.name.as_str().into()),
            ];
            add_options(rows, &of, &known.options)?;
        }
    }
    Ok(())
}

fn user_mappings(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for server in &snapshot.servers {
        for (_, mapping) in &server.mappings {
            rows.add([
                ("authorization_identifier", mapped(mapping).into()),
                ("foreign_server_catalog", DATABASE.into()),
                ("foreign_server_name", server.object.name.as_str().into()),
            ])?;
        }
    }
    Ok(())
}

/// As PostgreSQL does for those who may not see them, with NULL for passwords.
fn user_mapping_options(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for server in &snapshot.servers {
        for (_, mapping) in &server.mappings {
            let of = [
                ("authorization_identifier", mapped(mapping).into()),
                ("foreign_server_catalog", DATABASE.into()),
                ("foreign_server_name", server.object.name.as_str().into()),
            ];
            add_options(rows, &of, &mapping.options)?;
        }
    }
    Ok(())
}

/// A row for each option of what the columns `of` name.
fn add_options(rows: &mut Rows, of: &[(&str, Value)], options: &Options) -> Result<()> {
    for (name, value) in options.listed() {
        let option = [("option_name", name.into()), ("option_value", value.into())];
        rows.add_all(of.iter().cloned().chain(option))?;
    }
    Ok(())
}

fn mapped(mapping: &UserMappingObject) -> &str {
    mapping.user.as_deref().unwrap_or("PUBLIC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_postgresql() {
        let of = |scalar: Scalar, typmod| {
            let limits = Limits::of(DataType::of_oid(scalar.oid()).unwrap(), typmod);
            (limits.characters, limits.bytes, limits.precision, limits.scale, limits.fraction)
        };
        assert_eq!(of(Scalar::Numeric, Type::numeric_typmod(10, 2)), (None, None, Some(10), Some(2), None));
        assert_eq!(of(Scalar::Varchar, 24), (Some(20), Some(80), None, None, None));
        assert_eq!(of(Scalar::Text, -1), (None, Some(1_073_741_824), None, None, None));
        assert_eq!(of(Scalar::Timestamp, 3), (None, None, None, None, Some(3)));
    }
}
