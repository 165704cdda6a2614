//! The three tables, as each database wants them.

use super::Result;
use super::origin;
use super::properties::Properties;
use crate::catalog::PRIMARY_KEY;
use crate::target::Dialect;

/// Names and choices of the tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    pub dialect: Dialect,
    /// Where the tables are not in the database of the URL itself: a schema of PostgreSQL; of MySQL, where there are
    /// several shards, another database.
    namespace: Option<String>,
    links: String,
    counts: String,
    nodes: String,
    id_type: IdType,
    data_type: DataType,
    /// Of the link table, by hash of the first id; 1 is a plain table.
    partitions: u32,
    has_covering_index: bool,
    fillfactor: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IdType {
    Bigint,
    Numeric,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DataType {
    Bytes,
    Text,
}

const PARTITIONS_MAX: u32 = 1024;

impl Schema {
    /// Of the only shard.
    #[cfg(test)]
    pub fn new(properties: &Properties, dialect: Dialect) -> Result<Self> {
        Self::of_shard(properties, dialect, 0, 1)
    }

    /// Of shard `index` of `shards`.
    pub fn of_shard(properties: &Properties, dialect: Dialect, index: usize, shards: usize) -> Result<Self> {
        let name = |key: &str, default: &str| {
            let name = properties.text(key).unwrap_or(default);
            let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if plain && !name.starts_with(|c: char| c.is_ascii_digit()) {
                return Ok(name.to_ascii_lowercase());
            }
            Err(properties.wrong(key, format!("\"{name}\" is not a plain name")))
        };
        let id_type = match properties.text("id_type").unwrap_or("bigint") {
            "bigint" => IdType::Bigint,
            "numeric" | "numeric(20)" => IdType::Numeric,
            other => {
                return Err(properties.wrong("id_type", format!("\"{other}\" is neither bigint nor numeric")));
            }
        };
        let data_type = match properties.text("data_type").unwrap_or("bytea") {
            "bytea" => DataType::Bytes,
            "text" => DataType::Text,
            other => {
                return Err(properties.wrong("data_type", format!("\"{other}\" is neither bytea nor text")));
            }
        };
        Ok(Schema {
            dialect,
            namespace: namespace(dialect, &name("dbprefix", "linkdb")?, index, shards),
            links: name("linktable", "linktable")?,
            counts: name("counttable", "counttable")?,
            nodes: name("nodetable", "nodetable")?,
            id_type,
            data_type,
            partitions: partitions(properties, dialect)?,
            has_covering_index: properties.or("covering_index", true)?,
            fillfactor: fillfactor(properties, dialect)?,
        })
    }

    pub fn links(&self) -> String {
        self.qualified(&self.links)
    }

    pub fn counts(&self) -> String {
        self.qualified(&self.counts)
    }

    pub fn nodes(&self) -> String {
        self.qualified(&self.nodes)
    }

    /// Data goes as text: bytes above 127 as the characters with their numbers.
    pub fn is_text(&self) -> bool {
        self.data_type == DataType::Text
    }

    pub fn qualified(&self, table: &str) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}.{table}"),
            None => table.to_owned(),
        }
    }

    /// A schema or database of its own.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// How it is told apart from other shards.
    pub fn name(&self) -> &str {
        self.namespace.as_deref().unwrap_or("the only shard")
    }

    /// Removes what an earlier run left.
    pub fn drop_tables(&self) -> Vec<String> {
        let tables = [self.links(), self.counts(), self.nodes()];
        // MySQL drops nothing from a database that is not there.
        let drops = tables.map(|table| format!("DROP TABLE IF EXISTS {table}"));
        self.create_namespace().into_iter().chain(drops).chain([origin::drop(self)]).collect()
    }

    /// In MySQL the same statement makes a database.
    fn create_namespace(&self) -> Option<String> {
        self.namespace.as_ref().map(|name| format!("CREATE SCHEMA IF NOT EXISTS {name}"))
    }

    /// The tables before the load.
    pub fn create_tables(&self) -> Vec<String> {
        let mut statements = Vec::from_iter(self.create_namespace());
        statements.extend([self.create_links(), self.create_counts(), self.create_nodes()]);
        if self.dialect == Dialect::Postgres && self.partitions > 1 {
            let (links, all) = (self.links(), self.partitions);
            statements.extend((0..all).map(|index| {
                let with = self.storage();
                format!("CREATE TABLE {links}_{index} PARTITION OF {links} FOR VALUES WITH (MODULUS {all}, REMAINDER {index}){with}")
            }));
        }
        statements
    }

    /// What each table has after `finish`, as the catalogue tells it.
    pub fn keys(&self) -> [(&str, Vec<String>); 3] {
        let primary = || PRIMARY_KEY.to_owned();
        let of_links = vec![primary(), "INDEX id1_type".to_owned()];
        [(&self.links, of_links), (&self.counts, vec![primary()]), (&self.nodes, vec![primary()])]
    }

    /// What the planner must know, then keys and indexes that are quicker to build when the rows are there: they come last,
    /// because where one of them is missing the load was cut short.
    pub fn finish(&self) -> Vec<String> {
        let (links, counts, nodes) = (self.links(), self.counts(), self.nodes());
        let covering = match self.dialect {
            // InnoDB cannot index a blob in full.
            Dialect::MySql => "id1, link_type, visibility, time, id2, version",
            _ => "id1, link_type, visibility, time, id2, version, data",
        };
        let columns = if self.has_covering_index { covering } else { "id1, link_type, visibility, time" };
        let index = format!("CREATE INDEX id1_type ON {links} ({columns})");
        match self.dialect {
            Dialect::Postgres => vec![
                // Without it the covering index cannot answer by itself, and plans are guesses.
                format!("VACUUM (ANALYZE) {links}"),
                format!("VACUUM (ANALYZE) {counts}"),
                format!("VACUUM (ANALYZE) {nodes}"),
                format!("ALTER TABLE {links} ADD PRIMARY KEY (link_type, id1, id2)"),
                index,
                format!(
                    "ALTER TABLE {counts} ADD CONSTRAINT {}_pkey PRIMARY KEY (id, link_type)",
                    self.counts
                ),
                format!("ALTER TABLE {nodes} ADD PRIMARY KEY (id)"),
            ],
            Dialect::MySql => vec![format!("ANALYZE TABLE {links}, {counts}, {nodes}"), index],
            // Its statistics are those of indexes: both or none.
            Dialect::Sqlite => ["BEGIN", &index, "ANALYZE", "COMMIT"].map(str::to_owned).to_vec(),
            Dialect::Noop => Vec::new(),
        }
    }

    /// Node ids continue from here.
    pub fn restart_nodes(&self, next: i64) -> Vec<String> {
        let nodes = self.nodes();
        match self.dialect {
            Dialect::Postgres => vec![format!("ALTER SEQUENCE {nodes}_id_seq RESTART WITH {next}")],
            Dialect::MySql => vec![format!("ALTER TABLE {nodes} AUTO_INCREMENT = {next}")],
            Dialect::Sqlite => vec![
                format!("DELETE FROM sqlite_sequence WHERE name = '{nodes}'"),
                format!("INSERT INTO sqlite_sequence (name, seq) VALUES ('{nodes}', {})", next - 1),
            ],
            Dialect::Noop => Vec::new(),
        }
    }

    fn id(&self) -> &'static str {
        match (self.id_type, self.dialect) {
            (_, Dialect::Sqlite) => "INTEGER",
            (IdType::Bigint, _) => "bigint",
            (IdType::Numeric, _) => "numeric(20)",
        }
    }

    fn data(&self) -> &'static str {
        match (self.data_type, self.dialect) {
            (DataType::Text, Dialect::MySql) => "mediumtext CHARACTER SET utf8mb4",
            (DataType::Text, _) => "text",
            (DataType::Bytes, Dialect::Postgres | Dialect::Noop) => "bytea",
            (DataType::Bytes, Dialect::MySql) => "mediumblob",
            (DataType::Bytes, Dialect::Sqlite) => "blob",
        }
    }

    fn storage(&self) -> String {
        self.fillfactor.map_or(String::new(), |percent| format!(" WITH (fillfactor = {percent})"))
    }

    /// The end of a table's definition: its key where rows must have one from the start.
    fn table_end(&self, key: &str) -> String {
        match self.dialect {
            Dialect::Postgres | Dialect::Noop => format!("){}", self.storage()),
            Dialect::MySql => format!(", PRIMARY KEY ({key})) ENGINE = InnoDB"),
            Dialect::Sqlite => format!(", PRIMARY KEY ({key})) WITHOUT ROWID"),
        }
    }

    fn create_links(&self) -> String {
        let (links, id, data) = (self.links(), self.id(), self.data());
        let columns = format!(
            "CREATE TABLE {links} (id1 {id} NOT NULL, id2 {id} NOT NULL, link_type {id} NOT NULL, \
             visibility smallint NOT NULL, data {data} NOT NULL, time bigint NOT NULL, version int NOT NULL"
        );
        let is_partitioned = self.partitions > 1;
        match self.dialect {
            Dialect::Postgres if is_partitioned => format!("{columns}) PARTITION BY HASH (id1)"),
            Dialect::MySql if is_partitioned => {
                let end = self.table_end("link_type, id1, id2");
                format!("{columns}{end} PARTITION BY KEY (id1) PARTITIONS {}", self.partitions)
            }
            _ => format!("{columns}{}", self.table_end("link_type, id1, id2")),
        }
    }

    fn create_counts(&self) -> String {
        let (counts, id) = (self.counts(), self.id());
        format!(
            "CREATE TABLE {counts} (id {id} NOT NULL, link_type {id} NOT NULL, count bigint NOT NULL, \
             time bigint NOT NULL, version bigint NOT NULL{}",
            self.table_end("id, link_type")
        )
    }

    fn create_nodes(&self) -> String {
        let (nodes, data) = (self.nodes(), self.data());
        let columns =
            format!("type int NOT NULL, version bigint NOT NULL, time int NOT NULL, data {data} NOT NULL");
        match self.dialect {
            Dialect::Postgres | Dialect::Noop => {
                format!("CREATE TABLE {nodes} (id bigserial, {columns}){}", self.storage())
            }
            Dialect::MySql => {
                format!(
                    "CREATE TABLE {nodes} (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, {columns}) ENGINE = InnoDB"
                )
            }
            Dialect::Sqlite => {
                format!("CREATE TABLE {nodes} (id INTEGER PRIMARY KEY AUTOINCREMENT, {columns})")
            }
        }
    }
}

fn namespace(dialect: Dialect, prefix: &str, index: usize, shards: usize) -> Option<String> {
    let is_inside = match dialect {
        Dialect::Postgres | Dialect::Noop => true,
        Dialect::MySql => shards > 1,
        Dialect::Sqlite => false,
    };
    is_inside.then(|| format!("{prefix}{index}"))
}

fn partitions(properties: &Properties, dialect: Dialect) -> Result<u32> {
    let partitions = properties.or("partitions", 1)?;
    let most = if dialect == Dialect::Sqlite { 1 } else { PARTITIONS_MAX };
    if (1..=most).contains(&partitions) {
        return Ok(partitions);
    }
    Err(properties.wrong("partitions", format!("{partitions} is not between 1 and {most} here")))
}

fn fillfactor(properties: &Properties, dialect: Dialect) -> Result<Option<u8>> {
    let fillfactor: Option<u8> = properties.optional("fillfactor")?;
    if fillfactor.is_some_and(|percent| !(10..=100).contains(&percent) || dialect != Dialect::Postgres) {
        return Err(properties.wrong("fillfactor", "is from 10 to 100, and PostgreSQL's only".to_owned()));
    }
    Ok(fillfactor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(definitions: &[&str], dialect: Dialect) -> Result<Schema> {
        let mut properties = Properties::default();
        definitions.iter().for_each(|definition| properties.define(definition).unwrap());
        Schema::new(&properties, dialect)
    }

    #[test]
    fn choices_show_in_the_tables() {
        let plain = schema(&[], Dialect::Postgres).unwrap().create_tables();
        assert_eq!(plain[0], "CREATE SCHEMA IF NOT EXISTS linkdb0");
        assert!(plain[1].starts_with("CREATE TABLE linkdb0.linktable (id1 bigint NOT NULL"), "{}", plain[1]);
        let chosen = ["id_type=numeric", "data_type=text", "partitions=16", "fillfactor=80"];
        let chosen = schema(&chosen, Dialect::Postgres).unwrap().create_tables();
        assert!(chosen[1].contains("id1 numeric(20)") && chosen[1].ends_with("PARTITION BY HASH (id1)"));
        assert_eq!(chosen.len(), 4 + 16);
        assert!(chosen[19].ends_with("FOR VALUES WITH (MODULUS 16, REMAINDER 15) WITH (fillfactor = 80)"));
    }

    #[test]
    fn what_a_database_lacks_is_refused() {
        let message = |definition: &str, dialect| schema(&[definition], dialect).unwrap_err().to_string();
        assert!(message("partitions=16", Dialect::Sqlite).contains("16 is not between 1 and 1 here"));
        assert!(message("fillfactor=80", Dialect::MySql).contains("PostgreSQL's only"));
        assert!(message("linktable=a;b", Dialect::Postgres).contains("not a plain name"));
    }
}
