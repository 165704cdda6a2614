//! The store on a database with SQL: the same procedures everywhere, with each dialect's statements.

use super::statement::{Statements, Which};
use super::{Detours, Link, ListQuery, Node, Removal, Store, Written};
use crate::error::{Error, Result};
use crate::linkbench::compat::Compat;
use crate::linkbench::properties::Properties;
use crate::linkbench::schema::Schema;
use crate::target::{Connection, Dialect, Done, Rows, Value};

/// A session of one requester.
pub struct SqlStore {
    connection: Box<dyn Connection>,
    statements: Statements,
    schema: Schema,
    style: Style,
    compat: Compat,
    rows: Rows,
    detours: Detours,
}

/// How a link is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Insert; when it is there already, update in a second transaction: HEAD of the original.
    InsertThenUpdate,
    /// One statement for both: as first published.
    Upsert,
}

impl Style {
    pub fn new(properties: &Properties) -> crate::linkbench::Result<Self> {
        match properties.text("link_update").unwrap_or("insert-then-update") {
            "insert-then-update" => Ok(Style::InsertThenUpdate),
            "upsert" => Ok(Style::Upsert),
            other => {
                let message = format!("\"{other}\" is neither upsert nor insert-then-update");
                Err(properties.wrong("link_update", message))
            }
        }
    }
}

/// An addition that finds a link, whose update finds none, and so on: given up after this many turns.
const TURNS_MAX: usize = 4;

impl SqlStore {
    pub fn new(
        mut connection: Box<dyn Connection>,
        properties: &Properties,
        schema: &Schema,
        compat: Compat,
    ) -> Result<Self> {
        let mut statements = Statements::new(properties, schema, compat)?;
        statements.prepare(connection.as_mut())?;
        Ok(SqlStore {
            connection,
            statements,
            schema: schema.clone(),
            style: Style::new(properties)?,
            compat,
            rows: Rows::default(),
            detours: Detours::default(),
        })
    }

    /// From here on the rows of an answer are counted and its last one is kept: requests look at no more.
    pub fn keep_last_rows(&mut self) {
        self.rows = Rows::of_last_row();
    }

    /// Whether the session has ended. A transaction that is open is given up.
    pub fn is_lost(&mut self) -> bool {
        matches!(self.rollback(), Err(Error::Lost(_)))
    }

    /// Goes on in another session.
    pub fn reopen(&mut self, mut connection: Box<dyn Connection>) -> Result<()> {
        self.statements.prepare(connection.as_mut())?;
        self.connection = connection;
        Ok(())
    }

    pub(super) fn run(&mut self, which: Which, values: &[Value<'_>]) -> Result<Done> {
        self.statements.run(self.connection.as_mut(), which, values, &mut self.rows)
    }

    /// The first statement of a transaction: where the protocol lets it, BEGIN travels with it.
    pub(super) fn begin(&mut self, which: Which, values: &[Value<'_>]) -> Result<Done> {
        self.statements.begin(self.connection.as_mut(), which, values, &mut self.rows)
    }

    /// The last statements of a transaction, or with `begins` all of them, and its COMMIT.
    fn run_to_commit(&mut self, begins: bool, steps: &[(Which, &[Value<'_>])]) -> Result<Done> {
        self.statements.run_to_commit(self.connection.as_mut(), begins, steps, &mut self.rows)
    }

    pub(super) fn commit(&mut self) -> Result<()> {
        self.connection.execute("COMMIT").map(|_| ())
    }

    pub(super) fn rollback(&mut self) -> Result<()> {
        self.connection.execute("ROLLBACK").map(|_| ())
    }

    /// Leaves no transaction open behind an error, so that the session can go on.
    pub(super) fn closed<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(Error::Server(_) | Error::Wrong(_)) = &result {
            // The first error is the one to tell; some servers have rolled back already.
            let _ = self.rollback();
        }
        result
    }

    /// A write that must meet this many rows; a target that does nothing is believed.
    pub(super) fn must_affect(
        &self,
        done: Done,
        rows: std::ops::RangeInclusive<u64>,
        what: &str,
    ) -> Result<()> {
        if rows.contains(&done.affected) || self.schema.dialect == Dialect::Noop {
            return Ok(());
        }
        Err(Error::Wrong(format!("{what} met {} rows", done.affected)))
    }

    fn data<'a>(&self, data: &'a [u8], text: &'a mut String) -> Value<'a> {
        data_value(self.schema.is_text(), data, text)
    }

    /// Adds to the count of an id and type, which may not be there yet.
    fn count_in(&mut self, link: &Link) -> Result<()> {
        let done = self.run(Which::UpsertCount, &counted(link))?;
        self.must_be_counted(done)
    }

    /// MySQL says 2 when the count was there.
    fn must_be_counted(&self, done: Done) -> Result<()> {
        self.must_affect(done, 1..=2, "adding to a count")
    }

    /// The end of a transaction: the change of a link, and of its count (by how much, when, whose) where it changes too.
    fn change(&mut self, link: (Which, &[Value<'_>]), count: Option<[i64; 4]>) -> Result<()> {
        let Some(count) = count.map(|values| values.map(Value::Int)) else {
            return self.run_to_commit(false, &[link]).map(|_| ());
        };
        let done = self.run_to_commit(false, &[link, (Which::ChangeCount, &count)])?;
        self.must_affect(done, 1..=1, "changing a count")
    }

    fn insert(&mut self, link: &Link) -> Result<()> {
        let mut text = String::new();
        let (new, count) = (self.added(link, &mut text), counted(link));
        let done = self.run_to_commit(true, &[(Which::InsertLink, &new), (Which::UpsertCount, &count)]);
        let result = done.and_then(|done| self.must_be_counted(done));
        self.closed(result)
    }

    /// The values of a link that is new.
    fn added<'a>(&self, link: &'a Link, text: &'a mut String) -> [Value<'a>; 7] {
        [
            Value::Int(link.id1),
            Value::Int(link.id2),
            Value::Int(link.link_type),
            Value::Int(i64::from(link.is_visible)),
            self.data(&link.data, text),
            Value::Int(link.version),
            Value::Int(link.time),
        ]
    }

    fn upsert(&mut self, link: &Link) -> Result<Written> {
        let result = (|| {
            let mut text = String::new();
            let affected = self.begin(Which::UpsertLink, &self.added(link, &mut text))?.affected;
            let is_counted = match affected {
                // Counted once more and left as it is.
                _ if self.compat.upsert => true,
                2.. => {
                    // MySQL: it was there, and is locked now.
                    let key = [link.id1, link.id2, link.link_type].map(Value::Int);
                    self.run(Which::LockLink, &key)?;
                    self.rows.int(0, 0) == Some(0)
                }
                affected => affected == 1,
            };
            if is_counted {
                self.count_in(link)?;
            }
            match affected != 1 && !self.compat.upsert {
                true => self.overwrite(link, None)?,
                false => self.commit()?,
            }
            Ok(if affected == 1 { Written::Inserted } else { Written::Updated })
        })();
        self.closed(result)
    }

    fn overwrite(&mut self, link: &Link, count: Option<[i64; 4]>) -> Result<()> {
        let mut text = String::new();
        let values = [
            Value::Int(i64::from(link.is_visible)),
            self.data(&link.data, &mut text),
            Value::Int(link.version),
            Value::Int(link.time),
            Value::Int(link.id1),
            Value::Int(link.id2),
            Value::Int(link.link_type),
        ];
        self.change((Which::UpdateLink, &values), count)
    }

    /// Locks the link and says whether it is visible; none when it is not there. A transaction is open then.
    fn lock(&mut self, id1: i64, id2: i64, link_type: i64) -> Result<Option<bool>> {
        self.begin(Which::LockLink, &[id1, id2, link_type].map(Value::Int))?;
        Ok(self.rows.int(0, 0).map(|visibility| visibility != 0))
    }

    /// False when there is no such link.
    fn update(&mut self, link: &Link) -> Result<bool> {
        let result = (|| {
            let Some(was_visible) = self.lock(link.id1, link.id2, link.link_type)? else {
                self.rollback()?;
                return Ok(false);
            };
            let change = i64::from(link.is_visible) - i64::from(was_visible);
            let count = [change, link.time, link.id1, link.link_type];
            self.overwrite(link, (change != 0).then_some(count))?;
            Ok(true)
        })();
        self.closed(result)
    }

    fn remove(&mut self, id1: i64, link_type: i64, id2: i64, removal: Removal) -> Result<bool> {
        let was_visible = match (self.lock(id1, id2, link_type)?, removal) {
            (None, _) | (Some(false), Removal::Hide) => {
                self.rollback()?;
                return Ok(false);
            }
            (Some(was_visible), _) => was_visible,
        };
        let which = match removal {
            Removal::Hide => Which::HideLink,
            Removal::Expunge => Which::ExpungeLink,
        };
        let key = [id1, id2, link_type].map(Value::Int);
        let count = [-1, crate::linkbench::now_ms(), id1, link_type];
        self.change((which, &key), was_visible.then_some(count))?;
        Ok(true)
    }

    /// Adds, or updates what is there: by turns, because others write at the same time.
    fn write(&mut self, link: &Link, mut is_update: bool) -> Result<Written> {
        for _ in 0..TURNS_MAX {
            if is_update {
                // A target that does nothing has no rows: it is not a reason to add.
                if self.update(link)? || self.schema.dialect == Dialect::Noop {
                    return Ok(Written::Updated);
                }
                self.detours.update_to_add += 1;
            } else {
                match self.insert(link) {
                    Err(error) if is_duplicate(&error) => self.detours.add_to_update += 1,
                    result => return result.map(|()| Written::Inserted),
                }
            }
            is_update = !is_update;
        }
        Err(Error::Wrong("a link comes and goes too quickly to be written".to_owned()))
    }

    fn row_data(&self, row: usize, column: usize) -> Vec<u8> {
        if self.schema.is_text() {
            let text = self.rows.text(row, column).unwrap_or_default();
            return text.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect();
        }
        let bytes = self.rows.bytes(row, column).unwrap_or_default();
        match bytes.strip_prefix(b"\\x") {
            Some(digits) if self.statements.answers_in_text() => unhex(digits),
            _ => bytes.to_vec(),
        }
    }
}

impl Store for SqlStore {
    fn add_link(&mut self, link: &Link) -> Result<Written> {
        // A hidden link that is new, or hides an old one: only looking first tells what the count must do.
        if self.style == Style::Upsert && (link.is_visible || self.compat.upsert) {
            return self.upsert(link);
        }
        self.write(link, false)
    }

    fn update_link(&mut self, link: &Link) -> Result<Written> {
        self.write(link, true)
    }

    fn delete_link(&mut self, id1: i64, link_type: i64, id2: i64, removal: Removal) -> Result<bool> {
        let result = self.remove(id1, link_type, id2, removal);
        self.closed(result)
    }

    fn multiget(&mut self, id1: i64, link_type: i64, id2s: &[i64]) -> Result<usize> {
        self.statements.multiget(self.connection.as_mut(), (id1, link_type), id2s, &mut self.rows)?;
        Ok(self.rows.len())
    }

    fn list_links(&mut self, query: &ListQuery) -> Result<usize> {
        let ListQuery { id1, link_type, time_min, time_max, offset, limit } = *query;
        self.run(Which::ListLinks, &[id1, link_type, time_min, time_max, limit, offset].map(Value::Int))?;
        Ok(self.rows.len())
    }

    fn count_links(&mut self, id1: i64, link_type: i64) -> Result<i64> {
        self.run(Which::GetCount, &[id1, link_type].map(Value::Int))?;
        Ok(self.rows.int(0, 0).unwrap_or(0))
    }

    fn check_count(&mut self, id1: i64, link_type: i64) -> Result<()> {
        self.run(Which::CompareCount, &[id1, link_type, id1, link_type].map(Value::Int))?;
        let (count, visible) = (self.rows.int(0, 0).unwrap_or(0), self.rows.int(0, 1).unwrap_or(0));
        if count == visible {
            return Ok(());
        }
        Err(Error::Wrong(format!(
            "the count of id {id1} and type {link_type} is {count}, and {visible} of its links are visible"
        )))
    }

    /// Columns: id1, id2, link_type, visibility, data, version, time.
    fn link(&self, row: usize) -> Link {
        let int = |column| self.rows.int(row, column).unwrap_or_default();
        Link {
            id1: int(0),
            id2: int(1),
            link_type: int(2),
            is_visible: int(3) != 0,
            data: self.row_data(row, 4),
            version: int(5),
            time: int(6),
        }
    }

    fn link_time(&self, row: usize) -> i64 {
        self.rows.int(row, 6).unwrap_or_default()
    }

    fn add_node(&mut self, node: &Node) -> Result<()> {
        let mut text = String::new();
        let data = self.data(&node.data, &mut text);
        let values = [Value::Int(node.node_type), Value::Int(node.version), Value::Int(node.time), data];
        let done = self.run(Which::AddNode, &values)?;
        self.must_affect(done, 1..=1, "adding a node")
    }

    fn last_node_id(&mut self) -> Result<i64> {
        if self.schema.dialect == Dialect::MySql {
            self.connection.query("SELECT LAST_INSERT_ID()", &mut self.rows)?;
        }
        self.rows.int(0, 0).ok_or_else(|| Error::Wrong("no id came back for a node".to_owned()))
    }

    fn get_node(&mut self, node_type: i64, id: i64) -> Result<bool> {
        self.run(Which::GetNode, &[Value::Int(id)])?;
        Ok(self.rows.int(0, 1) == Some(node_type))
    }

    /// Columns: id, type, version, time, data.
    fn node(&self) -> Node {
        let int = |column| self.rows.int(0, column).unwrap_or_default();
        let (id, node_type, version, time) = (int(0), int(1), int(2), int(3));
        Node { id, node_type, version, time, data: self.row_data(0, 4) }
    }

    fn update_node(&mut self, node: &Node) -> Result<bool> {
        let mut text = String::new();
        let data = self.data(&node.data, &mut text);
        let values = [
            Value::Int(node.version),
            Value::Int(node.time),
            data,
            Value::Int(node.id),
            Value::Int(node.node_type),
        ];
        Ok(self.run(Which::UpdateNode, &values)?.affected > 0)
    }

    fn delete_node(&mut self, node_type: i64, id: i64) -> Result<bool> {
        Ok(self.run(Which::DeleteNode, &[id, node_type].map(Value::Int))?.affected > 0)
    }

    fn detours(&self) -> Detours {
        self.detours
    }
}

/// Data for a column of bytes, or of text: there every byte is the character with its number.
pub fn data_value<'a>(is_text: bool, data: &'a [u8], text: &'a mut String) -> Value<'a> {
    if !is_text {
        return Value::Bytes(data);
    }
    text.clear();
    text.extend(data.iter().map(|&byte| char::from(byte)));
    Value::Text(text)
}

/// What is written to the count of a new link's id and type.
fn counted(link: &Link) -> [Value<'static>; 6] {
    let change = i64::from(link.is_visible);
    [link.id1, link.link_type, change, link.time, change, link.time].map(Value::Int)
}

fn unhex(digits: &[u8]) -> Vec<u8> {
    let digit = |c: u8| char::from(c).to_digit(16).unwrap_or(0) as u8;
    digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, &c| byte << 4 | digit(c))).collect()
}

fn is_duplicate(error: &Error) -> bool {
    matches!(error.code(), Some("23505" | "1062" | "23000" | "SQLITE_CONSTRAINT"))
}
