//! Object stores that do not give what they are asked for, that hang, and that say something else.

use tokio_postgres::NoTls;

use super::PATIENCE;
use super::object::{start, wide};
use super::store::Mode;
use crate::server::{failure, rows as read};

#[tokio::test]
async fn what_a_store_does_not_give_is_told() {
    let (ours, store) = start("").await;
    store.put("/b/wide.parquet", wide(3000));
    store.put("/b/broken.parquet", "PAR1 but nothing more");
    // Ends as a file does whose end tells of 4 GB of description.
    store.put("/b/greedy.parquet", b"PAR1\xff\xff\xff\xffPAR1".to_vec());
    store.put("/b/f.csv", "1\n");
    let web = store.endpoint();
    let none = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    ours.run(&format!(
        "CREATE SERVER gone FOREIGN DATA WRAPPER file_fdw;
         CREATE FOREIGN TABLE f (a int) SERVER s3 OPTIONS (filename 's3://b/f.csv', format 'csv');
         CREATE FOREIGN TABLE nofile (a int) SERVER s3 OPTIONS (filename 's3://b/none.csv', format 'csv');
         CREATE FOREIGN TABLE nofolder (a int) SERVER s3 OPTIONS (filename 's3://b/none/', format 'csv');
         CREATE FOREIGN TABLE nopattern (a int) SERVER s3 OPTIONS (filename 's3://b/none*', format 'csv');
         CREATE FOREIGN TABLE noweb (a int) SERVER s3 OPTIONS (filename '{web}/b/none', format 'csv');
         CREATE FOREIGN TABLE gone (a int) SERVER gone OPTIONS (filename 'http://{none}/f.csv', format 'csv');
         CREATE FOREIGN TABLE slashes (a int) SERVER s3 OPTIONS (filename 's3://b/a//b', format 'csv');
         CREATE FOREIGN TABLE w (id bigint) SERVER lake OPTIONS (filename 's3://b/wide.parquet');
         CREATE FOREIGN TABLE broken (id bigint) SERVER lake OPTIONS (filename 's3://b/broken.parquet');
         CREATE FOREIGN TABLE greedy (id bigint) SERVER lake OPTIONS (filename 's3://b/greedy.parquet');
         CREATE FOREIGN TABLE nop (id bigint) SERVER lake OPTIONS (filename 's3://b/none.parquet')"
    ))
    .await;
    for (query, state, message) in [
        (
            "SELECT * FROM nofile",
            "58P01",
            "could not open file \"s3://b/none.csv\": No such file or directory",
        ),
        (
            "SELECT * FROM nofolder",
            "58P01",
            "could not open file \"s3://b/none/\": No such file or directory",
        ),
        (
            "SELECT * FROM nopattern",
            "58P01",
            "could not open file \"s3://b/none*\": No such file or directory",
        ),
        ("SELECT * FROM noweb", "58P01", "/b/none\": No such file or directory"),
        ("SELECT * FROM nop", "58P01", "could not open file \"s3://b/none.parquet\""),
        ("SELECT * FROM gone", "08001", "could not connect to server \"gone\""),
        ("SELECT * FROM slashes", "22023", "\"s3://b/a//b\" cannot be the name of a file"),
        ("SELECT * FROM broken", "HV000", "could not read file \"s3://b/broken.parquet\""),
        ("SELECT * FROM greedy", "HV000", "could not read file \"s3://b/greedy.parquet\""),
    ] {
        ours.check_failure(query, state, message).await;
    }
    for (mode, state, message) in [
        (Mode::Status(500), "HV000", "could not read file \"s3://b/"),
        (Mode::Status(301), "HV000", "could not read file \"s3://b/"),
        (Mode::Status(401), "42501", "Permission denied"),
    ] {
        store.set(mode);
        ours.check_failure("SELECT * FROM f", state, message).await;
        ours.check_failure("SELECT * FROM w", state, message).await;
    }
    store.set(Mode::Status(500));
    store.asked();
    ours.check_failure("SELECT * FROM f", "HV000", "").await;
    let asked = store.asked().iter().filter(|asked| asked.ends_with("f.csv")).count();
    assert_eq!(asked, 3, "it is tried again, twice");
    // What tells what is in the file is a gigabyte of it, if that is true.
    store.put("/b/behind.parquet", [&[0; 70_000], b"\x00\x00\x00\x40PAR1".as_slice()].concat());
    ours.run(
        "CREATE FOREIGN TABLE behind (id bigint) SERVER lake OPTIONS (filename 's3://b/behind.parquet')",
    )
    .await;
    store.set(Mode::Behind(2 << 30));
    ours.check_failure(
        "SELECT * FROM behind",
        "54000",
        "a part of file \"s3://b/behind.parquet\" is too large",
    )
    .await;
    store.set(Mode::Changing);
    let message = "file \"s3://b/wide.parquet\" has changed while it was read";
    ours.check_failure("SELECT * FROM w", "HV000", message).await;
    store.set(Mode::WholeFiles);
    assert_eq!(read(&ours.client, "SELECT * FROM f").await, [["1"]]);
    let error = ours.client.simple_query("SELECT * FROM w").await.unwrap_err();
    assert!(!error.as_db_error().unwrap().code().code().starts_with("XX"), "{error:?}");
    store.set(Mode::Garbage);
    for table in ["f", "w", "nofolder"] {
        let error = ours.client.simple_query(&format!("SELECT * FROM {table}")).await.unwrap_err();
        let (told, error) = (format!("{error:?}"), error.as_db_error().unwrap());
        assert!(error.code().code().starts_with("08"), "{told}");
    }
    store.set(Mode::Serve);
    ours.until("SELECT string_agg(state, ',') FROM tidemill.nodes WHERE server IN ('s3', 'lake')", "up,up")
        .await;
    for (options, state, message) in [
        ("endpoint 'ftp://x'", "22023", "invalid endpoint"),
        ("endpoint 'http://ann:guess@x'", "22023", "option \"endpoint\" has a user or a password"),
        ("region 'a/b'", "22023", "invalid region"),
        ("bucket 'b'", "HV00D", "invalid option \"bucket\""),
    ] {
        let create = format!("CREATE SERVER x FOREIGN DATA WRAPPER parquet_fdw OPTIONS ({options})");
        ours.check_failure(&create, state, message).await;
    }
    for (options, state, message) in [
        ("filename 'gs://b/f'", "0A000", "files of \"gs://\" are not supported"),
        ("filename 'https://host/folder/'", "0A000", "is a folder of a web server"),
        ("dirname 'https://host/folder'", "0A000", "is no folder of an object store"),
        ("filename 's3:///f'", "22023", "has no valid name of a bucket"),
        ("filename 'https://ann:guess@host/f'", "22023", "has a user or a password"),
        ("filename '/a', dirname '/b'", "HV002", "not given together"),
    ] {
        let create = format!("CREATE FOREIGN TABLE x (a int) SERVER lake OPTIONS ({options})");
        ours.check_failure(&create, state, message).await;
    }
}

#[tokio::test]
async fn a_store_that_hangs_keeps_nobody_waiting() {
    let (ours, store) = start(", connect_timeout '1'").await;
    store.put("/b/a/wide.parquet", wide(3000));
    store.put("/b/a/f.csv", "1\n".repeat(100_000));
    let web = store.endpoint();
    ours.run(&format!(
        "CREATE SERVER web FOREIGN DATA WRAPPER file_fdw OPTIONS (connect_timeout '1');
         CREATE FOREIGN TABLE web (a int) SERVER web OPTIONS (filename '{web}/b/a/f.csv', format 'csv');
         CREATE FOREIGN TABLE f (a int) SERVER s3 OPTIONS (filename 's3://b/a/f.csv', format 'csv');
         CREATE FOREIGN TABLE every (a int) SERVER s3 OPTIONS (filename 's3://b/a/', format 'csv');
         CREATE FOREIGN TABLE w (id bigint, c1 text) SERVER lake OPTIONS (filename 's3://b/a/wide.parquet')"
    ))
    .await;
    // What is cut off goes on where it was.
    store.set(Mode::CutAfter(50_000));
    assert_eq!(read(&ours.client, "SELECT sum(a) FROM f").await, [["100000"]]);
    assert_eq!(read(&ours.client, "SELECT count(*), count(c1) FROM w").await, [["3000", "3000"]]);
    // The probes hang as well: any error of the class will do.
    for mode in [Mode::Hang, Mode::HangAfter(50_000), Mode::HangAfter(10)] {
        for table in ["web", "f", "every", "w"] {
            store.set(mode);
            let error = ours.client.simple_query(&format!("SELECT * FROM {table}")).await.unwrap_err();
            let (told, error) = (format!("{error:?}"), error.as_db_error().unwrap());
            assert!(error.code().code().starts_with("08"), "{told}");
            assert!(error.message().contains("server \""), "{told}");
            // Nobody probes web servers: it is the file's own request that ends.
            assert!(table != "web" || error.detail().unwrap().contains(&web), "{told}");
            store.set(Mode::Serve);
            ours.until(
                "SELECT string_agg(state, ',') FROM tidemill.nodes WHERE server IN ('s3', 'lake')",
                "up,up",
            )
            .await;
        }
    }
}

#[tokio::test]
async fn whoever_gives_up_asks_no_more() {
    let (ours, store) = start("").await;
    store.put("/b/f.csv", "1\n".repeat(100_000));
    ours.run("CREATE FOREIGN TABLE f (a int) SERVER s3 OPTIONS (filename 's3://b/f.csv', format 'csv')")
        .await;
    store.set(Mode::HangAfter(1000));
    let (token, canceller) = (ours.client.cancel_token(), store.state.clone());
    let query = ours.client.simple_query("SELECT count(*) FROM f");
    let cancel = async move {
        canceller.until_hanging(PATIENCE).await;
        token.cancel_query(NoTls).await.unwrap();
    };
    let (answer, ()) = tokio::join!(query, cancel);
    assert_eq!(answer.unwrap_err().code().unwrap().code(), "57014");
    store.state.until_left(PATIENCE).await;
    ours.run("SET statement_timeout = '200ms'").await;
    store.set(Mode::Hang);
    let (state, _) =
        failure(&ours.client, "IMPORT FOREIGN SCHEMA \"s3://b\" FROM SERVER lake INTO public").await;
    assert_eq!(state, "57014");
    store.state.until_left(PATIENCE).await;
}
