//! The sessions that there are: who is connected, and how to interrupt them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use rand::RngCore;
use tidemill_sql::{Result, SqlError, SqlState};

use crate::activity::Activity;
use crate::session::interrupt::Interrupt;

/// Bytes of a cancel key, as protocol 3.0 has it.
const SECRET_BYTES: usize = 4;

#[derive(Debug, Default)]
pub struct Sessions {
    last_process_id: AtomicU32,
    running: Mutex<BTreeMap<u32, Running>>,
}

#[derive(Debug)]
struct Running {
    secret: Vec<u8>,
    interrupt: Arc<Interrupt>,
    activity: Arc<Activity>,
}

/// A session's place in the registry; it leaves when this is dropped.
#[derive(Debug)]
pub struct Entry {
    sessions: Arc<Sessions>,
    pub activity: Arc<Activity>,
    pub secret: Vec<u8>,
    pub interrupt: Arc<Interrupt>,
}

impl Sessions {
    /// Adds a session, unless there are `sessions_max` already.
    pub fn register(
        self: &Arc<Self>,
        user: &str,
        client: Option<SocketAddr>,
        sessions_max: usize,
    ) -> Result<Entry> {
        let mut secret = vec![0; SECRET_BYTES];
        rand::rng().fill_bytes(&mut secret);
        let mut running = self.running.lock();
        if running.len() >= sessions_max {
            return Err(SqlError::new(SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already"));
        }
        let process_id = self.last_process_id.fetch_add(1, Ordering::Relaxed) + 1;
        let interrupt = Arc::<Interrupt>::default();
        let activity = Arc::new(Activity::new(process_id, user.to_string(), client));
        let session = Running {
            secret: secret.clone(),
            interrupt: Arc::clone(&interrupt),
            activity: Arc::clone(&activity),
        };
        running.insert(process_id, session);
        drop(running);
        Ok(Entry { sessions: Arc::clone(self), activity, secret, interrupt })
    }

    /// A cancel request of the protocol: it counts if the secret is the session's.
    pub fn cancel_request(&self, process_id: u32, secret: &[u8]) {
        if let Some(session) = self.running.lock().get(&process_id)
            && session.secret == secret
        {
            session.interrupt.cancel();
        }
    }

    /// `pg_cancel_backend`: false if there is no such session.
    pub fn cancel(&self, process_id: u32) -> bool {
        self.with(process_id, Interrupt::cancel)
    }

    /// `pg_terminate_backend`: false if there is no such session.
    pub fn terminate(&self, process_id: u32) -> bool {
        self.with(process_id, Interrupt::terminate)
    }

    fn with(&self, process_id: u32, interrupt: impl Fn(&Interrupt)) -> bool {
        let running = self.running.lock();
        running.get(&process_id).inspect(|session| interrupt(&session.interrupt)).is_some()
    }

    pub fn terminate_all(&self) {
        self.running.lock().values().for_each(|session| session.interrupt.terminate());
    }

    /// What all sessions are doing, by process id.
    pub fn activities(&self) -> Vec<Arc<Activity>> {
        self.running.lock().values().map(|session| Arc::clone(&session.activity)).collect()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.sessions.running.lock().remove(&self.activity.process_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_counted_and_found() {
        let sessions = Arc::<Sessions>::default();
        let one = sessions.register("postgres", None, 2).unwrap();
        let two = sessions.register("postgres", None, 2).unwrap();
        assert_eq!(sessions.register("postgres", None, 2).unwrap_err().state, SqlState::TOO_MANY_CONNECTIONS);
        drop(one);
        let three = sessions.register("postgres", None, 2).unwrap();
        assert_ne!(two.activity.process_id, three.activity.process_id);
        assert!(sessions.terminate(two.activity.process_id) && two.interrupt.is_terminated());
        assert!(!three.interrupt.is_terminated() && !sessions.terminate(99));
        assert_eq!(sessions.activities().len(), 2);
    }
}
