//! A connection that writes units of rows until the server dies, and what it knows about each of them.

use std::collections::BTreeMap;

use futures::future::join_all;
use futures::{SinkExt, pin_mut};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One statement with the values in its text.
    Insert,
    /// Several prepared statements that are sent before the first is answered.
    Pipeline,
    CopyText,
    CopyBinary,
    /// A block of several statements, which write to the stream and to the table, sometimes rolled back.
    Transaction,
    /// Rows of the table, which are durable at every level.
    Table,
}

impl Kind {
    pub const ALL: [Kind; 6] =
        [Kind::Insert, Kind::Pipeline, Kind::CopyText, Kind::CopyBinary, Kind::Transaction, Kind::Table];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Async,
    SyncReceive,
    SyncCommit,
}

impl Level {
    pub const ALL: [Level; 3] = [Level::Async, Level::SyncReceive, Level::SyncCommit];

    fn name(self) -> &'static str {
        match self {
            Level::Async => "async",
            Level::SyncReceive => "sync_receive",
            Level::SyncCommit => "sync_commit",
        }
    }
}

/// What is known of a unit after a start. Nothing of it may change later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Found,
    Lost,
    RolledBack,
}

pub struct Writer {
    pub number: i32,
    pub kind: Kind,
    level: Level,
    /// Units begun, and those of them that were acknowledged, since the last start.
    begun: i64,
    acknowledged: i64,
    fates: BTreeMap<i64, Fate>,
}

/// Statements that a pipeline has under way.
const PIPELINE: i64 = 5;

impl Writer {
    pub fn new(number: i32, kind: Kind, level: Level) -> Writer {
        Writer { number, kind, level, begun: 0, acknowledged: 0, fates: BTreeMap::new() }
    }

    pub fn found(&self) -> usize {
        self.fates.values().filter(|fate| **fate == Fate::Found).count()
    }

    /// Rows of a unit: known from its number, so that half of one shows.
    fn rows(&self, unit: i64) -> i64 {
        match self.kind {
            Kind::Pipeline => 3,
            Kind::Insert | Kind::Transaction | Kind::Table => 2 + unit % 7,
            // Some are longer than a batch.
            Kind::CopyText | Kind::CopyBinary if unit % 20 == 0 => 9000,
            Kind::CopyText | Kind::CopyBinary => 1 + unit % 50,
        }
    }

    pub async fn write_until_killed(mut self, client: Client, seed: u64) -> Writer {
        let mut random = StdRng::seed_from_u64(seed);
        let set = format!("SET stream_insert_level = {}", self.level.name());
        let mut result = client.batch_execute(&set).await;
        while result.is_ok() {
            result = self.write(&client, &mut random).await;
        }
        if let Err(error) = result {
            // The end of the server is no answer; an answer is a failure of the test.
            assert!(error.as_db_error().is_none(), "{:?} {:?}: {error:?}", self.kind, self.level);
        }
        self
    }

    async fn write(&mut self, client: &Client, random: &mut StdRng) -> Result<(), Error> {
        let unit = self.begun + 1;
        self.begun += if self.kind == Kind::Pipeline { PIPELINE } else { 1 };
        match self.kind {
            Kind::Insert => self.insert(client, "s", unit, 0..self.rows(unit)).await?,
            Kind::Table => self.insert(client, "t", unit, 0..self.rows(unit)).await?,
            Kind::Pipeline => return self.pipeline(client, unit).await,
            Kind::CopyText => self.copy_text(client, unit).await?,
            Kind::CopyBinary => self.copy_binary(client, unit).await?,
            Kind::Transaction => {
                if !self.transaction(client, unit, random.random_ratio(1, 5)).await? {
                    return Ok(());
                }
            }
        }
        self.acknowledged = unit;
        Ok(())
    }

    async fn insert(
        &self,
        client: &Client,
        relation: &str,
        unit: i64,
        numbers: std::ops::Range<i64>,
    ) -> Result<(), Error> {
        let values: Vec<_> = numbers.map(|x| format!("({}, {unit}, {x})", self.number)).collect();
        client
            .simple_query(&format!("INSERT INTO {relation} (w, n, x) VALUES {}", values.join(", ")))
            .await
            .map(drop)
    }

    async fn pipeline(&mut self, client: &Client, first: i64) -> Result<(), Error> {
        let sql = "INSERT INTO s (w, n, x) VALUES ($1, $2, 0), ($1, $2, 1), ($1, $2, 2)";
        let statement = client.prepare_typed(sql, &[Type::INT4, Type::INT8]).await?;
        let number = self.number;
        let units: Vec<i64> = (first..first + PIPELINE).collect();
        let (client, statement) = (&client, &statement);
        let answers = join_all(
            units.iter().map(|unit| async move { client.execute(statement, &[&number, unit]).await }),
        )
        .await;
        for (unit, answer) in units.iter().zip(answers) {
            answer?;
            self.acknowledged = *unit;
        }
        Ok(())
    }

    async fn copy_text(&self, client: &Client, unit: i64) -> Result<(), Error> {
        let sink = client.copy_in("COPY s (w, n, x) FROM STDIN").await?;
        pin_mut!(sink);
        let lines: Vec<_> = (0..self.rows(unit)).map(|x| format!("{}\t{unit}\t{x}\n", self.number)).collect();
        for chunk in lines.chunks(1000) {
            sink.send(bytes::Bytes::from(chunk.concat())).await?;
        }
        sink.finish().await.map(drop)
    }

    async fn copy_binary(&self, client: &Client, unit: i64) -> Result<(), Error> {
        let sink = client.copy_in("COPY s (w, n, x) FROM STDIN (FORMAT binary)").await?;
        let writer = BinaryCopyInWriter::new(sink, &[Type::INT4, Type::INT8, Type::INT4]);
        pin_mut!(writer);
        for x in 0..self.rows(unit) as i32 {
            writer.as_mut().write(&[&self.number, &unit, &x]).await?;
        }
        writer.finish().await.map(drop)
    }

    /// Whether the block was committed.
    async fn transaction(&mut self, client: &Client, unit: i64, roll_back: bool) -> Result<bool, Error> {
        let rows = self.rows(unit);
        if roll_back {
            self.fates.insert(unit, Fate::RolledBack);
        }
        client.batch_execute("BEGIN").await?;
        self.insert(client, "s", unit, 0..1).await?;
        self.insert(client, "t", unit, 0..rows).await?;
        self.insert(client, "s", unit, 1..rows).await?;
        client.batch_execute(if roll_back { "ROLLBACK" } else { "COMMIT" }).await?;
        Ok(!roll_back)
    }

    /// Compares the units in the view, in order, with what is known, and forgets what the start has settled.
    pub fn check(&mut self, found: Vec<(i64, i64)>) {
        let about = format!("writer {} ({:?}, {:?})", self.number, self.kind, self.level);
        for (unit, rows) in &found {
            let expected = self.rows(*unit);
            assert!(*unit <= self.begun, "{about}: unit {unit} of {} came from nowhere", self.begun);
            assert_eq!(*rows, expected, "{about}: unit {unit} of {} is half there, or twice", self.begun);
        }
        let found: std::collections::HashSet<i64> = found.into_iter().map(|(unit, _)| unit).collect();
        let mut gap = None;
        for unit in 1..=self.begun {
            let is_there = found.contains(&unit);
            match self.fates.get(&unit) {
                Some(fate) => {
                    assert_eq!(*fate == Fate::Found, is_there, "{about}: unit {unit} was {fate:?} before");
                    continue;
                }
                None if is_there => {
                    assert_eq!(gap, None, "{about}: unit {unit} is there without an earlier one");
                    self.fates.insert(unit, Fate::Found);
                }
                None => {
                    let is_synced = self.level == Level::SyncCommit
                        || matches!(self.kind, Kind::Table | Kind::Transaction);
                    let durable = is_synced && unit <= self.acknowledged;
                    assert!(!durable, "{about}: unit {unit} of {} acknowledged is lost", self.acknowledged);
                    gap = gap.or(Some(unit));
                    self.fates.insert(unit, Fate::Lost);
                }
            }
        }
    }
}
