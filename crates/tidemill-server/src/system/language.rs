//! `pg_language`, `pg_collation`, `pg_cast` and `pg_operator`: the parts of the language that are listed.

use tidemill_sql::Result;
use tidemill_sql::function::{Param, Returns, registry};
use tidemill_sql::planner::coerce::{Context, castable};
use tidemill_sql::types::{Scalar, Type};

use super::namespace::{OWNER_OID, namespace_oid};
use super::{Fillers, PG_CATALOG, Rows, Snapshot};

pub(super) const FILLERS: Fillers = &[
    (PG_CATALOG, "pg_language", languages),
    (PG_CATALOG, "pg_collation", collations),
    (PG_CATALOG, "pg_cast", casts),
    (PG_CATALOG, "pg_operator", operators),
];

/// Numbers of casts and operators are counted from here: nothing refers to them.
const FIRST_CAST_OID: u32 = 13_500;
const FIRST_OPERATOR_OID: u32 = 14_000;

fn languages(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    for (oid, name, trusted) in [(12, "internal", false), (14, "sql", true)] {
        rows.add([
            ("oid", u32::into(oid)),
            ("lanname", name.into()),
            ("lanowner", OWNER_OID.into()),
            ("lanpltrusted", trusted.into()),
        ])?;
    }
    Ok(())
}

/// All of them compare byte by byte.
fn collations(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    let namespace = namespace_oid(PG_CATALOG)?;
    let list = [
        (100, "default", 'd', -1, None),
        (950, "C", 'c', -1, Some("C")),
        (951, "POSIX", 'c', -1, Some("POSIX")),
    ];
    for (oid, name, provider, encoding, locale) in list {
        rows.add([
            ("oid", u32::into(oid)),
            ("collname", name.into()),
            ("collnamespace", namespace.into()),
            ("collowner", OWNER_OID.into()),
            ("collprovider", provider.into()),
            ("collisdeterministic", true.into()),
            ("collencoding", i32::into(encoding)),
            ("collcollate", locale.into()),
            ("collctype", locale.into()),
        ])?;
    }
    Ok(())
}

/// The casts that PostgreSQL would have in this catalog: those by input and output functions are not listed.
fn casts(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    for from in Scalar::ALL.map(Type::new) {
        for to in Scalar::ALL.map(Type::new).into_iter().filter(|to| *to != from) {
            let contexts = [(Context::Implicit, 'i'), (Context::Assignment, 'a'), (Context::Explicit, 'e')];
            let Some((_, letter)) = contexts.into_iter().find(|(c, _)| castable(from, to, *c)) else {
                continue;
            };
            let textual = |ty: Type| tidemill_sql::planner::coerce::is_string(ty.scalar);
            if letter != 'i' && (textual(from) || textual(to)) {
                continue;
            }
            rows.add([
                ("oid", (FIRST_CAST_OID + rows.len() as u32).into()),
                ("castsource", from.oid().into()),
                ("casttarget", to.oid().into()),
                ("castcontext", letter.into()),
                ("castmethod", if from.arrow() == to.arrow() { 'b' } else { 'f' }.into()),
            ])?;
        }
    }
    Ok(())
}

fn operators(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    let namespace = namespace_oid(PG_CATALOG)?;
    let boolean = Type::new(Scalar::Bool).oid();
    let oid_of = |param: Param| match param {
        Param::Is(ty) => ty.oid(),
        Param::AnyElement => 2283,
        Param::AnyArray => 2277,
        Param::Any => 2276,
    };
    let mut names: Vec<_> = registry().operator_names().collect();
    names.sort_unstable();
    for operator in names.into_iter().flat_map(|name| registry().operator(name)) {
        let binary = operator.takes(2);
        let result = match operator.returns {
            Returns::Is(ty) => ty.oid(),
            Returns::Element => 2283,
            Returns::Array => 2277,
        };
        rows.add([
            ("oid", (FIRST_OPERATOR_OID + rows.len() as u32).into()),
            ("oprname", operator.name.into()),
            ("oprnamespace", namespace.into()),
            ("oprowner", OWNER_OID.into()),
            ("oprkind", if binary { 'b' } else { 'l' }.into()),
            ("oprcanmerge", (operator.name == "=").into()),
            ("oprcanhash", (operator.name == "=" && result == boolean).into()),
            ("oprleft", if binary { oid_of(operator.param(0)) } else { 0 }.into()),
            ("oprright", oid_of(operator.param(usize::from(binary))).into()),
            ("oprresult", result.into()),
        ])?;
    }
    Ok(())
}
