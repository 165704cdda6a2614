//! A client that inserts into all streams, and now and then waits until that is seen.

use super::schema::{MARK_ROWS, stream};
use super::{INSERT, Inserts, MARK, SEE, schema};
use crate::error::{Error, Result};
use crate::random::Random;
use crate::run::{Client, Seat};
use crate::target::{Connection, Dialect, Statement, Value};

/// Looks before a row that is not seen counts as lost.
pub(super) const LOOKS_MAX: u32 = 100_000;

/// What `next` has chosen, or what follows it.
#[derive(PartialEq)]
enum Doing {
    Insert,
    /// An insert that can be known again, and what it has sent.
    Mark(u64),
    See(u64),
}

pub(super) struct Inserter<'a> {
    workload: &'a Inserts,
    connection: Box<dyn Connection>,
    texts: Vec<String>,
    /// For single rows, of each stream.
    prepared: Vec<Statement>,
    random: Random,
    doing: Doing,
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
            doing: Doing::Insert,
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

    fn insert_mark(&mut self, mark: u64) -> Result<()> {
        for i in 0..self.workload.shape.streams {
            self.connection.execute(&self.workload.shape.mark_text(i, mark))?;
            self.workload.sent.add(i, MARK_ROWS);
        }
        Ok(())
    }

    /// Until every view has a mark that was acknowledged when this began.
    fn see(&mut self, mark: u64) -> Result<()> {
        let shape = &self.workload.shape;
        for view in 0..shape.views {
            if !until(|| Ok(shape.mark(self.connection.as_mut(), view)? >= mark))? {
                return Err(Error::Wrong(format!(
                    "{} does not show rows that were acknowledged",
                    schema::view(view)
                )));
            }
        }
        Ok(())
    }
}

/// Looks again and again; false when that was in vain.
pub(super) fn until(mut is_so: impl FnMut() -> Result<bool>) -> Result<bool> {
    for _ in 0..LOOKS_MAX {
        if is_so()? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Client for Inserter<'_> {
    fn next(&mut self) -> Result<usize> {
        self.release();
        let Inserts { see, sent, .. } = self.workload;
        // A second mark on its way would be taken for the first.
        let is_marking = *see > 0 && self.random.below(*see) == 0;
        self.doing = is_marking.then(|| sent.take_mark()).flatten().map_or(Doing::Insert, Doing::Mark);
        Ok(if self.doing == Doing::Insert { INSERT } else { MARK })
    }

    fn perform(&mut self) -> Result<()> {
        match self.doing {
            Doing::Mark(mark) => return self.insert_mark(mark),
            Doing::See(mark) => return self.see(mark),
            Doing::Insert => {}
        }
        for i in 0..self.workload.shape.streams {
            self.insert(i)?;
            self.workload.sent.add(i, self.workload.shape.rows);
        }
        Ok(())
    }

    fn then(&mut self) -> Option<usize> {
        let Doing::Mark(mark) = self.doing else { return None };
        self.doing = Doing::See(mark);
        Some(SEE)
    }
}

impl Inserter<'_> {
    /// The mark that this client had the turn for.
    fn release(&mut self) {
        if std::mem::replace(&mut self.doing, Doing::Insert) != Doing::Insert {
            self.workload.sent.give_back();
        }
    }
}

impl Drop for Inserter<'_> {
    fn drop(&mut self) {
        self.release();
    }
}
