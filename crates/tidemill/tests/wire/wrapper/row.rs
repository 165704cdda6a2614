//! Rows with what databases do not agree about: case, spaces at the end, empty texts, nulls, large numbers.

use super::query::Random;

/// The table's columns: `id int, small smallint, big bigint, x float8, name text, ok bool, day date, at timestamp`.
pub const COLUMNS: &str =
    "id int, small smallint, big bigint, x float8, name text, ok bool, day date, at timestamp";

#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub id: i32,
    pub small: Option<i16>,
    pub big: Option<i64>,
    pub x: Option<f64>,
    pub name: Option<&'static str>,
    pub ok: Option<bool>,
    pub day: Option<String>,
    pub at: Option<String>,
}

pub const NAMES: [&str; 16] =
    ["", " ", "a", "A", "a ", "ab", "Ab", "b", "é", "E", "z%", "_", "it's", "back\\slash", "Zoë", "10"];

pub fn rows(count: i32, seed: u64) -> Vec<Row> {
    let mut random = Random::new(seed);
    (1..=count).map(|id| row(id, &mut random)).collect()
}

fn row(id: i32, random: &mut Random) -> Row {
    let small = random.some().then(|| random.below(13) as i16 - 6);
    let big = random.some().then(|| match random.below(8) {
        0 => i64::MAX - 1,
        1 => i64::MIN + 1,
        2 => 9_007_199_254_740_993,
        n => n as i64 * 1000 - 4000,
    });
    // Sums of these are exact in any order.
    let x = random.some().then(|| random.below(4001) as f64 / 4.0 - 500.0);
    let name = random.some().then(|| NAMES[random.below(NAMES.len() as u64) as usize]);
    let ok = random.some().then(|| random.below(2) == 1);
    let day = random.some().then(|| format!("2020-{:02}-{:02}", 1 + random.below(12), 1 + random.below(28)));
    let at = random.some().then(|| {
        let (month, day) = (1 + random.below(12), 1 + random.below(28));
        let fraction = ["", ".5", ".000001"][random.below(3) as usize];
        format!("2021-{month:02}-{day:02} {:02}:00:{:02}{fraction}", random.below(24), random.below(60))
    });
    Row { id, small, big, x, name, ok, day, at }
}

impl Row {
    /// As `VALUES`, in SQL that all understand that read `'` twice as one.
    pub fn values(&self, is_escape: bool) -> String {
        fn value<T>(value: Option<T>, write: impl Fn(T) -> String) -> String {
            value.map_or("NULL".to_string(), write)
        }
        let text = |text: &str| {
            let text = text.replace('\'', "''");
            format!("'{}'", if is_escape { text.replace('\\', "\\\\") } else { text })
        };
        let cells = [
            self.id.to_string(),
            value(self.small, |v| v.to_string()),
            value(self.big, |v| v.to_string()),
            value(self.x, |v| format!("{v:?}")),
            value(self.name, text),
            value(self.ok, |v| v.to_string()),
            value(self.day.as_deref(), text),
            value(self.at.as_deref(), text),
        ];
        format!("({})", cells.join(", "))
    }

    /// As a line of CSV: nothing is null, and quotes are nothing else.
    pub fn csv(&self) -> String {
        fn cell<T: ToString>(value: &Option<T>) -> String {
            value.as_ref().map_or(String::new(), ToString::to_string)
        }
        let name = self.name.map_or(String::new(), |name| format!("\"{}\"", name.replace('"', "\"\"")));
        let x = self.x.map_or(String::new(), |x| format!("{x:?}"));
        [
            self.id.to_string(),
            cell(&self.small),
            cell(&self.big),
            x,
            name,
            cell(&self.ok),
            cell(&self.day),
            cell(&self.at),
        ]
        .join(",")
    }
}

/// Statements that fill a table.
pub fn inserts(table: &str, rows: &[Row], is_escape: bool) -> String {
    let statements = rows.chunks(200).map(|rows| {
        let values: Vec<_> = rows.iter().map(|row| row.values(is_escape)).collect();
        format!("INSERT INTO {table} VALUES {};", values.join(", "))
    });
    statements.collect::<Vec<_>>().join("\n")
}
