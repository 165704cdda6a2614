//! Runs of the request phase.

use super::*;
use crate::linkbench::settings::Sources;
use crate::linkbench::suite::{drop_tables, fill};
use crate::linkbench::test_server::{Server, each_target};
use crate::linkbench::validate::validate;
use crate::run::{Outcome, run};

const SMALL: &[&str] = &["nlinks_func=Zipf", "nlinks_shape=0.8", "nlinks_mean=5", "loaders=2"];

fn settings(nodes: u64, definitions: &[&str]) -> Settings {
    let define = definitions.iter().map(|definition| (*definition).to_owned()).collect();
    Sources { nodes: Some(nodes), define, ..Sources::default() }.settings().unwrap()
}

fn loaded(server: &Server, settings: &Settings) -> Shards {
    let shards = Shards::new(&settings.properties, server.target().dialect()).unwrap();
    drop_tables(server.target(), &shards).unwrap();
    fill(server.target(), settings, &shards, 7, &|_| ()).unwrap();
    shards
}

fn requests(server: &Server, settings: &Settings, shards: &Shards) -> Arc<Requests> {
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
    let checks = validate(connection.as_mut(), &settings, &shards, false).unwrap();
    assert!(!checks[0].passed, "{checks:?}");
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
