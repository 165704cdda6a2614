//! The statements of each dialect, prepared once or written out with their values.

use crate::error::Result;
use crate::linkbench::compat::Compat;
use crate::linkbench::properties::Properties;
use crate::linkbench::schema::Schema;
use crate::target::{Connection, Dialect, Done, Rows, Statement, Stretch, Value};
use std::collections::BTreeMap;
use std::fmt::Write;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    InsertLink,
    UpsertLink,
    LockLink,
    UpdateLink,
    HideLink,
    HideLinks,
    ExpungeLink,
    ListLinks,
    GetCount,
    CompareCount,
    UpsertCount,
    ChangeCount,
    AddNode,
    GetNode,
    UpdateNode,
    DeleteNode,
}

/// All statements of one session. Values stand in the order in which the statement has its `?`.
pub struct Statements {
    dialect: Dialect,
    is_prepared: bool,
    /// Each waits for the one before.
    is_stepwise: bool,
    is_multiget_prepared: bool,
    texts: Vec<Text>,
    links: String,
    /// MULTIGET by the number of its ids.
    multigets: BTreeMap<usize, Statement>,
    /// Written-out statements go here.
    buffer: String,
    /// The last statement was written out: PostgreSQL answers that with bytes as hex digits.
    is_text: bool,
}

struct Text {
    template: String,
    prepared: Option<Statement>,
}

impl Statements {
    pub fn new(properties: &Properties, schema: &Schema, compat: Compat) -> crate::linkbench::Result<Self> {
        let is_prepared = |key: &str, default: &str| match properties.text(key).unwrap_or(default) {
            "prepared" => Ok(true),
            "literal" => Ok(false),
            other => Err(properties.wrong(key, format!("\"{other}\" is neither prepared nor literal"))),
        };
        let templates = templates(schema, compat);
        Ok(Statements {
            dialect: schema.dialect,
            is_prepared: is_prepared("statements", "prepared")?,
            is_stepwise: compat.round_trips,
            is_multiget_prepared: is_prepared("multiget", "literal")?,
            texts: templates.into_iter().map(|template| Text { template, prepared: None }).collect(),
            links: schema.links(),
            multigets: BTreeMap::new(),
            buffer: String::new(),
            is_text: false,
        })
    }

    /// Before the run, so that no operation pays for it.
    pub fn prepare(&mut self, connection: &mut dyn Connection) -> Result<()> {
        self.multigets.clear();
        for text in self.texts.iter_mut().filter(|_| self.is_prepared) {
            text.prepared = Some(connection.prepare(&with_placeholders(self.dialect, &text.template))?);
        }
        Ok(())
    }

    pub fn answers_in_text(&self) -> bool {
        self.is_text && self.dialect == Dialect::Postgres
    }

    pub fn run(
        &mut self,
        connection: &mut dyn Connection,
        which: Which,
        values: &[Value<'_>],
        rows: &mut Rows,
    ) -> Result<Done> {
        let prepared = self.prepared(which);
        self.is_text = prepared.is_none();
        if let Some(statement) = prepared {
            return connection.run(statement, values, Some(rows));
        }
        self.buffer.clear();
        write_out(self.dialect, &self.texts[which as usize].template, values, &mut self.buffer);
        connection.query(&self.buffer, rows)
    }

    /// The same as the first statement of a transaction.
    pub fn begin(
        &mut self,
        connection: &mut dyn Connection,
        which: Which,
        values: &[Value<'_>],
        rows: &mut Rows,
    ) -> Result<Done> {
        let prepared = self.prepared(which);
        self.is_text = prepared.is_none();
        if let Some(statement) = prepared {
            let steps = &[(statement, values)];
            return connection.run_stretch(Stretch { begins: true, steps, commits: false }, rows);
        }
        self.buffer.clear();
        if self.dialect == Dialect::Postgres {
            self.buffer.push_str("BEGIN;");
        } else {
            connection.execute(begin(self.dialect))?;
        }
        write_out(self.dialect, &self.texts[which as usize].template, values, &mut self.buffer);
        connection.query(&self.buffer, rows)
    }

    /// The last statements of a transaction, or all of them, and its COMMIT: none needs the answer of another one.
    pub fn run_to_commit(
        &mut self,
        connection: &mut dyn Connection,
        begins: bool,
        steps: &[(Which, &[Value<'_>])],
        rows: &mut Rows,
    ) -> Result<Done> {
        let prepared = |&(which, values): &(Which, _)| Some((self.prepared(which)?, values));
        let prepared: Option<Vec<_>> = steps.iter().map(prepared).collect();
        if let Some(steps) = prepared.filter(|_| !self.is_stepwise) {
            self.is_text = false;
            return connection.run_stretch(Stretch { begins, steps: &steps, commits: true }, rows);
        }
        let mut done = Done::default();
        for (index, (which, values)) in steps.iter().enumerate() {
            done = match begins && index == 0 {
                true => self.begin(connection, *which, values, rows)?,
                false => self.run(connection, *which, values, rows)?,
            };
        }
        connection.execute("COMMIT")?;
        Ok(done)
    }

    /// The statement of a session that has prepared all of them.
    fn prepared(&self, which: Which) -> Option<Statement> {
        self.texts[which as usize].prepared
    }

    pub fn multiget(
        &mut self,
        connection: &mut dyn Connection,
        (id1, link_type): (i64, i64),
        id2s: &[i64],
        rows: &mut Rows,
    ) -> Result<Done> {
        self.is_text = !self.is_multiget_prepared;
        let head = format_args!(
            "SELECT id1, id2, link_type, visibility, data, version, time FROM {} WHERE id1 = ",
            self.links
        );
        self.buffer.clear();
        if !self.is_multiget_prepared {
            let _ = write!(self.buffer, "{head}{id1} AND link_type = {link_type} AND id2 IN (");
            for (index, id2) in id2s.iter().enumerate() {
                let _ = write!(self.buffer, "{}{id2}", if index > 0 { "," } else { "" });
            }
            self.buffer.push(')');
            return connection.query(&self.buffer, rows);
        }
        let statement = match self.multigets.get(&id2s.len()) {
            Some(statement) => *statement,
            None => {
                let marks = vec!["?"; id2s.len()].join(",");
                let template = format!("{head}? AND link_type = ? AND id2 IN ({marks})");
                let statement = connection.prepare(&with_placeholders(self.dialect, &template))?;
                self.multigets.insert(id2s.len(), statement);
                statement
            }
        };
        let values: Vec<Value<'_>> = [id1, link_type].iter().chain(id2s).map(|&id| Value::Int(id)).collect();
        connection.run(statement, &values, Some(rows))
    }
}

/// SQLite takes its one write lock at once: two readers that both want to write would never get on.
pub fn begin(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => "BEGIN IMMEDIATE",
        Dialect::Postgres | Dialect::MySql | Dialect::Noop => "BEGIN",
    }
}

/// In the order of [`Which`].
fn templates(schema: &Schema, compat: Compat) -> [String; 16] {
    let (links, counts, nodes) = (schema.links(), schema.counts(), schema.nodes());
    let dialect = schema.dialect;
    let insert = format!(
        "INSERT INTO {links} (id1, id2, link_type, visibility, data, version, time) VALUES (?, ?, ?, ?, ?, ?, ?)"
    );
    let key = "WHERE id1 = ? AND id2 = ? AND link_type = ?";
    let columns = "id1, id2, link_type, visibility, data, version, time";
    let lock = if dialect == Dialect::Sqlite { "" } else { " FOR UPDATE" };
    let returning = match dialect {
        Dialect::Postgres if compat.returning => " RETURNING *",
        Dialect::Postgres | Dialect::Sqlite => " RETURNING id",
        Dialect::MySql | Dialect::Noop => "",
    };
    [
        insert.clone(),
        format!("{insert}{}", on_conflict(schema, compat)),
        format!("SELECT visibility FROM {links} {key}{lock}"),
        format!("UPDATE {links} SET visibility = ?, data = ?, version = ?, time = ? {key}"),
        format!("UPDATE {links} SET visibility = 0 {key}"),
        format!("UPDATE {links} SET visibility = 0 WHERE id1 = ? AND link_type = ? AND visibility = 1"),
        format!("DELETE FROM {links} {key}"),
        format!(
            "SELECT {columns} FROM {links} WHERE id1 = ? AND link_type = ? AND time >= ? AND time <= ? \
             AND visibility = 1 ORDER BY time DESC LIMIT ? OFFSET ?"
        ),
        format!("SELECT count FROM {counts} WHERE id = ? AND link_type = ?"),
        // One statement, so that both numbers are of one snapshot.
        format!(
            "SELECT coalesce((SELECT count FROM {counts} WHERE id = ? AND link_type = ?), 0), \
             (SELECT count(*) FROM {links} WHERE id1 = ? AND link_type = ? AND visibility = 1)"
        ),
        upsert_count(schema),
        format!(
            "UPDATE {counts} SET count = count + ?, version = version + 1, time = ? WHERE id = ? AND link_type = ?"
        ),
        format!("INSERT INTO {nodes} (type, version, time, data) VALUES (?, ?, ?, ?){returning}"),
        format!("SELECT id, type, version, time, data FROM {nodes} WHERE id = ?"),
        format!("UPDATE {nodes} SET version = ?, time = ?, data = ? WHERE id = ? AND type = ?"),
        format!("DELETE FROM {nodes} WHERE id = ? AND type = ?"),
    ]
}

fn upsert_count(schema: &Schema) -> String {
    let counts = schema.counts();
    let table = counts.rsplit('.').next().unwrap_or(&counts);
    let insert = format!("INSERT INTO {counts} (id, link_type, count, time, version) VALUES (?, ?, ?, ?, 0)");
    match schema.dialect {
        Dialect::MySql => {
            format!("{insert} ON DUPLICATE KEY UPDATE count = count + ?, version = version + 1, time = ?")
        }
        _ => format!(
            "{insert} ON CONFLICT (id, link_type) DO UPDATE SET count = {table}.count + ?, \
             version = {table}.version + 1, time = ?"
        ),
    }
}

/// The upsert writes a link that is new or hidden, and says so by the number of rows: one that is visible is left to a
/// second statement, because it must not be counted again.
fn on_conflict(schema: &Schema, compat: Compat) -> String {
    let links = schema.links();
    let table = links.rsplit('.').next().unwrap_or(&links);
    match schema.dialect {
        Dialect::MySql if compat.upsert => {
            " ON DUPLICATE KEY UPDATE visibility = VALUES(visibility)".to_owned()
        }
        // Any change will do: two rows were met then, and the link is locked.
        Dialect::MySql => " ON DUPLICATE KEY UPDATE version = version + 1".to_owned(),
        _ if compat.upsert => {
            " ON CONFLICT (link_type, id1, id2) DO UPDATE SET visibility = EXCLUDED.visibility".to_owned()
        }
        _ => format!(
            " ON CONFLICT (link_type, id1, id2) DO UPDATE SET visibility = EXCLUDED.visibility, \
             data = EXCLUDED.data, version = EXCLUDED.version, time = EXCLUDED.time \
             WHERE {table}.visibility <> EXCLUDED.visibility"
        ),
    }
}

fn with_placeholders(dialect: Dialect, template: &str) -> String {
    let mut text = String::with_capacity(template.len() + 16);
    let mut count = 0;
    for part in template.split_inclusive('?') {
        match part.strip_suffix('?') {
            Some(before) => {
                count += 1;
                text.push_str(before);
                text.push_str(&dialect.placeholder(count));
            }
            None => text.push_str(part),
        }
    }
    text
}

/// The template with values in the place of its `?`, as a literal of the dialect each.
fn write_out(dialect: Dialect, template: &str, values: &[Value<'_>], into: &mut String) {
    let mut values = values.iter();
    for part in template.split_inclusive('?') {
        match part.strip_suffix('?') {
            Some(before) => {
                into.push_str(before);
                write_literal(dialect, values.next().copied().unwrap_or(Value::Null), into);
            }
            None => into.push_str(part),
        }
    }
}

fn write_literal(dialect: Dialect, value: Value<'_>, into: &mut String) {
    // Writing to a string cannot fail.
    let _ = match value {
        Value::Null => write!(into, "NULL"),
        Value::Int(value) => write!(into, "{value}"),
        Value::Float(value) => write!(into, "{value:?}"),
        Value::Text(text) => {
            let is_mysql = dialect == Dialect::MySql;
            into.push('\'');
            for c in text.chars() {
                if c == '\'' || (c == '\\' && is_mysql) {
                    into.push(c);
                }
                into.push(c);
            }
            write!(into, "'")
        }
        Value::Bytes(bytes) => {
            into.push_str(if dialect == Dialect::Postgres { "'\\x" } else { "x'" });
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            for byte in bytes {
                into.push(char::from(DIGITS[usize::from(byte >> 4)]));
                into.push(char::from(DIGITS[usize::from(byte & 15)]));
            }
            write!(into, "'")
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_out() {
        let mut text = String::new();
        let values = [Value::Int(-3), Value::Text("it's \\"), Value::Bytes(&[0, 255])];
        write_out(Dialect::Postgres, "f(?, ?, ?)", &values, &mut text);
        assert_eq!(text, "f(-3, 'it''s \\', '\\x00ff')");
        text.clear();
        write_out(Dialect::MySql, "f(?, ?, ?)", &values, &mut text);
        assert_eq!(text, "f(-3, 'it''s \\\\', x'00ff')");
        assert_eq!(with_placeholders(Dialect::Postgres, "a = ? AND b = ?"), "a = $1 AND b = $2");
        assert_eq!(with_placeholders(Dialect::MySql, "a = ?"), "a = ?");
    }
}
