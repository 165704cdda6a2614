//! The target that does nothing: what is left is the cost of the generator.

use crate::error::Result;
use crate::target::{Connection, Dialect, Done, Driver, Load, Rows, Statement, Value};

pub struct Noop;

impl Driver for Noop {
    fn dialect(&self) -> Dialect {
        Dialect::Noop
    }

    fn connect(&self) -> Result<Box<dyn Connection>> {
        Ok(Box::new(Session))
    }

    fn abort(&self) {}
}

struct Session;

impl Connection for Session {
    fn execute(&mut self, _: &str) -> Result<Done> {
        Ok(Done::default())
    }

    fn query(&mut self, _: &str, rows: &mut Rows) -> Result<Done> {
        rows.start(0);
        Ok(Done::default())
    }

    fn prepare(&mut self, _: &str) -> Result<Statement> {
        Ok(Statement(0))
    }

    fn run(&mut self, _: Statement, _: &[Value<'_>], rows: Option<&mut Rows>) -> Result<Done> {
        rows.into_iter().for_each(|rows| rows.start(0));
        Ok(Done::default())
    }

    fn run_once(&mut self, _: &str, _: &[Value<'_>], rows: Option<&mut Rows>) -> Result<Done> {
        rows.into_iter().for_each(|rows| rows.start(0));
        Ok(Done::default())
    }

    fn load<'a>(&'a mut self, _: &str, _: &[&str]) -> Result<Box<dyn Load + 'a>> {
        Ok(Box::new(Counting(0)))
    }

    fn pipeline_start(&mut self) -> Result<()> {
        Ok(())
    }

    fn pipeline_end(&mut self) -> Result<Done> {
        Ok(Done::default())
    }

    fn is_in_transaction(&self) -> bool {
        false
    }

    fn version(&mut self) -> Result<String> {
        Ok("nothing".to_owned())
    }
}

struct Counting(u64);

impl Load for Counting {
    fn row(&mut self, _: &[Value<'_>]) -> Result<()> {
        self.0 += 1;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<u64> {
        Ok(self.0)
    }
}
