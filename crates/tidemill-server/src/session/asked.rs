//! The foreign servers that a session has asked: when one goes down, or is back, the session is told.

use std::collections::HashMap;

use tidemill_federation::health::{Known, State, cause};

use crate::catalog::{Catalog, ForeignServer};
use crate::pg::wire_error::Notice;

/// By name, whether the session takes them for down.
#[derive(Debug, Default)]
pub struct Asked(HashMap<String, bool>);

impl Asked {
    /// These are asked. What is wrong with one that is down already is for the statement to tell.
    pub fn note<'a>(&mut self, servers: impl Iterator<Item = &'a str>, catalog: &Catalog) {
        for name in servers {
            if !self.0.contains_key(name) {
                self.0.insert(name.to_string(), is_down(name, catalog));
            }
        }
    }

    /// A warning has named these. One that has only lost a connection is not down.
    pub fn told(&mut self, servers: impl IntoIterator<Item = String>, catalog: &Catalog) {
        for name in servers {
            if is_down(&name, catalog) {
                self.0.insert(name, true);
            }
        }
    }

    /// What has changed since the session was told.
    pub fn changes(&mut self, catalog: &Catalog) -> Vec<Notice> {
        if self.0.is_empty() {
            return vec![];
        }
        let mut notices = Vec::new();
        for server in catalog.servers() {
            let name = &server.object.name;
            let (Some(was_down), Some(known)) = (self.0.get_mut(name), known(&server)) else { continue };
            let (is_down, message) = match known.state {
                State::Down => (true, format!("server \"{name}\" is down")),
                State::Up | State::Slow => (false, format!("server \"{name}\" is back")),
                State::Unknown => continue,
            };
            if std::mem::replace(was_down, is_down) != is_down {
                let mut notice = Notice::new(message);
                notice.body.detail = known.error.as_ref().map(cause);
                notices.push(notice);
            }
        }
        notices
    }
}

fn is_down(server: &str, catalog: &Catalog) -> bool {
    let known = catalog.server(server).ok().and_then(|server| known(&server));
    known.is_some_and(|known| known.state == State::Down)
}

fn known(server: &ForeignServer) -> Option<Known> {
    Some(server.reached().health()?.known())
}
