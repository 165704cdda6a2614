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
}

fn no_typmod() -> i32 {
    -1
}

fn write_columns<S: Serializer>(columns: &[(String, Type)], serializer: S) -> Result<S::Ok, S::Error> {
    let columns = columns.iter().map(|(name, ty)| Column {
        name: name.clone(),
        typname: ty.scalar.typname().to_string(),
        array: ty.array,
        typmod: ty.typmod,
    });
    serializer.collect_seq(columns)
}

fn read_columns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, Type)>, D::Error> {
    let columns = Vec::<Column>::deserialize(deserializer)?;
    columns
        .into_iter()
        .map(|c| {
            let scalar = Scalar::from_typname(&c.typname)
                .ok_or_else(|| serde::de::Error::custom(format!("unknown type \"{}\"", c.typname)))?;
            Ok((c.name, Type { scalar, array: c.array, typmod: c.typmod }))
        })
        .collect()
}
