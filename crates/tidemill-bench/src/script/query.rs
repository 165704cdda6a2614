//! Variables in SQL: as text in simple mode, as parameters otherwise.

use super::value::Variables;
use crate::target::Dialect;

/// SQL with its variables cut out.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// Text, variable, text, variable, …, text: one more text than names.
    texts: Vec<String>,
    names: Vec<String>,
}

impl Query {
    /// As pgbench finds them: quotes do not protect a `:name`, `::` and `:1` are none.
    pub fn new(sql: &str) -> Query {
        let bytes = sql.as_bytes();
        let is_start = |b: u8| b.is_ascii_alphabetic() || b == b'_' || b >= 128;
        let is_part = |b: &u8| is_start(*b) || b.is_ascii_digit();
        let (mut texts, mut names) = (Vec::new(), Vec::new());
        let (mut at, mut copied) = (0, 0);
        while at < bytes.len() {
            if bytes[at] != b':' {
                at += 1;
                continue;
            }
            let length = bytes[at + 1..].iter().take_while(|b| is_part(b)).count();
            if length == 0 || !is_start(bytes[at + 1]) {
                // All of `::`, so that a cast is not taken for a variable.
                at += bytes[at..].iter().take_while(|b| **b == b':').count();
                continue;
            }
            texts.push(sql[copied..at].to_owned());
            names.push(sql[at + 1..at + 1 + length].to_owned());
            at += 1 + length;
            copied = at;
        }
        texts.push(sql[copied..].to_owned());
        Query { texts, names }
    }

    /// For simple mode. What is no variable stays as it is.
    pub fn filled(&self, variables: &Variables, into: &mut String) {
        into.clear();
        for (i, text) in self.texts.iter().enumerate() {
            into.push_str(text);
            let Some(name) = self.names.get(i) else { break };
            match variables.text(name) {
                Some(value) => into.push_str(&value),
                None => {
                    into.push(':');
                    into.push_str(name);
                }
            }
        }
    }

    /// For the other modes.
    pub fn with_parameters(&self, dialect: Dialect) -> String {
        let mut sql = String::new();
        for (i, text) in self.texts.iter().enumerate() {
            sql.push_str(text);
            if i < self.names.len() {
                sql.push_str(&dialect.placeholder(i + 1));
            }
        }
        sql
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::value::Value;

    #[test]
    fn variables_are_found_as_pgbench_finds_them() {
        let query = Query::new("select :a::int, ':b', '12:34', x[1:2], :ä, :no from t where a=:a");
        assert_eq!(query.names(), ["a", "b", "ä", "no", "a"]);
        let mut variables = Variables::default();
        variables.set("a", Value::Int(5));
        variables.set_text("b", "x");
        variables.set("ä", Value::Null);
        let mut sql = String::new();
        query.filled(&variables, &mut sql);
        assert_eq!(sql, "select 5::int, 'x', '12:34', x[1:2], NULL, :no from t where a=5");
        assert_eq!(
            query.with_parameters(Dialect::Postgres),
            "select $1::int, '$2', '12:34', x[1:2], $3, $4 from t where a=$5"
        );
    }
}
