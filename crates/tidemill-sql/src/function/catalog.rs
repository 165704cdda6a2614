//! Functions that describe objects: `pg_get_viewdef`, `format_type`, `pg_table_is_visible` and the like.

use std::sync::Arc;

use arrow::array::{ArrayRef, ListBuilder, StringBuilder};

use super::kernel::*;
use super::object;
use super::{Call, Param, Registry, Returns};
use crate::error::Result;
use crate::planner::vars::SessionVars;
use crate::types::{Scalar, Type};

const TEXT: Returns = Returns::Is(Type::new(Scalar::Text));
const OID: Param = Param::Is(Type::new(Scalar::Oid));
const INT: Param = Param::Is(Type::new(Scalar::Int4));

pub(super) fn register(r: &mut Registry) {
    visibility(r);
    lookups(r);
    definitions(r);
    comments(r);
    r.kernel("format_type", &[OID, INT], TEXT, |call| {
        let (oid, typmod) = (call.column::<Oid>(0)?, call.column::<Int4>(1)?);
        call.rows::<Text>(|row| Ok(Some(object::type_name(row!(oid, row), typmod.get(row)?, call.vars))))
    });
    let texts = Returns::Is(Type::array(Scalar::Text));
    r.kernel("parse_ident", &[Param::Is(Type::new(Scalar::Text))], texts, parse_ident);
    r.strict1::<Oid, Text>("pg_get_userbyid", |vars, oid| {
        let role = vars.objects.name(Scalar::Regrole, oid);
        Ok(role.map_or_else(|| format!("unknown (OID={oid})"), |role| role.name))
    });
}

fn parse_ident(call: &Call) -> Result<ArrayRef> {
    let text = call.column::<Text>(0)?;
    let mut out = ListBuilder::new(StringBuilder::new());
    for row in 0..call.rows {
        match text.get(row)? {
            None => out.append_null(),
            Some(text) => out.append_value(object::identifiers(text)?.into_iter().map(Some)),
        }
    }
    Ok(Arc::new(out.finish()))
}

/// Whether the name alone finds the object; null for an object that there is not.
fn visibility(r: &mut Registry) {
    let kinds = [
        ("pg_table_is_visible", Scalar::Regclass),
        ("pg_type_is_visible", Scalar::Regtype),
        ("pg_function_is_visible", Scalar::Regproc),
    ];
    for (name, kind) in kinds {
        r.maybe1::<Oid, Bool>(name, move |vars, oid| {
            Ok(vars.objects.name(kind, oid).map(|named| named.visible))
        });
    }
    // Of these there are only the system's own, and no two of one name.
    let system = [
        "pg_operator_is_visible",
        "pg_opclass_is_visible",
        "pg_opfamily_is_visible",
        "pg_collation_is_visible",
        "pg_conversion_is_visible",
        "pg_statistics_obj_is_visible",
        "pg_ts_config_is_visible",
        "pg_ts_dict_is_visible",
        "pg_ts_parser_is_visible",
        "pg_ts_template_is_visible",
    ];
    for name in system {
        r.strict1::<Oid, Bool>(name, |_, _| Ok(true));
    }
}

/// `to_regclass` and its kin: null where the cast is an error.
fn lookups(r: &mut Registry) {
    let kinds = [
        ("to_regclass", Scalar::Regclass),
        ("to_regtype", Scalar::Regtype),
        ("to_regproc", Scalar::Regproc),
        ("to_regprocedure", Scalar::Regprocedure),
        ("to_regnamespace", Scalar::Regnamespace),
        ("to_regrole", Scalar::Regrole),
    ];
    for (name, kind) in kinds {
        let kernel = move |call: &Call| -> Result<ArrayRef> {
            let text = call.column::<Text>(0)?;
            call.rows::<Oid>(|row| object::find(kind, row!(text, row), call.vars))
        };
        r.boxed(name, &[Param::Is(Type::new(Scalar::Text))], Returns::Is(Type::new(kind)), kernel);
    }
}

fn definitions(r: &mut Registry) {
    fn view(vars: &SessionVars, oid: u32) -> Result<Option<String>> {
        Ok(vars.objects.view_definition(oid))
    }
    r.maybe1::<Oid, Text>("pg_get_viewdef", view);
    r.maybe2::<Oid, Bool, Text>("pg_get_viewdef", |vars, oid, _| view(vars, oid));
    r.maybe2::<Oid, Int4, Text>("pg_get_viewdef", |vars, oid, _| view(vars, oid));
    r.maybe1::<Text, Text>("pg_get_viewdef", |vars, name| {
        view(vars, object::read(Scalar::Regclass, name, vars)?)
    });
    // No triggers make a view one whose rows can be changed.
    r.maybe2::<Regclass, Bool, Int4>("pg_relation_is_updatable", |vars, oid, _| {
        Ok(Some(vars.objects.changes(oid)))
    });
    for name in ["pg_get_function_arguments", "pg_get_function_identity_arguments"] {
        r.maybe1::<Oid, Text>(name, |vars, oid| Ok(vars.objects.function(oid).map(|f| f.arguments)));
    }
    r.maybe1::<Oid, Text>("pg_get_function_result", |vars, oid| {
        Ok(vars.objects.function(oid).map(|f| f.result))
    });
    r.maybe1::<Oid, Text>("pg_get_functiondef", |vars, oid| {
        let shown = |f: crate::objects::Described| {
            let name = object::show(Scalar::Regproc, oid, vars);
            let (arguments, result) = (f.arguments, f.result);
            format!("CREATE OR REPLACE FUNCTION {name}({arguments})\n RETURNS {result}\n LANGUAGE internal\nAS $function${}$function$\n", f.name)
        };
        Ok(vars.objects.function(oid).map(shown))
    });
    // There are no constraints, indexes, rules, triggers, statistics or partitions that could be shown.
    let nothing: [&str; 9] = [
        "pg_get_function_sqlbody",
        "pg_get_constraintdef",
        "pg_get_indexdef",
        "pg_get_ruledef",
        "pg_get_triggerdef",
        "pg_get_statisticsobjdef",
        "pg_get_statisticsobjdef_columns",
        "pg_get_partkeydef",
        "pg_get_partition_constraintdef",
    ];
    for name in nothing {
        r.maybe1::<Oid, Text>(name, |_, _| Ok(None));
        r.maybe2::<Oid, Bool, Text>(name, |_, _, _| Ok(None));
    }
    r.kernel("pg_get_indexdef", &[OID, INT, Param::Is(Type::new(Scalar::Bool))], TEXT, |call| {
        call.rows::<Text>(|_| Ok(None))
    });
    r.maybe2::<Text, Text, Text>("pg_get_serial_sequence", |_, _, _| Ok(None));
    // No index was ever used.
    r.strict1::<Oid, Int8>("pg_stat_get_numscans", |_, _| Ok(0));
    // Everything is in the data directory.
    r.strict1::<Oid, Text>("pg_tablespace_location", |_, _| Ok(String::new()));
    // An expression is stored as its text.
    r.maybe2::<Text, Oid, Text>("pg_get_expr", |_, text, _| Ok(Some(text.to_string())));
    r.kernel(
        "pg_get_expr",
        &[Param::Is(Type::new(Scalar::Text)), OID, Param::Is(Type::new(Scalar::Bool))],
        TEXT,
        |call| {
            let text = call.column::<Text>(0)?;
            call.rows::<Text>(|row| Ok(text.get(row)?.map(str::to_string)))
        },
    );
}

fn comments(r: &mut Registry) {
    r.maybe1::<Oid, Text>("obj_description", |vars, oid| Ok(vars.objects.comment("pg_class", oid, 0)));
    for name in ["obj_description", "shobj_description"] {
        r.maybe2::<Oid, Text, Text>(name, |vars, oid, catalog| Ok(vars.objects.comment(catalog, oid, 0)));
    }
    r.maybe2::<Oid, Int4, Text>("col_description", |vars, oid, column| {
        Ok(vars.objects.comment("pg_class", oid, column))
    });
}
