//! Definitions as the catalog's file keeps them.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tidemill_sql::types::{Scalar, Type};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StreamObject {
    pub name: String,
    #[serde(serialize_with = "write_columns", deserialize_with = "read_columns")]
    pub columns: Vec<(String, Type)>,
    /// False for a stream that came into being with the first view that reads it and goes with the last.
    pub declared: bool,
    /// Made by `CREATE FOREIGN TABLE … SERVER`.
    pub server: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ViewObject {
    pub name: String,
    /// The text of the SELECT.
    pub query: String,
    #[serde(default)]
    pub options: ViewOptions,
    pub active: bool,
    pub created_at_us: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TransformObject {
    pub name: String,
    /// The text of the SELECT.
    pub query: String,
    #[serde(default)]
    pub options: ViewOptions,
    /// What takes the rows, by the name that the statement gave it.
    pub function: String,
    /// The numbers of the streams and tables that it puts them into.
    pub outputs: Vec<u32>,
    /// Of outputs that are foreign tables.
    #[serde(default)]
    pub queues: Vec<QueueObject>,
    pub active: bool,
    pub created_at_us: i64,
}

/// Where rows for a foreign table are kept until it has them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct QueueObject {
    /// The number of the foreign table.
    pub output: u32,
    /// Its columns when the queue was made.
    pub columns: Vec<TableColumn>,
    /// The numbers of the hidden tables.
    pub waiting: u32,
    pub sending: u32,
    pub mark: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TableObject {
    pub name: String,
    pub columns: Vec<TableColumn>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TableColumn {
    pub name: String,
    pub ty: Type,
    pub not_null: bool,
    /// The text of its expression.
    pub default: Option<String>,
    /// The number of the default in `pg_attrdef`; 0 if there is none.
    pub default_oid: u32,
}

/// A view without a state: its query is planned into every query that reads it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlainViewObject {
    pub name: String,
    /// The text of the SELECT.
    pub query: String,
    /// As they were when the view was made: what `*` stands for later makes no difference.
    #[serde(serialize_with = "write_columns", deserialize_with = "read_columns")]
    pub columns: Vec<(String, Type)>,
    /// The user's relations that the query names itself.
    pub reads: Vec<String>,
    /// What names without a schema are looked up in.
    pub search_path: Vec<String>,
    pub created_at_us: i64,
}

/// `WITH (…)` of a view.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ViewOptions {
    /// As written, for display.
    #[serde(default)]
    pub written: Vec<(String, String)>,
}

#[derive(Serialize, Deserialize)]
struct Column {
    name: String,
    #[serde(rename = "type")]
    typname: String,
    #[serde(default)]
    array: bool,
    #[serde(default = "no_typmod")]
    typmod: i32,
    #[serde(flatten)]
    of_table: OfTable,
}

/// What only a table's columns have.
#[derive(Default, Serialize, Deserialize)]
struct OfTable {
    #[serde(default, skip_serializing_if = "is_default")]
    not_null: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    default: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    default_oid: u32,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn no_typmod() -> i32 {
    -1
}

impl Column {
    fn new(name: &str, ty: Type, of_table: OfTable) -> Self {
        let typname = ty.scalar.typname().to_string();
        Self { name: name.to_string(), typname, array: ty.array, typmod: ty.typmod, of_table }
    }

    fn ty<E: serde::de::Error>(&self) -> Result<Type, E> {
        let scalar = Scalar::from_typname(&self.typname)
            .ok_or_else(|| E::custom(format!("unknown type \"{}\"", self.typname)))?;
        Ok(Type { scalar, array: self.array, typmod: self.typmod })
    }
}

fn write_columns<S: Serializer>(columns: &[(String, Type)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(columns.iter().map(|(name, ty)| Column::new(name, *ty, OfTable::default())))
}

fn read_columns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, Type)>, D::Error> {
    let columns = Vec::<Column>::deserialize(deserializer)?;
    columns.into_iter().map(|column| Ok((column.name.clone(), column.ty()?))).collect()
}

impl Serialize for TableColumn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (not_null, default) = (self.not_null, self.default.clone());
        let of_table = OfTable { not_null, default, default_oid: self.default_oid };
        Column::new(&self.name, self.ty, of_table).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TableColumn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let column = Column::deserialize(deserializer)?;
        let ty = column.ty()?;
        let OfTable { not_null, default, default_oid } = column.of_table;
        Ok(Self { name: column.name, ty, not_null, default, default_oid })
    }
}
