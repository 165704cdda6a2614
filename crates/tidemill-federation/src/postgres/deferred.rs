//! What a server would judge when it commits: constraints that are deferred. When several servers commit, each judges before
//! the first one does, so that what one of them refuses is on none.

use tokio_postgres::{Client, Error};

const JUDGE: &str = "SAVEPOINT tidemill_asks; SET CONSTRAINTS ALL IMMEDIATE; RELEASE SAVEPOINT tidemill_asks";
const UNDO: &str = "ROLLBACK TO SAVEPOINT tidemill_asks; RELEASE SAVEPOINT tidemill_asks";
/// Classes of SQLSTATEs by which servers say that they do not know the command.
const UNKNOWN: [&str; 3] = ["42", "0A", "00"];

/// In a transaction, which goes on if the server cannot be asked: then it judges when it commits.
pub async fn judge(client: &Client) -> Result<(), Error> {
    match client.batch_execute(JUDGE).await {
        Err(error) if is_unknown(&error) => client.batch_execute(UNDO).await,
        judged => judged,
    }
}

fn is_unknown(error: &Error) -> bool {
    error.code().is_some_and(|code| UNKNOWN.iter().any(|class| code.code().starts_with(class)))
}
