//! `pg_proc` and `pg_aggregate`: the functions that can be called.
//!
//! A function that PostgreSQL has with the same arguments has PostgreSQL's number; ours have numbers made from their
//! signatures, so that they stay the same from version to version.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use datafusion::logical_expr::Volatility;
use tidemill_sql::Result;
use tidemill_sql::aggregate::combine::Combination;
use tidemill_sql::function::{Overload, Param, Returns, registry};
use tidemill_sql::objects::Described;
use tidemill_sql::types::{Scalar, Type};

use super::datatype::DataType;
use super::namespace::{OWNER_OID, namespace_oid};
use super::{Fillers, PG_CATALOG, Rows, Snapshot};

pub(super) const FILLERS: Fillers =
    &[(PG_CATALOG, "pg_proc", procedures), (PG_CATALOG, "pg_aggregate", aggregates)];

/// PostgreSQL 15's functions of names that we have too: number, name, kind, set, volatility, result, arguments, and how
/// many of them are required.
const POSTGRESQL: &str = include_str!("procedures.tsv");

const INTERNAL_LANGUAGE: u32 = 12;
const ANY: u32 = 2276;
const ANY_ARRAY: u32 = 2277;
const ANY_ELEMENT: u32 = 2283;

/// A function, by its arguments' types.
#[derive(Debug, Clone)]
pub struct Procedure {
    pub oid: u32,
    pub name: &'static str,
    /// `f` function, `a` aggregate, `w` window function.
    pub kind: char,
    pub set: bool,
    pub variadic: bool,
    /// `i` immutable, `s` stable, `v` volatile.
    pub volatility: char,
    pub result: u32,
    pub arguments: Vec<u32>,
}

impl Procedure {
    fn parse(line: &'static str) -> Option<Self> {
        let mut parts = line.split('\t');
        let oid = parts.next()?.parse().ok()?;
        let name = parts.next()?;
        let kind = parts.next()?.chars().next()?;
        let set = parts.next()? == "t";
        let volatility = parts.next()?.chars().next()?;
        let result = parts.next()?.parse().ok()?;
        let arguments = parts.next()?.split_ascii_whitespace().map(|oid| oid.parse().ok());
        let arguments = arguments.collect::<Option<_>>()?;
        Some(Self { oid, name, kind, set, variadic: false, volatility, result, arguments })
    }

    fn of_overload(overload: &'static Overload) -> Self {
        let argument = |param: &Param| match param {
            Param::Is(ty) => ty.oid(),
            Param::AnyElement => ANY_ELEMENT,
            Param::AnyArray => ANY_ARRAY,
            Param::Any => ANY,
        };
        let result = match overload.returns {
            Returns::Is(ty) => ty.oid(),
            Returns::Element => ANY_ELEMENT,
            Returns::Array => ANY_ARRAY,
        };
        Self {
            oid: 0,
            name: overload.name,
            kind: 'f',
            set: overload.set,
            variadic: overload.variadic,
            volatility: match overload.volatility {
                Volatility::Immutable => 'i',
                Volatility::Stable => 's',
                Volatility::Volatile => 'v',
            },
            result,
            arguments: overload.params.iter().map(argument).collect(),
        }
    }

    fn of_combination(combination: Combination) -> Self {
        let result = match combination {
            Combination::Value => ANY_ELEMENT,
            Combination::State => Type::new(Scalar::Bytea).oid(),
            Combination::Layout => Type::new(Scalar::Text).oid(),
        };
        let mut procedure = Self {
            oid: 0,
            name: combination.name(),
            kind: 'a',
            set: false,
            variadic: false,
            volatility: 'i',
            result,
            arguments: vec![ANY_ELEMENT],
        };
        procedure.oid = own_number(&procedure);
        procedure
    }

    pub fn all() -> &'static [Procedure] {
        &PROCEDURES
    }

    pub fn of_oid(oid: u32) -> Option<&'static Procedure> {
        PROCEDURES.binary_search_by_key(&oid, |p| p.oid).ok().map(|i| &PROCEDURES[i])
    }

    pub fn of_name(name: &str) -> impl Iterator<Item = &'static Procedure> {
        PROCEDURES.iter().filter(move |p| p.name == name)
    }
}

/// All functions, by number: ours, the aggregates and window functions of PostgreSQL that we have, and the types'
/// input and output functions, which drivers look for.
static PROCEDURES: LazyLock<Vec<Procedure>> = LazyLock::new(|| {
    let parse = |line| Procedure::parse(line).expect("the table is well formed, which a test checks");
    let postgresql: Vec<Procedure> = POSTGRESQL.lines().map(parse).collect();
    let numbers: HashMap<(&str, &[u32]), u32> =
        postgresql.iter().map(|p| ((p.name, p.arguments.as_slice()), p.oid)).collect();
    let mut names: Vec<&str> = registry().function_names().collect();
    names.sort_unstable();
    let overloads = names.into_iter().flat_map(|name| registry().function(name));
    let mut all: Vec<Procedure> = overloads.map(|o| Procedure::of_overload(o)).collect();
    for procedure in &mut all {
        let known = numbers.get(&(procedure.name, procedure.arguments.as_slice()));
        procedure.oid = known.copied().unwrap_or_else(|| own_number(procedure));
    }
    all.extend(Combination::ALL.map(Procedure::of_combination));
    all.extend(postgresql.iter().filter(|p| is_other(p)).cloned());
    all.sort_by_key(|p| p.oid);
    let mut seen = HashSet::new();
    all.retain(|p| seen.insert(p.oid));
    all
});

/// An aggregate or window function that the planner knows, or a type's input or output function.
fn is_other(procedure: &Procedure) -> bool {
    static STATE: LazyLock<datafusion::execution::session_state::SessionState> =
        LazyLock::new(|| tidemill_sql::planner::session_state_builder().build());
    match procedure.kind {
        'a' => STATE.aggregate_functions().contains_key(procedure.name),
        'w' => STATE.window_functions().contains_key(procedure.name),
        _ => DataType::all().iter().any(|t| t.functions.contains(&procedure.name)),
    }
}

/// FNV-1a of the signature, above all numbers that objects are given.
fn own_number(procedure: &Procedure) -> u32 {
    let arguments = procedure.arguments.iter().flat_map(|oid| oid.to_le_bytes());
    let bytes = procedure.name.bytes().chain([0]).chain(arguments);
    bytes.fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)) | 0xf000_0000
}

/// As the functions that describe functions show it.
pub fn described(procedure: &'static Procedure) -> Described {
    let shown = |oid: &u32| DataType::of_oid(*oid).map_or_else(|| "???".to_string(), |t| t.shown.to_string());
    let mut arguments: Vec<String> = procedure.arguments.iter().map(shown).collect();
    if let Some(last) = arguments.last_mut().filter(|_| procedure.variadic) {
        *last = format!("VARIADIC {last}");
    }
    let set = if procedure.set { "SETOF " } else { "" };
    Described {
        name: procedure.name.to_string(),
        arguments: arguments.join(", "),
        result: format!("{set}{}", shown(&procedure.result)),
    }
}

fn procedures(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    let namespace = namespace_oid(PG_CATALOG)?;
    for p in Procedure::all() {
        rows.add([
            ("oid", p.oid.into()),
            ("proname", p.name.into()),
            ("pronamespace", namespace.into()),
            ("proowner", OWNER_OID.into()),
            ("prolang", INTERNAL_LANGUAGE.into()),
            ("procost", 1.into()),
            ("prorows", if p.set { 1000 } else { 0 }.into()),
            ("provariadic", if p.variadic { p.arguments.last().copied().unwrap_or(0) } else { 0 }.into()),
            ("prokind", p.kind.into()),
            ("proretset", p.set.into()),
            ("provolatile", p.volatility.into()),
            ("proparallel", 's'.into()),
            ("pronargs", p.arguments.len().into()),
            ("prorettype", p.result.into()),
            ("proargtypes", p.arguments.clone().into()),
            ("prosrc", p.name.into()),
        ])?;
    }
    Ok(())
}

fn aggregates(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    for p in Procedure::all().iter().filter(|p| p.kind == 'a') {
        rows.add([
            ("aggfnoid", p.oid.into()),
            ("aggkind", 'n'.into()),
            ("aggfinalmodify", 'r'.into()),
            ("aggmfinalmodify", 'r'.into()),
        ])?;
    }
    Ok(())
}

/// The number of a type's input or output function; 0 for `-`.
pub fn number_of(name: &str) -> u32 {
    Procedure::of_name(name).next().map_or(0, |p| p.oid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_postgresql_have_its_numbers() {
        let lower = Procedure::of_name("lower").next().unwrap();
        assert_eq!((lower.oid, lower.result), (870, 25));
        assert_eq!(Procedure::of_oid(2803).unwrap().name, "count");
        assert_eq!(Procedure::of_name("array_in").next().unwrap().oid, 750);
    }

    #[test]
    fn what_can_be_called_of_the_engine_is_in_postgresql() {
        let state = tidemill_sql::planner::session_state_builder().build();
        let names: HashSet<&str> = POSTGRESQL.lines().filter_map(|line| line.split('\t').nth(1)).collect();
        let ours: HashSet<String> =
            tidemill_sql::aggregate::all().iter().map(|f| f.name().to_string()).collect();
        let callable = state.aggregate_functions().keys().chain(state.window_functions().keys());
        let callable = callable.chain(state.table_functions().keys()).chain(state.scalar_functions().keys());
        // GROUPING is grammar in PostgreSQL. `__pack` stands for arguments while a statement is planned; nobody can call it.
        let others = ["grouping", "__pack"];
        let known = |name: &str| names.contains(name) || ours.contains(name) || others.contains(&name);
        let strange: Vec<&String> = callable.filter(|name| !known(name)).collect();
        assert!(strange.is_empty(), "{strange:?}");
        assert!(state.higher_order_functions().is_empty());
    }

    #[test]
    fn every_overload_has_a_number_of_its_own() {
        let overloads: usize = registry().function_names().map(|n| registry().function(n).len()).sum();
        let ours =
            Procedure::all().iter().filter(|p| !registry().function(p.name).is_empty() && p.kind == 'f');
        assert_eq!(ours.count(), overloads);
    }
}
