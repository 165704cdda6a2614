//! PGSpider's node filter: `FROM t IN ('/a/', '/b/')`, and of UPDATE, INSERT INTO, COPY and TRUNCATE.
//!
//! The nodes become a part of the table's name, which only the look-up of names reads ([`crate::name::with_nodes`]); the
//! table is called what it was called.
//!
//! ```text
//! FROM s.t IN ('/a/', '/b/') WHERE  =>  FROM s."t/a//b/" AS "t" WHERE
//! ```

use sqlparser::keywords::{Keyword, RESERVED_FOR_TABLE_ALIAS};
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use super::token::keyword;
use crate::name::{fold, with_nodes};

/// The tokens of a statement without node filters.
pub fn without_node_filters(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_code = |token: &TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
    if !tokens.iter().any(|token| keyword(&token.token) == Some(Keyword::IN)) {
        return tokens;
    }
    let code: Vec<usize> = (0..tokens.len()).filter(|i| is_code(&tokens[*i])).collect();
    let mut out = tokens;
    // From behind, so that places in front stay what they are.
    for at in (0..code.len()).rev() {
        let token = |place: usize| code.get(place).map(|i| &out[*i].token);
        let Some(found) = Filter::find(at, &token) else { continue };
        let name = code[found.name];
        let span = out[code[found.end]].span;
        let after = code[found.end] + 1;
        let (new_name, alias) = match &out[name].token {
            Token::Word(word) => {
                let plain = fold(&word.clone().into_ident(Span::empty()));
                (with_nodes(&plain, &found.nodes), (!found.has_alias).then_some(plain))
            }
            _ => continue,
        };
        let alias = alias.into_iter().flat_map(|alias| {
            [Token::make_keyword("AS"), quoted(alias)].map(|token| TokenWithSpan { token, span })
        });
        out.splice(name + 1..after, alias);
        out[name].token = quoted(new_name);
    }
    out
}

/// Places among the tokens that are no white space.
struct Filter {
    /// The last part of the table's name.
    name: usize,
    /// The closing parenthesis.
    end: usize,
    nodes: Vec<String>,
    /// No alias is to be added.
    has_alias: bool,
}

impl Filter {
    /// The filter of the table that comes behind the word there.
    fn find<'t>(at: usize, token: &impl Fn(usize) -> Option<&'t Token>) -> Option<Self> {
        let before = at.checked_sub(1).and_then(token).and_then(keyword);
        let takes_alias = match keyword(token(at)?)? {
            Keyword::FROM if before == Some(Keyword::DISTINCT) => return None,
            Keyword::FROM | Keyword::JOIN | Keyword::UPDATE => true,
            Keyword::INTO => false,
            Keyword::TRUNCATE if at == 0 => false,
            Keyword::TABLE if before == Some(Keyword::TRUNCATE) => false,
            Keyword::COPY if at == 0 => false,
            _ => return None,
        };
        let mut name = at + 1;
        while token(name + 1) == Some(&Token::Period) {
            name += 2;
        }
        if !matches!(token(name)?, Token::Word(_)) || token(name + 1).and_then(keyword) != Some(Keyword::IN) {
            return None;
        }
        let mut end = name + 2;
        let mut nodes = Vec::new();
        if token(end)? != &Token::LParen {
            return None;
        }
        loop {
            let Token::SingleQuotedString(node) = token(end + 1)? else { return None };
            nodes.push(node.clone());
            end += 2;
            match token(end)? {
                Token::Comma => {}
                Token::RParen => break,
                _ => return None,
            }
        }
        let has_alias = match token(end + 1) {
            Some(Token::Word(word)) => {
                word.keyword == Keyword::AS
                    || word.quote_style.is_some()
                    || !RESERVED_FOR_TABLE_ALIAS.contains(&word.keyword)
            }
            _ => false,
        };
        Some(Self { name, end, nodes, has_alias: has_alias || !takes_alias })
    }
}

fn quoted(name: String) -> Token {
    Token::make_word(&name, Some('"'))
}
