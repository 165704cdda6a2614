//! A client that inserts into all streams, and now and then waits until that is seen.

use super::schema::stream;
use super::{Inserts, schema};
use crate::error::{Error, Result};
use crate::random::Random;
use crate::run::{Client, Seat};
use crate::target::{Connection, Dialect, Statement, Value};

/// Looks before a row that is not seen counts as lost.
const LOOKS_MAX: u32 = 100_000;

pub(super) struct Inserter<'a> {
    workload: &'a Inserts,
    connection: Box<dyn Connection>,
    texts: Vec<String>,
    /// For single rows, of each stream.
    prepared: Vec<Statement>,
    random: Random,
    is_seeing: bool,
}

impl<'a> Inserter<'a> {
    pub fn new(workload: &'a Inserts, seat: &Seat) -> Result<Self> {
        let shape = &workload.shape;
        let mut connection = workload.target.connect()?;
        let mut prepared = Vec::new();
        if shape.insert == "prepared" {
            let place = |n| workload.target.dialect().placeholder(n);
            for i in 0..shape.streams {
                let values = [place(1), place(2), place(3)].join(",");
                prepared.push(
                    connection.prepare(&format!("insert into {}(x,y,z) values ({values})", stream(i)))?,
                );
            }
        }
        Ok(Self {
            workload,
            connection,
            texts: (0..shape.streams).map(|i| shape.text(i)).collect(),
            prepared,
            random: Random::part(seat.seed, seat.index as u64),
            is_seeing: false,
        })
    }

    fn insert(&mut self, i: usize) -> Result<()> {
        let shape = &self.workload.shape;
        match shape.insert {
            "prepared" => self.insert_prepared(i),
            "copy" => {
                let mut load = self.connection.load(&stream(i), &["x", "y", "z"])?;
                for x in 1..=shape.rows {
                    load.row(&[Value::Int(x as i64), Value::Int(1), Value::Int(shape.z(x) as i64)])?;
                }
                load.finish().map(drop)
            }
            _ => self.connection.execute(&self.texts[i]).map(drop),
        }
    }

    /// Single rows, as an application sends them: in a pipeline where the protocol has one, else in a transaction.
    fn insert_prepared(&mut self, i: usize) -> Result<()> {
        let shape = &self.workload.shape;
        let is_piped = self.workload.target.dialect() != Dialect::Sqlite;
        match is_piped {
            true => self.connection.pipeline_start()?,
            false => drop(self.connection.execute("begin immediate")?),
        }
        for x in 1..=shape.rows {
            let values = [Value::Int(x as i64), Value::Int(1), Value::Int(shape.z(x) as i64)];
            self.connection.run(self.prepared[i], &values, None)?;
        }
        match is_piped {
            true => self.connection.pipeline_end().map(drop),
            false => self.connection.execute("commit").map(drop),
        }
    }

    /// Until the first view has all that was acknowledged when the question came up.
    fn see(&mut self) -> Result<()> {
        let sent = &self.workload.sent;
        let wanted = sent.before(0).unwrap_or(0) + sent.to(0);
        for _ in 0..LOOKS_MAX {
            if self.workload.shape.seen(self.connection.as_mut(), 0)?.rows >= wanted {
                return Ok(());
            }
        }
        Err(Error::Wrong(format!("{} does not show rows that were acknowledged", schema::view(0))))
    }
}

impl Client for Inserter<'_> {
    fn next(&mut self) -> Result<usize> {
        self.is_seeing = self.workload.see > 0 && self.random.below(self.workload.see) == 0;
        Ok(usize::from(self.is_seeing))
    }

    fn perform(&mut self) -> Result<()> {
        if self.is_seeing {
            return self.see();
        }
        for i in 0..self.workload.shape.streams {
            self.insert(i)?;
            self.workload.sent.add(i, self.workload.shape.rows);
        }
        Ok(())
    }
}
