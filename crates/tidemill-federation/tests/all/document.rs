//! The table of what each kind of server does, in docs/federation.md, is what the capabilities say.

use tidemill_federation::connector::{Capabilities, Logic};
use tidemill_federation::dialect::Comparison;
use tidemill_federation::wrapper::WRAPPERS;
use tidemill_sql::types::{Scalar, Type};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/federation.md");
const BEGIN: &str = "<!-- capabilities: written by a test (TIDEMILL_DOCS=update) -->\n";
const END: &str = "<!-- end of capabilities -->";

const TYPES: [Scalar; 18] = [
    Scalar::Bool,
    Scalar::Int2,
    Scalar::Int4,
    Scalar::Int8,
    Scalar::Float4,
    Scalar::Float8,
    Scalar::Numeric,
    Scalar::Text,
    Scalar::Varchar,
    Scalar::Name,
    Scalar::Bytea,
    Scalar::Date,
    Scalar::Time,
    Scalar::Timestamp,
    Scalar::Timestamptz,
    Scalar::Interval,
    Scalar::Uuid,
    Scalar::Oid,
];

/// What is done with columns of a type.
fn of_type(known: &Capabilities, scalar: Scalar) -> String {
    let ty = Type::new(scalar);
    let signs = [
        (known.compares(Comparison::Equal, ty), "="),
        (known.compares(Comparison::Less, ty), "<"),
        (known.groups(ty) || known.groups_by_key(ty), "group"),
        (known.aggregates("sum", ty) && known.aggregates("avg", ty), "sum"),
        (known.aggregates("min", ty) && known.aggregates("max", ty), "min"),
        (known.aggregates("stddev", ty) && known.aggregates("variance", ty), "stddev"),
        (known.aggregates("bool_and", ty) && known.aggregates("bool_or", ty), "bool_and"),
        (known.aggregates("bit_and", ty) && known.aggregates("bit_or", ty), "bit_and"),
    ];
    let done: Vec<_> = signs.into_iter().filter(|(is_done, _)| *is_done).map(|(_, sign)| sign).collect();
    done.join(" ")
}

/// Functions, operators, casts and CASE.
fn functions(known: &Capabilities) -> String {
    let mut names: Vec<String> = Vec::new();
    for name in known.functions.iter().flat_map(|function| function.names) {
        let name = format!("`{}`", name.replace('|', "\\|"));
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if !known.casts.is_empty() {
        names.push("casts that are exact".to_string());
    }
    if known.cases {
        names.push("`CASE WHEN`".to_string());
    }
    names.join(" ")
}

fn table() -> String {
    let known: Vec<_> = WRAPPERS.iter().filter_map(|w| Some((w.name, w.capabilities?))).collect();
    let yes = |is_so: bool| if is_so { "yes" } else { "" }.to_string();
    let mut lines = Vec::new();
    let mut line = |name: &str, cell: &dyn Fn(&Capabilities) -> String| {
        let cells: Vec<_> = known.iter().map(|(_, known)| cell(known)).collect();
        lines.push(format!("| {name} | {} |", cells.join(" | ")));
    };
    for scalar in TYPES {
        line(Type::new(scalar).display().as_str(), &|known| of_type(known, scalar));
    }
    line("`AND`", &|known| yes(known.logic.contains(&Logic::And)));
    line("`OR`", &|known| yes(known.logic.contains(&Logic::Or)));
    line("`NOT`", &|known| yes(known.logic.contains(&Logic::Not)));
    line("`IS [NOT] NULL`", &|known| yes(known.logic.contains(&Logic::IsNull)));
    line("`IS [NOT] DISTINCT FROM`", &|known| yes(known.comparisons.contains(&Comparison::Distinct)));
    line("`IN`", &|known| yes(known.lists));
    line("`LIKE`", &|known| yes(known.logic.contains(&Logic::Like)));
    line("`count`", &|known| yes(known.aggregates("count", Type::new(Scalar::Text))));
    line("in conditions, GROUP BY, ORDER BY, arguments of aggregates, UPDATE", &functions);
    line("`LIMIT`", &|known| yes(known.limit));
    line("`ORDER BY … LIMIT`", &|known| yes(known.sort));
    line("skips what no condition can want", &|known| yes(known.prunes));
    let names: Vec<_> = known.iter().map(|(name, _)| format!("`{name}`")).collect();
    let rule = "|---".repeat(names.len() + 1);
    format!("| | {} |\n{rule}|\n{}\n", names.join(" | "), lines.join("\n"))
}

#[test]
fn the_table_is_what_the_capabilities_say() {
    let text = std::fs::read_to_string(FILE).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the table has a beginning");
    let (written, after) = rest.split_once(END).expect("the table has an end");
    let wanted = table();
    if std::env::var("TIDEMILL_DOCS").is_ok_and(|mode| mode == "update") {
        std::fs::write(FILE, format!("{before}{BEGIN}{wanted}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(written, wanted, "run it with TIDEMILL_DOCS=update");
}
