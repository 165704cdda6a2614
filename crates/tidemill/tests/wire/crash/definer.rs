//! A connection that makes, empties, stops and drops a view until the server dies, and knows what must be there.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio_postgres::{Client, Error};

use crate::server::rows;

/// What the view `defined` is; only this connection writes to its stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Defined {
    exists: bool,
    active: bool,
    count: i64,
}

impl Defined {
    const DROPPED: Defined = Defined { exists: false, active: false, count: 0 };
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Create,
    Drop,
    Truncate,
    Activate,
    Deactivate,
    Insert(i64),
}

impl Change {
    fn sql(self) -> String {
        match self {
            Change::Create => "CREATE CONTINUOUS VIEW defined AS SELECT count(*) FROM d".into(),
            Change::Drop => "DROP CONTINUOUS VIEW defined".into(),
            Change::Truncate => "TRUNCATE CONTINUOUS VIEW defined".into(),
            Change::Activate => "ACTIVATE defined".into(),
            Change::Deactivate => "DEACTIVATE defined".into(),
            Change::Insert(rows) => {
                format!("INSERT INTO d (x) VALUES {}", vec!["(1)"; rows as usize].join(", "))
            }
        }
    }

    fn apply(self, to: Defined) -> Defined {
        match self {
            Change::Create => Defined { exists: true, active: true, count: 0 },
            Change::Drop => Defined::DROPPED,
            Change::Truncate => Defined { count: 0, ..to },
            Change::Activate => Defined { active: true, ..to },
            Change::Deactivate => Defined { active: false, ..to },
            Change::Insert(rows) if to.exists && to.active => Defined { count: to.count + rows, ..to },
            Change::Insert(_) => to,
        }
    }
}

#[derive(Debug, Default)]
pub struct Definer {
    known: Defined,
    /// Sent and not answered when the server died.
    under_way: Option<Change>,
}

impl Definer {
    pub async fn prepare(&self, client: &Client) {
        client.batch_execute("CREATE STREAM d (x int)").await.unwrap();
    }

    pub async fn define_until_killed(mut self, client: Client, seed: u64) -> Definer {
        let mut random = StdRng::seed_from_u64(seed);
        loop {
            let change = self.choose(&mut random);
            self.under_way = Some(change);
            match client.batch_execute(&change.sql()).await {
                Ok(()) => self.settle(),
                Err(error) => {
                    assert!(error.as_db_error().is_none(), "{change:?} of {:?}: {error:?}", self.known);
                    return self;
                }
            }
        }
    }

    fn choose(&self, random: &mut StdRng) -> Change {
        if !self.known.exists {
            return Change::Create;
        }
        match random.random_range(0..10) {
            0 => Change::Drop,
            1 => Change::Truncate,
            2 => Change::Activate,
            3 => Change::Deactivate,
            _ => Change::Insert(random.random_range(1..5)),
        }
    }

    fn settle(&mut self) {
        if let Some(change) = self.under_way.take() {
            self.known = change.apply(self.known);
        }
    }

    /// The view is what the last answer left, or what the change under way makes of that.
    pub async fn check(&mut self, client: &Client) {
        let found = find(client).await.unwrap();
        let changed = self.under_way.map_or(self.known, |change| change.apply(self.known));
        assert!(
            found == self.known || found == changed,
            "after {:?} of {:?} there is {found:?}",
            self.under_way,
            self.known
        );
        self.under_way = None;
        self.known = Change::Insert(1).apply(found);
    }
}

/// What the view was before this inserted one row.
async fn find(client: &Client) -> Result<Defined, Error> {
    match client.simple_query("SELECT count FROM defined").await {
        Err(error) if error.code().is_some_and(|code| code.code() == "42P01") => return Ok(Defined::DROPPED),
        Err(error) => return Err(error),
        Ok(_) => {}
    }
    let count = rows(client, "SELECT count FROM defined").await[0][0].parse().unwrap();
    // Whether it is active shows in what a row does to it.
    client.batch_execute("INSERT INTO d (x) VALUES (1)").await?;
    let after: i64 = rows(client, "SELECT count FROM defined").await[0][0].parse().unwrap();
    Ok(Defined { exists: true, active: after > count, count })
}
