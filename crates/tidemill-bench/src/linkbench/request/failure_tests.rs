//! What does not let a run begin, and what does not end it.

use super::tests::{SMALL, loaded, requests, settings, with_mix};
use crate::linkbench::shard::Shards;
use crate::linkbench::test_server::{Server, each_target};
use crate::linkbench::validate::{check_is_loaded, validate};
use crate::run::run;
use crate::target::{Dialect, Target};

/// A database that takes no connections for a while, as one that is started again.
#[test]
fn refused_connections_are_failures_too() {
    let Some(server) = Server::postgres() else { return };
    let (port, database) = (server.target().url().port.unwrap(), server.target().url().path.clone());
    let postgres = Target::open(&format!("postgres://postgres@127.0.0.1:{port}/postgres")).unwrap();
    let fixed = ["requesters=3", "requests=1000", "requestrate=500", "max_failed_requests=1000"];
    let settings = settings(300, &[SMALL, &fixed].concat());
    let shards = loaded(&server, &settings);
    let requests = requests(&server, &settings, &shards);
    let plan = requests.plan(3).unwrap();
    let mut admin = postgres.connect().unwrap();
    let mut allow = |is_allowed: bool| {
        admin.execute(&format!("ALTER DATABASE {database} WITH ALLOW_CONNECTIONS {is_allowed}")).unwrap();
        let end =
            format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'");
        if !is_allowed {
            admin.query(&end, &mut crate::target::Rows::default()).unwrap();
        }
    };
    let mut step = 0;
    let outcome = run(requests, &plan, Some(server.target()), &mut |progress| {
        let total = progress.record.total();
        // Each has lost its session, and was refused several times since.
        let is_time = [total.processed > 300, total.failed > 12].get(step).copied().unwrap_or(false);
        if is_time {
            step += 1;
            allow(step == 2);
        }
    })
    .unwrap();
    let total = outcome.record.total();
    assert_eq!((outcome.incomplete.clone(), step), (None, 2), "{:?}", outcome.errors);
    assert_eq!(total.processed + total.failed, 3_000, "{:?}", outcome.errors);
    assert!(
        outcome.errors.iter().any(|(code, failure)| code == "unreachable" && failure.operations > 3),
        "{:?}",
        outcome.errors
    );
    assert!(outcome.errors.clients() == 0 && outcome.errors.blemish().is_some());
}

/// Where a deadlock is not tried again, it is a failure like any other.
#[test]
fn a_conflict_that_is_given_up_ends_a_requester() {
    let Some(server) = Server::postgres() else { return };
    let mut settings =
        with_mix(100, "addnode=100", &["requesters=2", "requests=50", "max_failed_requests=3"]);
    settings.compat.deadlock = true;
    let shards = loaded(&server, &settings);
    let nodes = shards.schemas()[0].nodes();
    let refuse = "BEGIN RAISE EXCEPTION 'in a circle' USING errcode = '40P01'; END";
    let refuse = format!(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS '{}';
         CREATE TRIGGER t BEFORE INSERT ON {nodes} EXECUTE FUNCTION refuse()",
        refuse.replace('\'', "''")
    );
    server.target().connect().unwrap().execute(&refuse).unwrap();
    let requests = requests(&server, &settings, &shards);
    let outcome = run(requests.clone(), &requests.plan(3).unwrap(), None, &mut |_| ()).unwrap();
    let (code, failure) = outcome.errors.iter().next().unwrap();
    assert_eq!((code, failure.operations, failure.clients), ("40P01", 6, 2), "{:?}", outcome.errors);
}

#[test]
fn a_load_that_was_cut_short_is_told() {
    each_target(|server| {
        let settings = settings(50, SMALL);
        let shards = loaded(server, &settings);
        let schema = &shards.schemas()[0];
        let (links, counts) = (schema.links(), schema.counts());
        let mut connection = server.target().connect().unwrap();
        connection.execute(&format!("DELETE FROM {counts} WHERE id = 1")).unwrap();
        let checks = validate(connection.as_mut(), &settings, &shards, false).unwrap();
        let uncounted =
            checks.iter().find(|check| check.name == "counts that differ from their lists").unwrap();
        assert!(!uncounted.passed && uncounted.detail.ends_with(", expected 0"), "{}", uncounted.detail);
        let drops = match server.target().dialect() {
            Dialect::Postgres => vec![
                (format!("DROP INDEX {}.id1_type", schema.name()), format!("{links} has no INDEX id1_type")),
                (
                    format!("ALTER TABLE {counts} DROP CONSTRAINT counttable_pkey"),
                    format!("{links} has no INDEX id1_type, {counts} has no PRIMARY KEY"),
                ),
            ],
            Dialect::MySql => vec![
                (format!("DROP INDEX id1_type ON {links}"), format!("{links} has no INDEX id1_type")),
                (
                    format!("ALTER TABLE {links} DROP PRIMARY KEY"),
                    format!("{links} has no PRIMARY KEY and no INDEX id1_type"),
                ),
            ],
            _ => vec![("DROP INDEX id1_type".to_owned(), format!("{links} has no INDEX id1_type"))],
        };
        for (drop, lacking) in drops {
            connection.execute(&drop).unwrap();
            let error = check_is_loaded(connection.as_mut(), &settings, &shards).unwrap_err().to_string();
            let told =
                format!("the load has not finished, or its keys were dropped since: {lacking}: load again");
            assert_eq!(error, told, "{}", server.name());
        }
        connection.execute(&format!("DROP TABLE {links}")).unwrap();
        assert!(
            check_is_loaded(connection.as_mut(), &settings, &shards).unwrap_err().is_of_a_missing_table()
        );
    });
}

#[test]
fn a_run_of_nothing_is_refused() {
    let server = Server::noop();
    let message = |definitions: &[&str]| {
        let settings = settings(50, definitions);
        let shards = Shards::new(&settings.properties, server.target().dialect()).unwrap();
        requests(&server, &settings, &shards).plan(1).map(drop).map_err(|error| error.to_string())
    };
    let told = |key: &str| {
        format!("property \"{key}\" (-D {key}=0): 0 measures nothing; requesters=0 is no request phase")
    };
    assert_eq!(message(&["requests=0"]), Err(told("requests")));
    assert_eq!(message(&["maxtime=0"]), Err(told("maxtime")));
    assert_eq!(message(&["requests=0", "requesters=0"]), Ok(()));
}
