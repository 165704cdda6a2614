//! Tests of a session's settings; the transaction cases were run on PostgreSQL 15.

use super::*;
use crate::pg::wire_error::Severity;
use crate::settings::{InsertLevel, SERVER_VERSION};

fn session() -> SessionSettings {
    SessionSettings::new(Arc::new(Settings::default()), "postgres")
}

impl SessionSettings {
    fn put(&mut self, name: &str, value: &str) {
        assert_eq!(self.set(name, &[value], Scope::Session).unwrap(), []);
    }

    fn put_local(&mut self, name: &str, value: &str) {
        assert_eq!(self.set(name, &[value], Scope::Local).unwrap(), []);
    }

    fn get(&self, name: &str) -> String {
        self.show(name).unwrap().1
    }

    fn refusal(&mut self, name: &str, value: &str) -> (&'static str, String) {
        let error = self.set(name, &[value], Scope::Session).unwrap_err();
        (error.state.0, error.into_report().message)
    }
}

const LIMIT: &str = "statement_timeout";

#[test]
fn set_follows_the_transaction() {
    let mut s = session();
    s.begin();
    s.put(LIMIT, "2");
    let a = s.savepoint();
    s.put(LIMIT, "3");
    assert_eq!(s.get(LIMIT), "3ms");
    s.rollback_to(a);
    assert_eq!(s.get(LIMIT), "2ms");
    s.put_local(LIMIT, "7");
    assert_eq!(s.get(LIMIT), "7ms");
    s.commit();
    assert_eq!(s.get(LIMIT), "2ms");
    s.begin();
    s.put(LIMIT, "9");
    s.rollback();
    assert_eq!(s.get(LIMIT), "2ms");
}

#[test]
fn local_ends_with_the_transaction() {
    let mut s = session();
    s.begin();
    s.put_local(LIMIT, "2");
    s.put(LIMIT, "9");
    assert_eq!(s.get(LIMIT), "9ms");
    s.commit();
    assert_eq!(s.get(LIMIT), "9ms");
    s.begin();
    s.put(LIMIT, "2");
    s.put_local(LIMIT, "9");
    let b = s.savepoint();
    s.put_local(LIMIT, "11");
    s.release(b);
    assert_eq!(s.get(LIMIT), "11ms");
    assert_eq!(s.current().statement_timeout, Some(std::time::Duration::from_millis(11)));
    s.commit();
    assert_eq!(s.get(LIMIT), "2ms");
    let notices = s.set(LIMIT, &["5"], Scope::Local).unwrap();
    assert_eq!(notices[0].body.message, "SET LOCAL can only be used in transaction blocks");
    assert_eq!((notices[0].severity, notices[0].body.state.0), (Severity::Warning, "25P01"));
    assert_eq!(s.get(LIMIT), "2ms");
}

#[test]
fn savepoints_nest() {
    let mut s = session();
    s.begin();
    let a = s.savepoint();
    s.put(LIMIT, "1");
    let b = s.savepoint();
    s.put(LIMIT, "2");
    s.rollback_to(b);
    s.rollback_to(b);
    assert_eq!(s.get(LIMIT), "1ms");
    s.release(b);
    s.rollback_to(a);
    assert_eq!(s.get(LIMIT), "0");
    assert_eq!(s.savepoint(), 2);
    s.rollback();
    s.rollback_to(1);
    s.rollback();
    assert_eq!(s.get(LIMIT), "0");
}

#[test]
fn reset_goes_back_to_the_startup_packet() {
    let mut s = session();
    let startup = [("work_mem".to_owned(), "1MB".to_owned()), ("my.x".to_owned(), "y".to_owned())];
    s.apply_startup(&startup).unwrap();
    s.set("jit", &["off"], Scope::Session).unwrap();
    s.put("my.x", "z");
    assert_eq!(s.get("work_mem"), "1MB");
    s.set("work_mem", &["2MB"], Scope::Session).unwrap();
    s.reset("work_mem", Scope::Session).unwrap();
    assert_eq!(s.get("work_mem"), "1MB");
    s.reset_all();
    assert_eq!((s.get("jit"), s.get("my.x")), ("on".to_owned(), "y".to_owned()));
    let bad = [("client_encoding".to_owned(), "latin1".to_owned())];
    assert!(s.apply_startup(&bad).is_err());
}

#[test]
fn what_cannot_be_changed() {
    let mut s = session();
    let refused = |s: &mut SessionSettings, name: &str| s.refusal(name, "1");
    assert_eq!(refused(&mut s, "foo"), ("42704", "unrecognized configuration parameter \"foo\"".to_owned()));
    assert_eq!(
        refused(&mut s, "block_size"),
        ("55P02", "parameter \"block_size\" cannot be changed".to_owned())
    );
    assert_eq!(
        refused(&mut s, "PORT"),
        ("55P02", "parameter \"port\" cannot be changed without restarting the server".to_owned())
    );
    assert!(s.reset("port", Scope::Session).is_err());
    assert_eq!(refused(&mut s, "foo.b-r").0, "42602");
    assert_eq!(refused(&mut s, "foo.").0, "42602");
    assert_eq!(refused(&mut s, "pipelinedb.nonsense").0, "42602");
    assert_eq!(s.refusal("standard_conforming_strings", "off").0, "22023");
}

#[test]
fn custom_settings() {
    let mut s = session();
    assert!(s.show("foo.bar").is_err());
    s.put("Foo.Bar", "x");
    assert_eq!(s.show("foo.BAR").unwrap(), ("foo.bar".to_owned(), "x".to_owned()));
    assert!(s.show_all().iter().any(|(name, value, _)| name == "foo.bar" && value == "x"));
    s.begin();
    s.put_local("foo.q", "1");
    s.commit();
    assert_eq!(s.get("foo.q"), "");
    for index in 2..CUSTOM_SETTINGS_MAX {
        s.put(&format!("foo.x{index}"), "1");
    }
    assert_eq!(s.refusal("foo.more", "1").0, "53400");
}

#[test]
fn settings_of_the_transaction() {
    let mut s = session();
    s.put("default_transaction_isolation", "serializable");
    assert_eq!(s.get("transaction_isolation"), "serializable");
    s.begin();
    assert_eq!(s.get("transaction_isolation"), "serializable");
    s.put("default_transaction_isolation", "read committed");
    s.put("transaction_read_only", "on");
    assert!(s.transaction_read_only());
    assert_eq!(s.get("transaction_isolation"), "serializable");
    s.query_seen();
    assert_eq!(
        s.refusal("transaction_read_only", "off").1,
        "transaction read-write mode must be set before any query"
    );
    assert_eq!(
        s.refusal("transaction_isolation", "read committed"),
        ("25001", "SET TRANSACTION ISOLATION LEVEL must be called before any query".to_owned())
    );
    s.commit();
    assert!(!s.transaction_read_only());
    assert_eq!(s.get("transaction_isolation"), "read committed");
    let notices = s.set("transaction_read_only", &["on"], Scope::Session).unwrap();
    assert_eq!(notices[0].body.state.0, "25P01");
    s.begin();
    s.savepoint();
    let nested = s.refusal("transaction_isolation", "serializable").1;
    assert_eq!(nested, "SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction");
}

#[test]
fn an_open_transaction_keeps_the_default_it_began_with() {
    let mut s = session();
    s.begin();
    s.put("default_transaction_isolation", "serializable");
    assert_eq!(s.get("transaction_isolation"), "read committed");
    s.commit();
    assert_eq!(s.get("transaction_isolation"), "serializable");
}

#[test]
fn reports() {
    let mut s = session();
    let initial = s.initial_reports();
    let of = |name: &str| initial.iter().find(|(known, _)| *known == name).unwrap().1.clone();
    assert_eq!(
        (of("server_version").as_str(), of("server_version_num").as_str()),
        (SERVER_VERSION, "150000")
    );
    assert_eq!((of("session_authorization").as_str(), of("is_superuser").as_str()), ("postgres", "on"));
    assert_eq!((of("DateStyle").as_str(), of("TimeZone").as_str()), ("ISO, MDY", "UTC"));
    assert_eq!(s.take_reports(), []);
    s.begin();
    s.put("timezone", "europe/berlin");
    s.put("statement_timeout", "5");
    assert_eq!(s.take_reports(), [("TimeZone", "Europe/Berlin".to_owned())]);
    s.rollback();
    assert_eq!(s.take_reports(), [("TimeZone", "UTC".to_owned())]);
    s.put("statement_timeout", "6");
    assert_eq!(s.take_reports(), []);
}

#[test]
fn the_names_of_pipelinedb() {
    let mut s = session();
    s.put("pipelinedb.stream_insert_level", "sync_receive");
    assert_eq!(s.current().insert_level, InsertLevel::SyncReceive);
    assert_eq!(
        (s.get("stream_insert_level"), s.get("synchronous_stream_insert")),
        ("sync_receive".into(), "on".into())
    );
    s.put("synchronous_stream_insert", "off");
    assert_eq!(s.get("stream_insert_level"), "async");
    assert_eq!(s.get("synchronous_stream_insert"), "off");
    let row = s.rows().into_iter().find(|row| row.name == "synchronous_stream_insert").unwrap();
    assert_eq!((row.setting.as_str(), row.reset_val.as_deref()), ("off", Some("on")));
    s.reset("synchronous_stream_insert", Scope::Session).unwrap();
    assert_eq!(s.current().insert_level, InsertLevel::SyncCommit);
    s.set("stream_targets", &["v0", "V 1"], Scope::Session).unwrap();
    assert_eq!(s.current().stream_targets[..], ["v0", "V 1"]);
    s.put("pipelinedb.stream_targets", "v0,v1");
    assert_eq!(s.current().stream_targets[..], ["v0", "v1"]);
    s.put("stream_targets", "");
    assert!(s.current().stream_targets.is_empty());
    s.reset("stream_targets", Scope::Session).unwrap();
    assert!(s.current().stream_targets.is_empty());
}

#[test]
fn nothing_is_ignored_without_a_word() {
    let mut s = session();
    assert_eq!(
        (s.get("pipelinedb.batch_mem"), s.get("tuple_buffer_blocks")),
        ("256MB".into(), "128MB".into())
    );
    let notices = s.set("pipelinedb.batch_mem", &["1GB"], Scope::Session).unwrap();
    assert_eq!(
        notices[0].body.message,
        "parameter \"pipelinedb.batch_mem\" is accepted for compatibility and has no effect"
    );
    assert!(s.current().shows(notices[0].severity));
    assert!(notices[0].body.hint.as_deref().unwrap().contains("memory_limit"));
    assert_eq!(s.get("pipelinedb.batch_mem"), "1GB");
    let notices = s.set("enable_seqscan", &["off"], Scope::Session).unwrap();
    assert_eq!(notices[0].severity, Severity::Debug);
    assert!(!s.current().shows(Severity::Debug));
    s.put("client_min_messages", "debug1");
    assert!(s.current().shows(Severity::Debug));
}

#[test]
fn date_order_is_kept_when_only_the_style_is_set() {
    let mut s = session();
    s.set("datestyle", &["iso", "dmy"], Scope::Session).unwrap();
    s.put("datestyle", "iso");
    assert_eq!((s.get("DateStyle"), s.current().date_order), ("ISO, DMY".to_owned(), DateOrder::Dmy));
}

#[test]
fn show_all_and_pg_settings() {
    let mut s = session();
    s.put(LIMIT, "1s");
    let all = s.show_all();
    let names: Vec<_> = all.iter().map(|(name, ..)| name.to_ascii_lowercase()).collect();
    assert!(names.is_sorted() && !names.contains(&"is_superuser".to_owned()));
    let row = s.rows().into_iter().find(|row| row.name == LIMIT).unwrap();
    assert_eq!(
        (row.setting.as_str(), row.unit, row.source, row.vartype),
        ("1000", Some("ms"), "session", "integer")
    );
    assert_eq!(
        (row.max_val.as_deref(), row.reset_val.as_deref(), row.context),
        (Some("2147483647"), Some("0"), "user")
    );
    assert_eq!(s.set_text("search_path", Some("a, \"B c\""), Scope::Session).unwrap(), []);
    assert_eq!((s.get("search_path"), s.current().search_path.len()), ("a, \"B c\"".to_owned(), 2));
    assert!(s.set_text("search_path", Some("a,,"), Scope::Session).is_err());
}
