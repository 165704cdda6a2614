//! Random queries of a small grammar over the columns of [`super::row`].

use super::row::NAMES;

/// A small generator whose numbers are those of its seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(2) + 1)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    /// Mostly.
    pub fn some(&mut self) -> bool {
        self.below(7) > 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }
}

pub struct Queries {
    random: Random,
}

const COLUMNS: [&str; 8] = ["id", "small", "big", "x", "name", "ok", "day", "at"];
/// What groups can be made by that look alike.
const KEYS: [&str; 6] = ["small", "big", "name", "ok", "day", "at"];
const SIGNS: [&str; 8] = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"];

impl Queries {
    pub fn new(seed: u64) -> Self {
        Queries { random: Random::new(seed) }
    }

    /// A query over `TABLE` whose rows are the same each time, in any order.
    pub fn next(&mut self) -> String {
        let condition = match self.random.below(5) {
            0 => String::new(),
            _ => format!(" WHERE {}", self.condition(3)),
        };
        match self.random.below(6) {
            0 | 1 => format!("SELECT {} FROM TABLE{condition}", self.columns()),
            2 => {
                let order = self.order();
                let (limit, offset) = (self.random.below(20), self.random.below(4));
                let columns = self.columns();
                format!(
                    "SELECT * FROM (SELECT {columns} FROM TABLE{condition} ORDER BY {order}, id LIMIT {limit} OFFSET {offset}) AS some"
                )
            }
            3 => format!("SELECT {} FROM TABLE{condition}", self.aggregates()),
            4 => format!("SELECT DISTINCT {} FROM TABLE{condition}", self.keys()),
            _ => {
                let keys = self.keys();
                let having = match self.random.below(3) {
                    0 => " HAVING count(*) > 2",
                    _ => "",
                };
                format!("SELECT {keys}, {} FROM TABLE{condition} GROUP BY {keys}{having}", self.aggregates())
            }
        }
    }

    fn some_of(&mut self, from: &[&str]) -> String {
        let mut chosen: Vec<_> = from.iter().filter(|_| self.random.below(3) == 0).copied().collect();
        if chosen.is_empty() {
            chosen.push(self.random.pick(from));
        }
        chosen.join(", ")
    }

    fn columns(&mut self) -> String {
        self.some_of(&COLUMNS)
    }

    fn keys(&mut self) -> String {
        self.some_of(&KEYS)
    }

    fn aggregates(&mut self) -> String {
        self.some_of(&[
            "count(*)",
            "count(name)",
            "count(x)",
            "sum(small)",
            "sum(id)",
            "avg(small)",
            "sum(x)",
            "avg(x)",
            "min(name)",
            "max(name)",
            "min(big)",
            "max(big)",
            "min(x)",
            "max(day)",
            "min(at)",
            "max(at)",
            "sum(big)",
            "count(DISTINCT name)",
            "sum(x) FILTER (WHERE ok)",
            "bool_or(ok)",
            "max(small + 1)",
        ])
    }

    fn order(&mut self) -> String {
        let column = self.random.pick(&COLUMNS);
        let direction = self.random.pick(&["", " ASC", " DESC"]);
        let nulls = self.random.pick(&["", " NULLS FIRST", " NULLS LAST"]);
        format!("{column}{direction}{nulls}")
    }

    fn condition(&mut self, depth: u64) -> String {
        match self.random.below(if depth == 0 { 8 } else { 12 }) {
            0 => format!("{} IS NULL", self.random.pick(&COLUMNS)),
            1 => format!("{} IS NOT NULL", self.random.pick(&COLUMNS)),
            2 => self
                .random
                .pick(&["ok", "NOT ok", "small / 2 > 1", "small % 3 = 1", "x / 4 > 3", "id * 2 < 50"])
                .into(),
            3 => self
                .random
                .pick(&[
                    "name LIKE 'a%'",
                    "upper(name) = 'A'",
                    "name ILIKE 'z%'",
                    "length(name) = 1",
                    "name || 'x' < 'b'",
                ])
                .into(),
            4 => {
                self.random.pick(&["small < big", "name = name", "x > small", "day < at", "big = id"]).into()
            }
            5 => {
                let (column, not) = (self.random.below(7), self.random.pick(&["", "NOT "]));
                let items: Vec<_> = (0..=self.random.below(3)).map(|_| self.constant(column)).collect();
                format!(
                    "{} {not}IN ({})",
                    COLUMNS[column as usize + usize::from(column > 4)],
                    items.join(", ")
                )
            }
            6 | 7 => {
                let column = self.random.below(7);
                let sign = self.random.pick(&SIGNS);
                format!(
                    "({} {sign} {})",
                    COLUMNS[column as usize + usize::from(column > 4)],
                    self.constant(column)
                )
            }
            8 => format!("({} AND {})", self.condition(depth - 1), self.condition(depth - 1)),
            9 | 10 => format!("({} OR {})", self.condition(depth - 1), self.condition(depth - 1)),
            _ => format!("NOT ({})", self.condition(depth - 1)),
        }
    }

    /// Of the type of a column, by its place without `ok`.
    fn constant(&mut self, column: u64) -> String {
        match column {
            0 => self.random.below(300).to_string(),
            1 => (self.random.below(13) as i64 - 6).to_string(),
            2 => self
                .random
                .pick(&["-3000", "0", "1000", "9007199254740993", "9007199254740992", "9223372036854775806"])
                .into(),
            3 => self
                .random
                .pick(&["0", "-0.25", "100.5", "1e3", "'Infinity'", "'NaN'", "0.1", "-499.75"])
                .into(),
            4 => {
                let name = NAMES[self.random.below(NAMES.len() as u64) as usize];
                format!("'{}'", name.replace('\'', "''"))
            }
            5 => format!("date '2020-{:02}-15'", 1 + self.random.below(12)),
            _ => format!("timestamp '2021-{:02}-15 12:00:00.5'", 1 + self.random.below(12)),
        }
    }
}
