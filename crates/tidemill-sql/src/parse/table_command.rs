//! `TABLE t`, which the parser knows only behind a set operator, and there takes what follows the name along.
//!
//! ```text
//! (TABLE a) UNION TABLE b  =>  (SELECT * FROM a) UNION SELECT * FROM b
//! ```

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::token::keyword;

/// The tokens of a statement without such commands.
pub fn without_table_commands(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_table = |token: &TokenWithSpan| keyword(&token.token) == Some(Keyword::TABLE);
    if !tokens.iter().any(is_table) {
        return tokens;
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 4);
    let is_code = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
    for (i, token) in tokens.iter().enumerate() {
        let next = tokens[i + 1..].iter().find(is_code);
        if is_table(token) && next.is_some_and(|next| is_name(&next.token)) && may_be_query(&tokens[..i]) {
            let select = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
            out.extend(select.map(|part| TokenWithSpan { token: part, span: token.span }));
        } else {
            out.push(token.clone());
        }
    }
    out
}

/// Whether it can be a table's name; `SELECT 1 table FROM t` names a column.
fn is_name(token: &Token) -> bool {
    matches!(token, Token::Word(_)) && !matches!(keyword(token), Some(Keyword::FROM | Keyword::ONLY))
}

/// Whether a query may follow these tokens.
fn may_be_query(before: &[TokenWithSpan]) -> bool {
    use Keyword::*;
    let code =
        || before.iter().map(|token| &token.token).filter(|token| !matches!(token, Token::Whitespace(_)));
    let first = code().next().and_then(keyword);
    let mut back = code().rev();
    let Some(last) = back.next() else { return true };
    match last {
        Token::LParen => true,
        // Behind the list of WITH, of columns, or of options.
        Token::RParen => matches!(first, Some(WITH | INSERT | EXPLAIN)),
        Token::Word(_) => match keyword(last) {
            Some(UNION | INTERSECT | EXCEPT | ALL | DISTINCT | EXPLAIN | ANALYZE | VERBOSE) => true,
            Some(AS) => matches!(first, Some(CREATE | PREPARE)),
            Some(FOR) => first == Some(DECLARE),
            // The name of the table that rows are inserted into.
            _ => {
                let qualified = |token: &&Token| {
                    matches!(token, Token::Period | Token::Word(_)) && keyword(token) != Some(INTO)
                };
                back.find(|token| !qualified(token)).and_then(keyword) == Some(INTO)
            }
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn rewritten(sql: &str) -> String {
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().unwrap();
        without_table_commands(tokens).iter().map(|t| t.token.to_string()).collect()
    }

    #[test]
    fn a_table_is_a_query_where_one_may_stand() {
        for before in [
            "",
            "SELECT 1 UNION ",
            "SELECT 1 EXCEPT ALL ",
            "SELECT * FROM (",
            "WITH a AS (SELECT 1) ",
            "INSERT INTO a ",
            "INSERT INTO s.a ",
            "INSERT INTO a (b, c) ",
            "CREATE VIEW a AS ",
            "CREATE TABLE a AS ",
            "PREPARE a AS ",
            "EXPLAIN ",
            "EXPLAIN (COSTS off) ",
            "EXPLAIN ANALYZE ",
            "DECLARE a CURSOR FOR ",
            "COPY (",
        ] {
            assert_eq!(rewritten(&format!("{before}TABLE w")), format!("{before}SELECT*FROM w"));
        }
        assert_eq!(rewritten("TABLE a UNION TABLE \"b\".c"), "SELECT*FROM a UNION SELECT*FROM \"b\".c");
    }

    #[test]
    fn other_tables_stay() {
        for sql in [
            "CREATE TABLE w (a int)",
            "EXPLAIN CREATE TABLE w AS SELECT 1",
            "DROP TABLE w",
            "ALTER FOREIGN TABLE w RENAME TO v",
            "CREATE MULTI TENANT TABLE w (a int)",
            "SELECT 1 AS table FROM w",
            "SELECT 1 table FROM w",
            "SELECT count(*) table FROM w",
            "SELECT \"table\" x, table.y",
            "COMMENT ON TABLE w IS 'x'",
            "TRUNCATE TABLE w",
        ] {
            assert_eq!(rewritten(sql), sql);
        }
    }
}
