//! What each session is doing, for `pg_stat_activity`.
//!
//! A session writes here when it starts and ends a statement that is no insert of a known text: those are counted in
//! millions and stay as cheap as they are.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tidemill_sql::SqlError;
use tidemill_sql::planner::vars::now_us;

/// Bytes of a statement's text that are kept, as `track_activity_query_size`.
const QUERY_BYTES_MAX: usize = 1024;

/// One session in the eyes of the others. Instants are microseconds since 1970.
#[derive(Debug)]
pub struct Activity {
    pub process_id: u32,
    pub user: String,
    pub client: Option<SocketAddr>,
    pub began_us: i64,
    now: Mutex<Now>,
}

/// What a session does, or did last.
#[derive(Debug, Clone)]
pub struct Now {
    pub application_name: Arc<str>,
    pub state: State,
    pub query: String,
    pub query_began_us: Option<i64>,
    pub state_changed_us: i64,
    pub transaction_began_us: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Active,
    Idle,
    IdleInTransaction,
    IdleInFailedTransaction,
}

impl State {
    pub const ALL: [State; 4] =
        [State::Active, State::Idle, State::IdleInTransaction, State::IdleInFailedTransaction];

    /// As `pg_stat_activity.state` has it.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Active => "active",
            State::Idle => "idle",
            State::IdleInTransaction => "idle in transaction",
            State::IdleInFailedTransaction => "idle in transaction (aborted)",
        }
    }
}

impl Activity {
    pub fn new(process_id: u32, user: String, client: Option<SocketAddr>) -> Self {
        let began_us = now_us();
        let now = Now {
            application_name: "".into(),
            state: State::Idle,
            query: String::new(),
            query_began_us: None,
            state_changed_us: began_us,
            transaction_began_us: None,
        };
        Self { process_id, user, client, began_us, now: Mutex::new(now) }
    }

    /// A statement starts, in the transaction that began then.
    pub fn start(&self, query: &str, application_name: &Arc<str>, transaction_began_us: i64) {
        let mut now = self.now.lock();
        now.application_name = Arc::clone(application_name);
        now.state = State::Active;
        now.query.clear();
        let query = without_passwords(query);
        now.query.push_str(&query[..query.floor_char_boundary(QUERY_BYTES_MAX)]);
        now.state_changed_us = now_us();
        now.query_began_us = Some(now.state_changed_us);
        now.transaction_began_us = Some(transaction_began_us);
    }

    /// The session waits for its client.
    pub fn wait(&self, state: State) {
        let mut now = self.now.lock();
        now.state = state;
        now.state_changed_us = now_us();
        if state == State::Idle {
            now.transaction_began_us = None;
        }
    }

    pub fn now(&self) -> Now {
        self.now.lock().clone()
    }
}

/// The words before a password in ALTER ROLE and before a secret in the OPTIONS of a user mapping.
const SECRETS: [&str; 2] = ["password", "session_token"];
const HIDDEN: &str = "'********'";
/// What the parser's messages say before what they quote.
const NEAR: &str = " at or near ";

/// A statement as others may see it.
pub fn without_passwords(query: &str) -> Cow<'_, str> {
    let lower = query.to_ascii_lowercase();
    let (mut shown, mut done) = (String::new(), 0);
    let mut words: Vec<_> = SECRETS.iter().flat_map(|word| lower.match_indices(word)).collect();
    words.sort_unstable();
    for (at, word) in words {
        if at < done {
            continue;
        }
        let after = at + word.len();
        let value = after + (query[after..].len() - query[after..].trim_start().len());
        let quote = match query[value..].trim_start_matches(['e', 'E']) {
            quoted if quoted.starts_with('\'') => query.len() - quoted.len(),
            quoted if quoted.starts_with('$') => {
                // Where it ends is not worth finding out.
                shown.push_str(&query[done..value]);
                return Cow::Owned(shown + HIDDEN);
            }
            _ => continue,
        };
        shown.push_str(&query[done..value]);
        shown.push_str(HIDDEN);
        done = end_of_literal(query, quote);
    }
    if done == 0 { Cow::Borrowed(query) } else { Cow::Owned(shown + &query[done..]) }
}

/// An error of the parser, which quotes what it cannot read: no literal of a statement that has passwords.
pub fn without_secrets(mut error: SqlError, query: &str) -> SqlError {
    let near = error.message.find(NEAR).map(|at| at + NEAR.len());
    if let Some(near) = near
        && error.message[near..].contains(['\'', '$'])
        && matches!(without_passwords(query), Cow::Owned(_))
    {
        error.message.truncate(near);
        error.message += &format!("\"{HIDDEN}\"");
    }
    error
}

/// Behind the quote that ends the literal that begins there. A backslash may hide a quote, if it is no more than a backslash.
fn end_of_literal(query: &str, start: usize) -> usize {
    let (mut escaped, mut chars) = (false, query[start + 1..].char_indices().peekable());
    while let Some((i, c)) = chars.next() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\'' if chars.next_if(|(_, next)| *next == '\'').is_none() => return start + 1 + i + 1,
            _ => {}
        }
    }
    query.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_quote_no_passwords() {
        for (query, shown) in [
            ("OPTIONS (password 'open", "unterminated quoted string at or near \"'********'\""),
            ("OPTIONS (password 'a' 'b')", "syntax error at or near \"'********'\""),
            ("SELECT 'open", "unterminated quoted string at or near \"'open\""),
        ] {
            let query = match query.strip_prefix("OPTIONS") {
                Some(options) => format!("CREATE USER MAPPING FOR PUBLIC SERVER s OPTIONS{options}"),
                None => query.to_string(),
            };
            let error = without_secrets(tidemill_sql::parse::parse(&query).unwrap_err(), &query);
            assert_eq!(error.message, shown, "{query}");
        }
    }

    #[test]
    fn passwords_are_hidden() {
        for (query, shown) in [
            ("SELECT 'a password b'", "SELECT 'a password b'"),
            ("SELECT password FROM t WHERE a = 'x'", "SELECT password FROM t WHERE a = 'x'"),
            ("ALTER ROLE a PASSWORD 'x''y' VALID", "ALTER ROLE a PASSWORD '********' VALID"),
            ("OPTIONS (user 'u', Password\nE'\\'x')", "OPTIONS (user 'u', Password\n'********')"),
            ("(password 'a', password 'password b') c", "(password '********', password '********') c"),
            ("(password $x$a$x$)", "(password '********'"),
            (
                "(session_token 'a', user 'b', password 'c')",
                "(session_token '********', user 'b', password '********')",
            ),
            ("(password 'open", "(password '********'"),
        ] {
            assert_eq!(without_passwords(query), shown);
        }
    }
}
