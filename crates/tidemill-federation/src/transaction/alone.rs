//! A statement that cannot be in a transaction: what it changes lasts at once, so that without its answer nobody knows.

use std::pin::{Pin, pin};

use futures::future::BoxFuture;
use tidemill_sql::{Result, SqlError, SqlState};

use super::outcome::Outcome;
use super::{ANSWER_GRACE, Transaction};
use crate::connector::{Answer, RemoteQuery, unanswered};

impl Transaction {
    /// One that [execute](Transaction::execute) has refused because of the transaction. `given_up` says when, and why, it is
    /// not waited for any longer.
    pub async fn execute_alone(
        &self,
        statement: &RemoteQuery,
        given_up: impl Future<Output = &'static str>,
    ) -> Result<Answer> {
        let mut used = self.ready().await?;
        let stop = used.writer.stop();
        let answer = self.timed(async {
            let mut asked = pin!(used.writer.execute_alone(statement));
            tokio::select! {
                biased;
                answer = &mut asked => answer,
                why = given_up => match stopped(asked, stop, why).await {
                    Some(answer) => answer,
                    None => Err(unanswered(self.node.trim_matches('/'), why)),
                },
            }
        });
        let answer = answer.await;
        let tally = &mut used.course.tally;
        match &answer {
            Ok(_) => {
                *self.outcome.lock() = Outcome::Done;
                tally.is_emptied |= statement.empties;
            }
            Err(error) => {
                let mut outcome = self.outcome.lock();
                outcome.note(error);
                tally.is_unanswered = *outcome == Outcome::Unknown;
            }
        }
        match tally.is_unanswered {
            // Where the connection is nobody knows.
            true => answer,
            false => used.counted(answer),
        }
    }
}

/// Ends the statement there, and waits a moment for what has become of it.
async fn stopped(
    asked: Pin<&mut impl Future<Output = Result<Answer>>>,
    stop: Option<BoxFuture<'static, Result<()>>>,
    why: &str,
) -> Option<Result<Answer>> {
    let stopping = async {
        if let Some(stop) = stop {
            // A server that cannot be told gives no answer either.
            drop(stop.await);
        }
        std::future::pending::<()>().await;
    };
    let answer = async {
        tokio::select! {
            answer = asked => answer,
            () = stopping => Err(SqlError::internal("a wait without an end has ended")),
        }
    };
    let answer = tokio::time::timeout(ANSWER_GRACE, answer).await.ok()?;
    Some(match answer {
        Err(error) if error.state == SqlState::QUERY_CANCELED => {
            Err(SqlError::new(SqlState::QUERY_CANCELED, why))
        }
        answer => answer,
    })
}
