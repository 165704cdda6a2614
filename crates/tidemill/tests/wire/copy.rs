//! COPY from and to files of the server.

use crate::server::{Server, failure, rows};

const SET_UP: &str = "CREATE STREAM s (k int, x float8, t text);
     CREATE CONTINUOUS VIEW v AS SELECT k, count(*), sum(x), min(t) FROM s GROUP BY k";

#[tokio::test]
async fn a_file_of_the_server_is_read_and_written() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client.batch_execute(SET_UP).await.unwrap();
    let (input, output) = (dir.path().join("in.csv"), dir.path().join("out.bin"));
    std::fs::write(&input, "k,x,t\n1,0.5,\"a, b\"\n1,1.5,c\n2,,\n").unwrap();
    let copy = format!("COPY s (k, x, t) FROM '{}' (FORMAT csv, HEADER)", input.display());
    client.batch_execute(&copy).await.unwrap();
    let expected = [["1", "2", "2", "a, b"], ["2", "1", "NULL", "NULL"]];
    assert_eq!(rows(&client, "SELECT * FROM v ORDER BY k").await, expected);

    // In each format, out and in again.
    for format in ["binary", "text", "csv"] {
        let select = "SELECT k, sum, min FROM v";
        let out = format!("COPY ({select}) TO '{}' (FORMAT {format})", output.display());
        client.batch_execute(&out).await.unwrap();
        let written = rows(&client, "SELECT k, count FROM v ORDER BY k").await;
        let back = format!("COPY s FROM '{}' (FORMAT {format})", output.display());
        client.batch_execute(&back).await.unwrap();
        for (before, after) in written.iter().zip(rows(&client, "SELECT k, count FROM v ORDER BY k").await) {
            assert_eq!(before[1].parse::<u64>().unwrap() + 1, after[1].parse::<u64>().unwrap(), "{format}");
        }
    }
    // A path without a folder is one in the data directory, as with PostgreSQL.
    client.batch_execute("COPY s FROM 'in.csv' (FORMAT csv, HEADER)").await.unwrap();
}

#[tokio::test]
async fn what_is_wrong_with_a_file_is_said_and_nothing_is_applied() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client.batch_execute(SET_UP).await.unwrap();
    let path = dir.path().join("bad.txt");
    std::fs::write(&path, "1\t0.5\ta\n2\tx\tb\n").unwrap();
    let (path, folder) = (path.display(), dir.path().display());
    let expected = [
        (format!("COPY s FROM '{folder}/none'"), "58P01", "could not open file"),
        (format!("COPY s FROM '{folder}'"), "42809", "is a directory"),
        (format!("COPY s FROM '{path}'"), "22P02", "invalid input syntax for type double precision: \"x\""),
        (format!("COPY s FROM '{path}' (FORMAT binary)"), "22P04", "COPY file signature not recognized"),
        ("COPY v TO 'out.txt'".to_string(), "42602", "relative path not allowed for COPY to file"),
        (format!("COPY v TO '{folder}/no/out.txt'"), "58P01", "No such file or directory"),
        (format!("COPY s FROM '{path}' (FREEZE)"), "0A000", "cannot perform COPY FREEZE on a stream"),
        ("COPY s FROM PROGRAM 'cat'".to_string(), "0A000", "COPY with a program of the server"),
    ];
    for (sql, state, message) in expected {
        let (got_state, got) = failure(&client, &sql).await;
        assert_eq!(got_state, state, "{sql}: {got}");
        assert!(got.contains(message), "{sql}: {got}");
    }
    assert_eq!(rows(&client, "SELECT count(*) FROM v").await, [["0"]]);
    // In a block, what was read before stays out when the block is rolled back.
    std::fs::write(dir.path().join("good.txt"), "1\t0.5\ta\n").unwrap();
    client.batch_execute("BEGIN; COPY s FROM 'good.txt'; ROLLBACK").await.unwrap();
    assert_eq!(rows(&client, "SELECT count(*) FROM v").await, [["0"]]);
    client.batch_execute("BEGIN; COPY s FROM 'good.txt'; COPY s FROM 'good.txt'; COMMIT").await.unwrap();
    assert_eq!(rows(&client, "SELECT count FROM v").await, [["2"]]);
}
