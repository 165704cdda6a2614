//! A server that refuses, hangs, sends garbage or goes away in mid-result: one error, in time, and nothing is left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use tidemill_federation::bound::Bounds;
use tidemill_federation::connector::{Connector, RemoteColumn, RemoteQuery};
use tidemill_federation::{Options, Wrapper};
use tidemill_sql::planner::plan_error;
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::{Result, SqlError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_postgres::NoTls;

use crate::postgres::Postgres;

/// In which a test that goes well is over many times.
const PATIENCE: Duration = Duration::from_secs(60);

/// The rows of a query at a port.
fn ask(port: u16, sql: &str) -> SendableRecordBatchStream {
    ask_of(&connector(port), sql)
}

fn connector(port: u16) -> Arc<dyn Connector> {
    let port = port.to_string();
    let server = Options::of([
        ("host", "127.0.0.1"),
        ("port", &port),
        ("connect_timeout", "1"),
        ("sslmode", "disable"),
    ]);
    let wrapper = Wrapper::get("postgres_fdw").unwrap();
    (wrapper.connect)("north", &server, &Options::of([("user", "postgres")])).unwrap()
}

fn ask_of(connector: &Arc<dyn Connector>, sql: &str) -> SendableRecordBatchStream {
    let query = RemoteQuery {
        sql: sql.to_string(),
        columns: vec![RemoteColumn { name: "a".into(), ty: Type::new(Scalar::Int4), remote: "a".into() }],
        table: "t".into(),
        relation: "t".into(),
        ..RemoteQuery::default()
    };
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, true)]));
    Arc::clone(connector).rows(Arc::new(query), schema, Bounds::of_rows(1000), None, Box::new(|_| {}))
}

async fn count(mut rows: SendableRecordBatchStream) -> Result<usize> {
    let counted = async {
        let mut count = 0;
        while let Some(batch) = rows.next().await {
            count += batch.map_err(plan_error)?.num_rows();
        }
        Ok::<_, SqlError>(count)
    };
    tokio::time::timeout(PATIENCE, counted).await.expect("an answer in time")
}

/// A server that does the same with every connection.
async fn serve<F>(connection: impl Fn(TcpStream) -> F + Send + 'static) -> u16
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(connection(socket));
        }
    });
    port
}

#[tokio::test]
async fn a_server_that_is_none_is_an_error_that_names_it() {
    let hangs = serve(|socket| async move {
        std::future::pending::<()>().await;
        drop(socket);
    });
    let ends = serve(|socket| async move { drop(socket) });
    let garbage = serve(|mut socket| async move {
        drop(socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\nwhat do you want?").await);
        let mut rest = Vec::new();
        drop(socket.read_to_end(&mut rest).await);
    });
    let long = serve(|mut socket| async move {
        // A message of a gigabyte, of which nothing comes.
        drop(socket.write_all(b"R\x40\0\0\0\0\0").await);
        std::future::pending::<()>().await;
    });
    for (port, detail) in [
        (hangs.await, "timeout expired"),
        (ends.await, ""),
        (garbage.await, ""),
        (long.await, "it does not speak PostgreSQL's protocol: a message \"R\" has 10737"),
    ] {
        let error = count(ask(port, "SELECT 1 AS a")).await.unwrap_err();
        assert_eq!(error.state.0, "08001", "{error:?}");
        assert_eq!(error.message, "could not connect to server \"north\"");
        assert!(error.detail.as_ref().unwrap().contains(detail), "{error:?}");
    }
}

#[derive(Clone, Copy)]
enum Fault {
    Reset,
    Hang,
}

/// Between us and a server: after so many bytes of an answer the fault happens.
async fn proxy(to: u16, bytes: u64, fault: Fault) -> u16 {
    serve(move |client| async move {
        let server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
        let (mut from_client, mut to_client) = client.into_split();
        let (from_server, mut to_server) = server.into_split();
        let asking = tokio::io::copy(&mut from_client, &mut to_server);
        let mut some = from_server.take(bytes);
        let answering = async {
            drop(tokio::io::copy(&mut some, &mut to_client).await);
            if let Fault::Hang = fault {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            _ = asking => {}
            () = answering => {}
        }
    })
    .await
}

const MANY: &str = "SELECT generate_series(1, 10000000) AS a";

async fn wait_until_alone(port: u16) {
    let config = format!("host=127.0.0.1 port={port} user=postgres application_name=other");
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(connection);
    let others =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidemill' AND state <> 'idle'";
    let deadline = Instant::now() + PATIENCE;
    while client.query_one(others, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        assert!(Instant::now() < deadline, "a connection is left behind");
    }
}

#[tokio::test]
async fn a_server_that_goes_away_in_mid_result_is_an_error() {
    let Some(node) = Postgres::start() else { return };
    assert_eq!(count(ask(node.port, "SELECT generate_series(1, 12345) AS a")).await.unwrap(), 12345);
    // At the start, in the answers before the rows, among the rows.
    for (bytes, state) in [(1, "08001"), (700, "08006"), (5_000, "08006"), (300_000, "08006")] {
        let port = proxy(node.port, bytes, Fault::Reset).await;
        let error = count(ask(port, MANY)).await.unwrap_err();
        assert!(error.state.0 == state && error.message.contains("\"north\""), "{bytes}: {error:?}");
    }
    wait_until_alone(node.port).await;
}

/// What has come does not wait for what takes its time.
#[tokio::test]
async fn rows_that_are_there_go_on() {
    let Some(node) = Postgres::start() else { return };
    // More than what that server gathers before it sends anything.
    let slow = "SELECT CASE WHEN i < 5000 THEN i ELSE length(pg_sleep(600)::text) END AS a FROM generate_series(1, 5000) AS i";
    let mut rows = ask(node.port, slow);
    let mut count = 0;
    while count <= 4000 {
        let batch = tokio::time::timeout(PATIENCE, rows.next()).await.expect("rows flow").unwrap();
        count += batch.unwrap().num_rows();
    }
    drop(rows);
    wait_until_alone(node.port).await;
}

#[tokio::test]
async fn a_server_that_hangs_in_mid_result_can_be_left() {
    let Some(node) = Postgres::start() else { return };
    let port = proxy(node.port, 300_000, Fault::Hang).await;
    let mut rows = ask(port, MANY);
    let first = tokio::time::timeout(PATIENCE, rows.next()).await.expect("rows flow").unwrap();
    assert_eq!(first.unwrap().num_rows(), 1000);
    drop(rows);
    wait_until_alone(node.port).await;
}

/// Holds the second connection, which is the one that cancels, back.
async fn late_cancel(to: u16, is_time: Arc<Notify>) -> u16 {
    let connections = AtomicUsize::new(0);
    serve(move |mut client| {
        let is_cancel = connections.fetch_add(1, Ordering::Relaxed) == 1;
        let is_time = Arc::clone(&is_time);
        async move {
            if is_cancel {
                is_time.notified().await;
            }
            let mut server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
            drop(tokio::io::copy_bidirectional(&mut client, &mut server).await);
        }
    })
    .await
}

#[tokio::test]
async fn a_cancel_that_comes_late_ends_no_other_query() {
    let Some(node) = Postgres::start() else { return };
    let is_time = Arc::new(Notify::new());
    let connector = connector(late_cancel(node.port, Arc::clone(&is_time)).await);
    let mut rows = ask_of(&connector, MANY);
    assert_eq!(rows.next().await.unwrap().unwrap().num_rows(), 1000);
    drop(rows);
    wait_until_alone(node.port).await;
    let mut rows = ask_of(&connector, MANY);
    assert_eq!(rows.next().await.unwrap().unwrap().num_rows(), 1000);
    is_time.notify_one();
    assert_eq!(count(rows).await.unwrap(), 10_000_000 - 1000);
}

/// What such a type is called has to be asked for, when rows are on their way already.
#[tokio::test]
async fn a_type_that_only_that_server_has_is_an_error_however_many_rows_there_are() {
    let Some(node) = Postgres::start() else { return };
    let client = node.connect("postgres").await;
    client.batch_execute("CREATE TYPE mood AS ENUM ('good')").await.unwrap();
    let connector = connector(node.port);
    for rows in [0, 1, 10_000_000] {
        let sql = format!("SELECT 'good'::public.mood AS a FROM generate_series(1, {rows})");
        let error = count(ask_of(&connector, &sql)).await.unwrap_err();
        assert!(error.state.0 == "HV004" && error.message.ends_with("is of type mood"), "{rows}: {error:?}");
    }
    assert_eq!(count(ask_of(&connector, "SELECT 1 AS a")).await.unwrap(), 1);
    wait_until_alone(node.port).await;
}
