//! A transaction of a delivery whose end nobody has seen: what its server is asked, and what follows from each answer.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tokio_postgres::Client;

use super::{Archive, READINGS, WAITING};
use crate::node::until;
use crate::postgres::{Postgres, as_user, installed, run, serve};
use crate::proxy::Mode;
use crate::server::{Server, rows};

impl Archive {
    /// As after 200 million transactions more, and a VACUUM: the server is stopped meanwhile.
    async fn count_on(&mut self) {
        let data = &rows(&self.remote, "SHOW data_directory").await[0][0];
        let (data, bin) = (Path::new(data), installed().unwrap());
        let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
        run(as_user(is_root, &bin.join("pg_ctl")).args(["stop", "-m", "fast", "-D"]).arg(data));
        self.postgres.process.wait().unwrap();
        run(as_user(is_root, &bin.join("pg_resetwal")).args(["-u", "20000", "-x", "30000"]).arg(data));
        self.postgres.process = serve(&bin, is_root, data, self.postgres.port);
        self.postgres.wait_until_up();
        self.remote = self.postgres.connect("postgres").await;
    }
}

/// A hundred events, whose COMMIT in the archive lingers when the server's host dies.
async fn die_at_commit(archive: &Archive, server: &mut Server, client: &Client, carried_out: bool) {
    archive.proxy.set(Mode::LingerAtCommit { carried_out });
    client.batch_execute("INSERT INTO s SELECT g, 1 FROM generate_series(1, 100) g").await.unwrap();
    archive.proxy.until_lingering(1).await;
    server.kill();
}

const ROWS: &str = "SELECT count(*), count(DISTINCT id) FROM reading";
const OPEN: &str = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_whose_host_is_gone_is_ended() {
    let Some((archive, mut server, client)) = Archive::start().await else { return };
    die_at_commit(&archive, &mut server, &client, false).await;
    archive.until(OPEN, "1").await;
    archive.proxy.set(Mode::Pass);
    let server = archive.server();
    until(&server.connect().await, WAITING, "0").await;
    assert_eq!(rows(&archive.remote, ROWS).await, [["100", "100"]]);
    assert_eq!(rows(&archive.remote, OPEN).await, [["0"]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_may_not_be_ended_is_waited_for() {
    let Some((archive, mut server, client)) = Archive::start().await else { return };
    archive
        .remote
        .batch_execute("CREATE ROLE clerk LOGIN; GRANT SELECT, INSERT ON reading TO clerk")
        .await
        .unwrap();
    die_at_commit(&archive, &mut server, &client, false).await;
    // Nothing is asked before the user is another one.
    archive.proxy.set(Mode::Hang);
    let server = archive.server();
    let client = server.connect().await;
    client
        .batch_execute("ALTER USER MAPPING FOR PUBLIC SERVER archive OPTIONS (ADD user 'clerk')")
        .await
        .unwrap();
    archive.proxy.set(Mode::Pass);
    let told = |why: &str| {
        let message = format!("the last transaction that writes to \"reading\" has not ended yet: {why}");
        format!("SELECT error LIKE '{message}%' FROM tidemill.deliveries")
    };
    until(&client, &told("what its session there does is not shown to this user"), "t").await;
    archive.remote.batch_execute("GRANT pg_read_all_stats TO clerk").await.unwrap();
    until(&client, &told("its session there may not be ended: must be a "), "t").await;
    archive.remote.batch_execute("ALTER ROLE clerk SUPERUSER").await.unwrap();
    // Somebody else may go by this number, in a server that was set back.
    let rename = "ALTER SERVER archive OPTIONS (ADD application_name 'another')";
    client.batch_execute(rename).await.unwrap();
    until(&client, &told("it is that of a session of \"tidemill\" there"), "t").await;
    assert_eq!(rows(&client, WAITING).await, [["100"]]);
    client.batch_execute("ALTER SERVER archive OPTIONS (DROP application_name)").await.unwrap();
    until(&client, WAITING, "0").await;
    assert_eq!(rows(&archive.remote, ROWS).await, [["100", "100"]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_under_way_is_waited_for() {
    let Some((archive, _server, client)) = Archive::start().await else { return };
    // A COMMIT waits for a standby, which never comes.
    let wait_for = async |standby: &str| {
        let set = format!("ALTER SYSTEM SET synchronous_standby_names = '{standby}'");
        archive.remote.simple_query(&set).await.unwrap();
        archive.remote.simple_query("SELECT pg_reload_conf()").await.unwrap();
    };
    wait_for("nobody").await;
    archive.until("SHOW synchronous_standby_names", "nobody").await;
    client.batch_execute("INSERT INTO s SELECT g, 1 FROM generate_series(1, 100) g").await.unwrap();
    archive.until("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'", "1").await;
    archive.proxy.set(Mode::Refuse);
    until(&client, "SELECT error IS NOT NULL FROM tidemill.deliveries", "t").await;
    archive.proxy.set(Mode::Pass);
    let at_work =
        "SELECT error LIKE '% has not ended yet: its session there is at work' FROM tidemill.deliveries";
    until(&client, at_work, "t").await;
    wait_for("").await;
    until(&client, WAITING, "0").await;
    assert_eq!(rows(&archive.remote, ROWS).await, [["100", "100"]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_be_there_is_delivered_again_when_nobody_can_tell() {
    let Some((mut archive, mut server, client)) = Archive::start().await else { return };
    die_at_commit(&archive, &mut server, &client, true).await;
    archive.count_on().await;
    assert_eq!(rows(&archive.remote, ROWS).await, [["100", "100"]]);
    archive.proxy.set(Mode::Pass);
    let server = archive.server();
    until(&server.connect().await, WAITING, "0").await;
    assert_eq!(rows(&archive.remote, ROWS).await, [["200", "100"]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_number_means_nothing_in_another_cluster() {
    let Some((mut archive, mut server, client)) = Archive::start().await else { return };
    let Some(other) = Postgres::start() else { return };
    die_at_commit(&archive, &mut server, &client, true).await;
    let next = rows(&archive.remote, "SELECT txid_current()").await[0][0].parse::<i64>().unwrap();
    archive.remote = other.connect("postgres").await;
    archive.remote.batch_execute(READINGS).await.unwrap();
    // There the number is that of somebody else, who has committed.
    while rows(&archive.remote, "SELECT txid_current()").await[0][0].parse::<i64>().unwrap() < next {}
    archive.proxy.redirect(other.port);
    archive.proxy.set(Mode::Pass);
    let server = archive.server();
    until(&server.connect().await, WAITING, "0").await;
    assert_eq!(rows(&archive.remote, ROWS).await, [["100", "100"]]);
}
