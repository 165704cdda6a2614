//! Runs of the request phase.

use super::*;
use crate::linkbench::settings::Sources;
use crate::linkbench::suite::{drop_tables, fill};
use crate::linkbench::test_server::{Server, each_target};
use crate::linkbench::validate::validate;
use crate::run::{Outcome, run};

pub(super) const SMALL: &[&str] = &["nlinks_func=Zipf", "nlinks_shape=0.8", "nlinks_mean=5", "loaders=2"];

pub(super) fn settings(nodes: u64, definitions: &[&str]) -> Settings {
    settings_of(nodes, definitions).settings().unwrap()
}

fn settings_of(nodes: u64, definitions: &[&str]) -> Sources {
    let define = definitions.iter().map(|definition| (*definition).to_owned()).collect();
    Sources { nodes: Some(nodes), define, ..Sources::default() }
}

pub(super) fn loaded(server: &Server, settings: &Settings) -> Shards {
    let shards = Shards::new(&settings.properties, server.target().dialect()).unwrap();
    drop_tables(server.target(), &shards).unwrap();
    fill(server.target(), settings, &shards, 7, &|_| ()).unwrap();
    shards
}

pub(super) fn requests(server: &Server, settings: &Settings, shards: &Shards) -> Arc<Requests> {
    Arc::new(Requests::new(server.target(), settings, shards).unwrap())
}

fn outcome(requests: Arc<Requests>, server: &Server) -> Outcome {
    let plan = requests.plan(11).unwrap();
    let outcome = run(requests, &plan, Some(server.target()), &mut |_| ()).unwrap();
    assert_eq!(outcome.incomplete, None);
    outcome
}

fn processed(outcome: &Outcome) -> u64 {
    outcome.record.operations.iter().map(|tally| tally.processed).sum()
}

#[test]
fn every_request_is_done_and_the_graph_holds_together() {
    each_target(|server| {
        for style in [&["link_update=upsert", "statements=literal", "never_change=true"][..], &[]] {
            let fixed = ["requesters=3", "requests=700", "getlinklist_history=0"];
            let settings = settings(500, &[SMALL, &fixed, style].concat());
            let shards = loaded(server, &settings);
            let outcome = outcome(requests(server, &settings, &shards), server);
            assert_eq!(processed(&outcome), 2_100, "{} {style:?} {:?}", server.name(), outcome.errors);
            let mut connection = server.target().connect().unwrap();
            let checks = validate(connection.as_mut(), &settings, &shards, false).unwrap();
            assert!(checks.iter().all(|check| check.passed), "{} {style:?} {checks:?}", server.name());
            assert!(outcome.counters["links found"] > 0 && outcome.counters["list rows"] > 0);
        }
    });
}

#[test]
fn the_published_upsert_counts_twice() {
    let server = Server::sqlite();
    let mut settings =
        settings(200, &[SMALL, &["requesters=1", "requests=2000", "link_update=upsert"]].concat());
    settings.compat = Compat::all();
    let shards = loaded(&server, &settings);
    outcome(requests(&server, &settings, &shards), &server);
    let mut connection = server.target().connect().unwrap();
    // What holds under the flaw is checked, so that such a run can be compared.
    let checks = validate(connection.as_mut(), &settings, &shards, false).unwrap();
    assert!(checks.iter().all(|check| check.passed), "{checks:?}");
    assert!(checks[0].detail.contains("under the flaw upsert"), "{checks:?}");
    let mut strict = settings.clone();
    strict.compat = Compat::none();
    let checks = validate(connection.as_mut(), &strict, &shards, false).unwrap();
    assert!(!checks[0].passed, "{checks:?}");
    let lose = format!("UPDATE {} SET count = 0", shards.schemas()[0].counts());
    connection.execute(&lose).unwrap();
    let checks = validate(connection.as_mut(), &settings, &shards, false).unwrap();
    assert!(checks.iter().all(|check| !check.passed), "{checks:?}");
}

/// Only these operations, in these percentages.
fn mix(shares: &str) -> Vec<String> {
    let of = |operation: &str| {
        let given = shares.split(' ').find(|share| share.split('=').next() == Some(operation));
        given.map_or(format!("{operation}=0"), str::to_owned)
    };
    let all =
        "addlink deletelink updatelink countlink getlink getlinklist addnode updatenode deletenode getnode";
    all.split(' ').map(of).collect()
}

pub(super) fn with_mix(nodes: u64, shares: &str, definitions: &[&str]) -> Settings {
    let mix = mix(shares);
    let mix: Vec<&str> = mix.iter().map(String::as_str).collect();
    settings(nodes, &[SMALL, &mix, definitions].concat())
}

#[test]
fn added_nodes_are_reached_unless_as_the_original() {
    let server = Server::sqlite();
    for (compat, is_reached) in [(Compat::none(), true), (Compat::all(), false)] {
        let mut settings =
            with_mix(100, "addnode=50 updatenode=30 addlink=20", &["requesters=2", "requests=500"]);
        settings.compat = compat;
        let shards = loaded(&server, &settings);
        let schema = &shards.schemas()[0];
        let mut connection = server.target().connect().unwrap();
        let beyond = |sql: String, connection: &mut dyn Connection| connection.query_int(&sql).unwrap() > 0;
        // In a second run those of the first are known.
        for _ in 0..2 {
            outcome(requests(&server, &settings, &shards), &server);
            let updated = format!("SELECT count(*) FROM {} WHERE id > 100 AND version = 2", schema.nodes());
            assert_eq!(beyond(updated, connection.as_mut()), is_reached);
            let linked = format!("SELECT count(*) FROM {} WHERE id1 > 100", schema.links());
            assert_eq!(beyond(linked, connection.as_mut()), is_reached);
        }
        let known = requests(&server, &settings, &shards);
        known.find_nodes(0, connection.as_mut(), schema).unwrap();
        let end = known.nodes_end[0].load(Ordering::Relaxed);
        assert_eq!(end > 300, is_reached, "{end}");
    }
}

#[test]
fn deleted_nodes_take_their_links_along_unless_as_the_original() {
    let server = Server::sqlite();
    let dangling = |settings: &Settings| {
        let shards = loaded(&server, settings);
        outcome(requests(&server, settings, &shards), &server);
        let mut connection = server.target().connect().unwrap();
        let checks = validate(connection.as_mut(), settings, &shards, false).unwrap();
        assert!(checks.iter().all(|check| check.passed), "{checks:?}");
        let (links, nodes) = (shards.schemas()[0].links(), shards.schemas()[0].nodes());
        let sql = format!(
            "SELECT count(*) FROM {links} WHERE visibility = 1 AND id1 NOT IN (SELECT id FROM {nodes})"
        );
        connection.query_int(&sql).unwrap()
    };
    let mut settings = with_mix(200, "deletenode=90 getnode=10", &["requesters=2", "requests=200"]);
    assert_eq!(dangling(&settings), 0);
    settings.compat = Compat::all();
    assert!(dangling(&settings) > 0);
    // The links of one with too many stay.
    let constant = ["nlinks_func=const", "nlinks_config=0", "nlinks_default=10001", "link_type_count=1"];
    let few = ["requesters=1", "requests=20"];
    let settings = with_mix(3, "deletenode=100", &[&constant[..], &few].concat());
    assert_eq!(dangling(&settings), 3 * (LINKS_DELETED_MAX + 1));
}

#[test]
fn nothing_leads_to_itself_unless_as_the_original() {
    let server = Server::sqlite();
    let loops = |compat| {
        let mut sources = settings_of(100, SMALL);
        sources.compat = compat;
        let settings = sources.settings().unwrap();
        let shards = loaded(&server, &settings);
        let sql = format!("SELECT count(*) FROM {} WHERE id1 = id2", shards.schemas()[0].links());
        server.target().connect().unwrap().query_int(&sql).unwrap()
    };
    assert_eq!(loops(None), 0);
    assert!(loops(Some("self-loop".to_owned())) > 0);
}

#[test]
fn one_failure_ends_the_run_as_the_original() {
    let server = Server::sqlite();
    let mut settings = with_mix(
        100,
        "addnode=10 getnode=90",
        &["requesters=3", "requests=100000", "max_failed_requests=-1"],
    );
    settings.compat.one_failure = true;
    let shards = loaded(&server, &settings);
    let refuse = "CREATE TRIGGER t BEFORE INSERT ON nodetable BEGIN SELECT RAISE(ABORT, 'none today'); END";
    server.target().connect().unwrap().execute(refuse).unwrap();
    let outcome_of = |settings: &Settings| {
        let requests = requests(&server, settings, &shards);
        run(requests.clone(), &requests.plan(3).unwrap(), None, &mut |_| ()).unwrap()
    };
    let outcome = outcome_of(&settings);
    assert!(processed(&outcome) < 10_000, "{}", processed(&outcome));
    assert!(outcome.incomplete.is_some());
    settings.properties.define("never_change=true").unwrap();
    settings.properties.define("requests=100").unwrap();
    assert_eq!(outcome_of(&settings).incomplete, None);
}

#[test]
fn the_mix_is_within_three_sigma() {
    let server = Server::noop();
    let settings = settings(50_000, &["requesters=4", "requests=25000"]);
    let shards = Shards::new(&settings.properties, server.target().dialect()).unwrap();
    let requests = requests(&server, &settings, &shards);
    let outcome = outcome(Arc::clone(&requests), &server);
    assert_eq!(processed(&outcome), 100_000);
    for operation in Operation::ALL {
        let p = requests.mix.share(operation) / 100.0;
        let sigma = (100_000.0 * p * (1.0 - p)).sqrt();
        let off = outcome.record.operations[operation.index()].processed as f64 - 100_000.0 * p;
        assert!(off.abs() <= 3.0 * sigma, "{} {off} {sigma}", operation.name());
    }
}

#[test]
fn long_lists_are_continued_as_often_as_asked() {
    let server = Server::sqlite();
    let only_lists = [
        "addlink=0",
        "deletelink=0",
        "updatelink=0",
        "countlink=0",
        "getlink=0",
        "getlinklist=100",
        "addnode=0",
        "updatenode=0",
        "deletenode=0",
        "getnode=0",
        "read_function=Uniform",
        "read_uncorr_blend=0",
        "link_type_count=1",
        "nlinks_func=const",
        "nlinks_config=0",
        "nlinks_default=200",
        "getlinklist_history=25",
        "requesters=1",
        "requests=3000",
    ];
    let settings = settings(10, &only_lists);
    let shards = loaded(&server, &settings);
    let mut requests = requests(&server, &settings, &shards);
    Arc::get_mut(&mut requests).unwrap().list_limit = 10;
    let outcome = outcome(requests, &server);
    let share = outcome.counters["lists from history"] as f64 / outcome.counters["lists"] as f64;
    assert!((0.75 * 0.25..=1.05 * 0.25).contains(&share), "{share}");
}

#[test]
fn failures_are_tolerated_up_to_their_number() {
    let server = Server::sqlite();
    let half =
        "addnode=50 getnode=50 addlink=0 deletelink=0 updatelink=0 countlink=0 getlink=0 getlinklist=0";
    let rest = "updatenode=0 deletenode=0 requesters=1 requests=500";
    let mix: Vec<&str> = half.split(' ').chain(rest.split(' ')).collect();
    let all = settings(200, &[SMALL, &mix, &["max_failed_requests=-1"]].concat());
    let shards = loaded(&server, &all);
    let refuse = "CREATE TRIGGER t BEFORE INSERT ON nodetable BEGIN SELECT RAISE(ABORT, 'none today'); END";
    server.target().connect().unwrap().execute(refuse).unwrap();
    let outcome_of = |settings: &Settings| {
        let requests = requests(&server, settings, &shards);
        run(requests.clone(), &requests.plan(3).unwrap(), None, &mut |_| ()).unwrap()
    };
    let outcome = outcome_of(&all);
    let failed: u64 = outcome.record.operations.iter().map(|tally| tally.failed).sum();
    assert_eq!((outcome.incomplete.clone(), processed(&outcome) + failed), (None, 500));
    assert!((200..300).contains(&failed), "{failed}");
    let (_, failure) = outcome.errors.iter().next().unwrap();
    assert_eq!((failure.operations, failure.unexpected, failure.clients), (failed, failed, 0));
    assert!(failure.text.contains("none today") && outcome.errors.blemish().is_some(), "{failure:?}");
    let few = settings(200, &[SMALL, &mix, &["max_failed_requests=3"]].concat());
    let outcome = outcome_of(&few);
    assert!(outcome.incomplete.is_some_and(|why| why.contains("none today")));
}

/// Each requester fails once when the server ends its sessions, and goes on in others; with transactions apart, too.
#[test]
fn lost_connections_are_opened_again() {
    for (server, end_all) in [
        (
            Server::postgres(),
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
        ),
        (
            Server::mariadb(),
            "SELECT concat('KILL ', id) FROM information_schema.processlist WHERE db = database() AND id <> connection_id()",
        ),
    ] {
        let Some(server) = server else { continue };
        let fixed = ["requesters=3", "requests=1000", "requestrate=500", "multiget=prepared"];
        for style in [&["max_failed_requests=2"][..], &["max_failed_requests=-1", "never_change=true"]] {
            let mut settings = settings(300, &[SMALL, &fixed, style].concat());
            settings.compat.connections = style.len() > 1;
            let shards = loaded(&server, &settings);
            let requests = requests(&server, &settings, &shards);
            let plan = requests.plan(3).unwrap();
            let mut admin = Some(server.target().connect().unwrap());
            let outcome = run(requests, &plan, Some(server.target()), &mut |progress| {
                let is_time = progress.record.total().processed > 300;
                let Some(mut admin) = admin.take_if(|_| is_time) else { return };
                let mut rows = crate::target::Rows::default();
                admin.query(end_all, &mut rows).unwrap();
                let kills = (0..rows.len())
                    .filter_map(|row| rows.text(row, 0).filter(|_| server.name() == "MariaDB"));
                kills.for_each(|kill| assert!(admin.execute(&kill).is_ok()));
            })
            .unwrap();
            let total = outcome.record.total();
            assert_eq!(outcome.incomplete, None, "{} {style:?} {:?}", server.name(), outcome.errors);
            let failed = total.failed;
            assert!((3..=6).contains(&failed), "{} {style:?} {:?}", server.name(), outcome.errors);
            assert_eq!(total.processed + failed, 3_000, "{} {style:?}", server.name());
            assert!(outcome.errors.blemish().is_some());
            let mut connection = server.target().connect().unwrap();
            let checks = validate(connection.as_mut(), &settings, &shards, false).unwrap();
            assert!(checks.iter().all(|check| check.passed), "{} {checks:?}", server.name());
        }
    }
}

#[test]
fn requests_of_the_warmup_do_not_count() {
    let settings = settings(100, &["requesters=2", "requests=1000", "warmup_time=1", "requestrate=2000"]);
    let server = Server::noop();
    let shards = Shards::new(&settings.properties, server.target().dialect()).unwrap();
    let outcome = outcome(requests(&server, &settings, &shards), &server);
    assert_eq!(processed(&outcome), 2_000);
    // Nor do its counters: as many lists as were counted.
    let index = Operation::NAMES.iter().position(|name| *name == "GET_LINKS_LIST").unwrap();
    assert_eq!(outcome.counters["lists"], outcome.record.operations[index].processed);
}

#[test]
fn rates_are_a_requester_s() {
    let settings = settings(100, &["requesters=4", "requestrate=500", "maxtime=7", "warmup_time=2"]);
    let server = Server::noop();
    let shards = Shards::new(&settings.properties, server.target().dialect()).unwrap();
    let plan = requests(&server, &settings, &shards).plan(1).unwrap();
    assert_eq!((plan.pace, plan.clients, plan.time), (Pace::Poisson(2_000.0), 4, Duration::from_secs(7)));
}

/// Two connections, chosen ids within the time, links left behind: still the graph holds together.
#[test]
fn all_flaws_at_once() {
    each_target(|server| {
        let fixed = ["requesters=2", "requests=500", "getlinklist_history=20"];
        let mut settings = settings(300, &[SMALL, &fixed].concat());
        settings.compat = Compat::all();
        let shards = loaded(server, &settings);
        let outcome = outcome(requests(server, &settings, &shards), server);
        assert_eq!(processed(&outcome), 1_000, "{} {:?}", server.name(), outcome.errors);
        let mut connection = server.target().connect().unwrap();
        let checks = validate(connection.as_mut(), &settings, &shards, false).unwrap();
        assert!(checks.iter().all(|check| check.passed), "{} {checks:?}", server.name());
    });
}

/// Each shard has the whole graph; a store that miscounts is found at once.
#[test]
fn shards_are_asked_by_share_and_counts_are_checked() {
    each_target(|server| {
        let several: &[&str] = match server.name() {
            "SQLite" => &[],
            _ => &["dbcount=2", "dbload=25,75"],
        };
        let fixed = ["requesters=2", "requests=500", "check_count=true"];
        let settings = settings(300, &[SMALL, &fixed, several].concat());
        let shards = loaded(server, &settings);
        let mut connection = server.target().connect().unwrap();
        let fresh = validate(connection.as_mut(), &settings, &shards, true).unwrap();
        assert!(
            fresh.iter().all(|check| check.passed) && fresh.len() == 5 * shards.schemas().len(),
            "{fresh:?}"
        );
        outcome(requests(server, &settings, &shards), server);
        let checks = validate(connection.as_mut(), &settings, &shards, false).unwrap();
        assert!(checks.iter().all(|check| check.passed), "{} {checks:?}", server.name());
        for schema in shards.schemas() {
            connection.execute(&format!("UPDATE {} SET count = count + 1", schema.counts())).unwrap();
        }
        let requests = requests(server, &settings, &shards);
        let outcome = run(requests.clone(), &requests.plan(5).unwrap(), None, &mut |_| ()).unwrap();
        let why = outcome.incomplete.unwrap();
        assert!(why.contains("of its links are visible"), "{why}");
    });
}

#[test]
fn wrong_settings_of_requests_are_told() {
    let message = |definitions: &[&str]| {
        let settings = settings(50, definitions);
        let target = Target::open("noop:").unwrap();
        let shards = Shards::new(&settings.properties, target.dialect()).unwrap();
        Requests::new(&target, &settings, &shards).map(drop).unwrap_err().to_string()
    };
    let low = "property \"link_multiget_dist_min\" (-D link_multiget_dist_min=";
    assert_eq!(message(&["link_multiget_dist_min=0"]), format!("{low}0): 0 is not between 1 and 9999"));
    let found = message(&["link_multiget_dist_min=500"]);
    assert_eq!(found, format!("{low}500): 500 to 128 is not a range within 1 to 10000"));
    let found = message(&["link_multiget_dist_max=20000"]);
    assert!(
        found.starts_with("property \"link_multiget_dist_max\" (-D link_multiget_dist_max=20000)"),
        "{found}"
    );
    assert!(message(&["id2gen_config=2"]).ends_with("2 is neither 0 nor 1"));
}
