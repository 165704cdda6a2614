//! The MySQL and MariaDB protocol.

use crate::error::{Error, Result};
use crate::target::{Connection, Dialect, Driver, Url};

pub struct MySql {}

impl MySql {
    pub fn new(_: &Url) -> Result<Self> {
        Err(Error::Unsupported("mysql:// targets are not there yet".to_owned()))
    }
}

impl Driver for MySql {
    fn dialect(&self) -> Dialect {
        Dialect::MySql
    }

    fn connect(&self) -> Result<Box<dyn Connection>> {
        Err(Error::Unsupported("mysql:// targets are not there yet".to_owned()))
    }

    fn abort(&self) {}
}
