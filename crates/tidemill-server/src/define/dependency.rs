//! What depends on what: objects that go with others, or keep them from going.

use tidemill_sql::name::quote_ident;
use tidemill_sql::{Result, SqlError, SqlState};

use crate::catalog::{Catalog, Relation};
use crate::pg::wire_error::Notice;

/// The objects named with all that depend on them. Without CASCADE these must have been named as well.
pub fn with_dependents(
    catalog: &Catalog,
    named: Vec<Relation>,
    cascade: bool,
) -> Result<(Vec<Relation>, Vec<Notice>)> {
    let mut found = Dependents { catalog, gone: named.clone(), lines: vec![] };
    named.iter().for_each(|relation| found.collect(relation));
    let Dependents { gone, lines, .. } = found;
    let further: Vec<_> = gone[named.len()..].iter().map(described).collect();
    if further.is_empty() {
        return Ok((gone, vec![]));
    }
    if !cascade {
        let what = match named.as_slice() {
            [one] => described(one),
            _ => "desired object(s)".to_string(),
        };
        let other = if named.len() == 1 { "it" } else { "them" };
        let message = format!("cannot drop {what} because other objects depend on {other}");
        return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
            .with_detail(lines.join("\n"))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
    }
    let notice = match further.as_slice() {
        [one] => Notice::new(format!("drop cascades to {one}")),
        many => {
            let lines: Vec<_> = many.iter().map(|object| format!("drop cascades to {object}")).collect();
            Notice::new(format!("drop cascades to {} other objects", many.len()))
                .with_detail(lines.join("\n"))
        }
    };
    Ok((gone, vec![notice]))
}

/// As messages name an object.
fn described(relation: &Relation) -> String {
    format!("{} {}", relation.kind(), quote_ident(relation.name()))
}

struct Dependents<'a> {
    catalog: &'a Catalog,
    gone: Vec<Relation>,
    /// `view b depends on view a`
    lines: Vec<String>,
}

impl Dependents<'_> {
    fn collect(&mut self, relation: &Relation) {
        for dependent in self.catalog.dependents(relation) {
            if self.gone.iter().any(|known| known.oid() == dependent.oid()) {
                continue;
            }
            self.lines.push(format!("{} depends on {}", described(&dependent), described(relation)));
            self.gone.push(dependent.clone());
            self.collect(&dependent);
        }
    }
}
