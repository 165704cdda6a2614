//! Four hundred rows of half a megabyte, and a condition that only this server judges: they are not gathered until there
//! are enough for a batch, wherever they come from.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use arrow::array::{Int32Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;

use super::Ours;
use crate::postgres::Postgres;
use crate::server::rows as read;

const ROWS: i32 = 400;
const LENGTH: usize = 500_000;
/// Of 200 MB.
const GROWTH_MAX: u64 = 160 << 20;

#[tokio::test]
async fn of_sqlite() {
    let ours = Ours::start().await;
    let path = ours.path("s.db");
    let remote = rusqlite::Connection::open(&path).unwrap();
    let wide = "WITH RECURSIVE g(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM g WHERE id < 400)
                SELECT id, hex(zeroblob(250000)) AS t FROM g";
    remote.execute_batch(&format!("CREATE VIEW wide AS {wide}")).unwrap();
    ours.run(&format!("CREATE SERVER s FOREIGN DATA WRAPPER sqlite_fdw OPTIONS (database '{path}')")).await;
    check(&ours, "SERVER s").await;
}

#[tokio::test]
async fn of_postgres() {
    let Some(node) = Postgres::start() else { return };
    let wide = "SELECT id, repeat('x', 500000) AS t FROM generate_series(1, 400) AS id";
    node.connect("postgres").await.batch_execute(&format!("CREATE VIEW wide AS {wide}")).await.unwrap();
    let ours = Ours::start().await;
    let server = format!("host '127.0.0.1', port '{}', dbname 'postgres'", node.port);
    ours.run(&format!(
        "CREATE SERVER s FOREIGN DATA WRAPPER postgres_fdw OPTIONS ({server});
         CREATE USER MAPPING FOR PUBLIC SERVER s OPTIONS (user 'postgres')"
    ))
    .await;
    check(&ours, "SERVER s").await;
}

#[tokio::test]
async fn of_csv() {
    let ours = Ours::start().await;
    let path = write_lines(&ours, |id, text| format!("{id},{text}"));
    ours.run("CREATE SERVER s FOREIGN DATA WRAPPER file_fdw").await;
    check(&ours, &format!("SERVER s OPTIONS (filename '{path}', format 'csv')")).await;
}

#[tokio::test]
async fn of_json() {
    let ours = Ours::start().await;
    let path = write_lines(&ours, |id, text| format!(r#"{{"id": {id}, "t": "{text}"}}"#));
    ours.run("CREATE SERVER s FOREIGN DATA WRAPPER file_fdw").await;
    check(&ours, &format!("SERVER s OPTIONS (filename '{path}', format 'json')")).await;
}

#[tokio::test]
async fn of_parquet() {
    let ours = Ours::start().await;
    let path = ours.path("wide.parquet");
    // Texts differ, so that the file is as large as they are.
    let texts = (1..=ROWS).map(|id| format!("{id:08}{}", "x".repeat(LENGTH - 8))).collect::<Vec<_>>();
    let ids = Arc::new(Int32Array::from_iter_values(1..=ROWS));
    let batch = RecordBatch::try_from_iter([
        ("id", ids as Arc<_>),
        ("t", Arc::new(StringArray::from_iter_values(&texts)) as Arc<_>),
    ]);
    let batch = batch.unwrap();
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    ours.run("CREATE SERVER s FOREIGN DATA WRAPPER parquet_fdw").await;
    check(&ours, &format!("SERVER s OPTIONS (filename '{path}')")).await;
}

fn write_lines(ours: &Ours, line: impl Fn(i32, &str) -> String) -> String {
    let (path, text) = (ours.path("wide"), "x".repeat(LENGTH));
    let mut file = File::create(&path).unwrap();
    for id in 1..=ROWS {
        writeln!(file, "{}", line(id, &text)).unwrap();
    }
    path
}

async fn check(ours: &Ours, place: &str) {
    ours.run(&format!("CREATE FOREIGN TABLE wide (id int, t text) {place}")).await;
    let before = ours.server.memory_bytes();
    let counted = "SELECT count(*), sum(length(t)) FROM wide WHERE random() >= 0";
    assert_eq!(read(&ours.client, counted).await, [["400", "200000000"]]);
    ours.run("BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT * FROM wide WHERE random() >= 0").await;
    assert_eq!(read(&ours.client, "FETCH 1 FROM c").await[0][0], "1");
    ours.run("COMMIT").await;
    let grown = ours.server.peak_memory_bytes() - before;
    assert!(grown < GROWTH_MAX, "{} MB", grown >> 20);
}
