//! Items of ROLLUP, CUBE and GROUPING SETS that begin with a parenthesis and go on behind it, or are subqueries, which the
//! parser takes for lists of columns.
//!
//! ```text
//! GROUP BY ROLLUP ((d)::text, (a, b))  =>  GROUP BY ROLLUP (((d)::text), (a, b))
//! ```

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// The tokens of a statement with parentheses around such items.
pub fn with_items_enclosed(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_grouping(&token.token)) {
        return tokens;
    }
    let is_code = |i: &usize| !matches!(tokens[*i].token, Token::Whitespace(_));
    let code: Vec<usize> = (0..tokens.len()).filter(is_code).collect();
    let is = |place: usize, wanted: &Token| code.get(place).is_some_and(|i| tokens[*i].token == *wanted);
    let closings = closings(&tokens, &code);
    // How many parentheses to add in front of a token.
    let (mut opening, mut closing) = (vec![0; tokens.len()], vec![0; tokens.len()]);
    for at in 0..code.len() {
        if !is_grouping(&tokens[code[at]].token) || !is(at + 1, &Token::LParen) {
            continue;
        }
        let Some(end) = closings[at + 1] else { continue };
        let mut first = at + 2;
        while first < end {
            let mut last = first;
            while last < end && !is(last, &Token::Comma) {
                last = closings[last].unwrap_or(last) + 1;
            }
            let goes_on = closings[first].is_some_and(|closed| closed + 1 < last);
            let is_query = code.get(first + 1).is_some_and(|i| begins_query(&tokens[*i].token));
            if is(first, &Token::LParen) && (goes_on || is_query) {
                opening[code[first]] += 1;
                closing[code[last]] += 1;
            }
            first = last + 1;
        }
    }
    let mut out = Vec::with_capacity(tokens.len());
    for (i, token) in tokens.into_iter().enumerate() {
        let span = token.span;
        out.extend(std::iter::repeat_n(TokenWithSpan { token: Token::RParen, span }, closing[i]));
        out.extend(std::iter::repeat_n(TokenWithSpan { token: Token::LParen, span }, opening[i]));
        out.push(token);
    }
    out
}

/// ROLLUP, CUBE, or SETS of GROUPING SETS.
fn is_grouping(token: &Token) -> bool {
    use Keyword::{CUBE, ROLLUP, SETS};
    matches!(token, Token::Word(Word { quote_style: None, keyword: ROLLUP | CUBE | SETS, .. }))
}

fn begins_query(token: &Token) -> bool {
    use Keyword::{SELECT, VALUES, WITH};
    matches!(token, Token::Word(Word { quote_style: None, keyword: SELECT | VALUES | WITH, .. }))
}

/// Where each opening parenthesis is closed.
fn closings(tokens: &[TokenWithSpan], code: &[usize]) -> Vec<Option<usize>> {
    let mut closings = vec![None; code.len()];
    let mut open = vec![];
    for (at, i) in code.iter().enumerate() {
        match tokens[*i].token {
            Token::LParen => open.push(at),
            Token::RParen => {
                if let Some(opened) = open.pop() {
                    closings[opened] = Some(at);
                }
            }
            _ => {}
        }
    }
    closings
}

#[cfg(test)]
mod tests {
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn enclosed(sql: &str) -> String {
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().unwrap();
        with_items_enclosed(tokens).iter().map(|t| t.token.to_string()).collect()
    }

    #[test]
    fn what_goes_on_behind_a_parenthesis_is_enclosed() {
        for (written, wanted) in [
            ("ROLLUP ((d)::text)", "ROLLUP (((d)::text))"),
            ("CUBE((a, b), (c)+1, d)", "CUBE((a, b), ((c)+1), d)"),
            ("GROUPING SETS ((a)::text, (), f((a), 1))", "GROUPING SETS (((a)::text), (), f((a), 1))"),
            ("GROUPING SETS (ROLLUP ((a) || b), c)", "GROUPING SETS (ROLLUP (((a) || b)), c)"),
            ("ROLLUP ((SELECT max(a) FROM t), b)", "ROLLUP (((SELECT max(a) FROM t)), b)"),
            ("rollup((a)", "rollup((a)"),
            ("cube", "cube"),
        ] {
            assert_eq!(enclosed(written), wanted, "{written}");
        }
    }
}
