//! CSV, JSON lines and Parquet.

use std::fs::File;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Float64Array, Int16Array, Int32Array, Int64Array, RecordBatch,
    StringArray, TimestampNanosecondArray,
};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use super::Ours;
use super::row::{COLUMNS, Row, inserts, rows};
use crate::server::rows as read;

const ROWS: i32 = 300;

async fn start() -> (Ours, Vec<Row>) {
    let ours = Ours::start().await;
    let rows = rows(ROWS, 5);
    ours.run(&format!(
        "CREATE TABLE ours ({COLUMNS});
         CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
         CREATE SERVER parquet FOREIGN DATA WRAPPER parquet_fdw"
    ))
    .await;
    ours.run(&inserts("ours", &rows, false)).await;
    (ours, rows)
}

#[tokio::test]
async fn csv_answers_as_a_table_of_ours() {
    let (ours, rows) = start().await;
    let lines: Vec<_> = rows.iter().map(Row::csv).collect();
    let (one, folder) = (ours.path("f.csv"), ours.path("parts"));
    let head = "id,small,big,x,name,ok,day,at\n";
    std::fs::write(&one, format!("{head}{}\n", lines.join("\n"))).unwrap();
    std::fs::create_dir(&folder).unwrap();
    for (i, part) in lines.chunks(70).enumerate() {
        std::fs::write(format!("{folder}/part{i}.csv"), format!("{head}{}\n", part.join("\n"))).unwrap();
    }
    std::fs::write(format!("{folder}/readme.md"), "not a part of it").unwrap();
    for (name, place) in [("one", &one), ("every", &folder), ("matched", &format!("{folder}/part*.csv"))] {
        ours.run(&format!(
            "CREATE FOREIGN TABLE {name} ({COLUMNS}) SERVER files OPTIONS (filename '{place}', format 'csv', header 'true')"
        ))
        .await;
        assert_eq!(ours.asked(&format!("SELECT * FROM {name}")).await, *place);
    }
    ours.compare("one", 1).await;
    for table in ["every", "matched"] {
        assert_eq!(
            read(&ours.client, &format!("SELECT count(*), sum(id), max(name) FROM {table}")).await,
            read(&ours.client, "SELECT count(*), sum(id), max(name) FROM ours").await,
        );
    }
}

#[tokio::test]
async fn json_lines_answer_as_a_table_of_ours() {
    let (ours, rows) = start().await;
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let line = |row: &Row| {
        let mut members = vec![format!("\"id\": {}", row.id), "\"more\": {\"id\": [1, {}]}".to_string()];
        members.extend(row.small.map(|v| format!("\"small\": {v}")));
        members.extend(row.big.map(|v| format!("\"big\": {v}")));
        members.push(format!("\"x\": {}", row.x.map_or("null".into(), |x| format!("{x:?}"))));
        members.extend(row.name.map(|v| format!("\"name\": {}", quoted(v))));
        members.extend(row.ok.map(|v| format!("\"ok\": {v}")));
        members.extend(row.day.as_deref().map(|v| format!("\"day\": {}", quoted(v))));
        members.extend(row.at.as_deref().map(|v| format!("\"at\": {}", quoted(v))));
        format!("{{{}}}\n", members.join(", "))
    };
    let path = ours.path("f.jsonl");
    std::fs::write(&path, rows.iter().map(line).collect::<String>()).unwrap();
    ours.run(&format!(
        "CREATE FOREIGN TABLE f ({COLUMNS}) SERVER files OPTIONS (filename '{path}', format 'json');
         CREATE FOREIGN TABLE doc (id int, more jsonb) SERVER files OPTIONS (filename '{path}', format 'json')"
    ))
    .await;
    ours.compare("f", 1).await;
    let doc = read(&ours.client, "SELECT more FROM doc WHERE id = 7").await;
    assert_eq!(doc, [[r#"{"id": [1, {}]}"#]]);
}

/// Groups of 50 rows, times in nanoseconds.
pub fn write_parquet(path: &str, rows: &[Row]) {
    let micros = |at: &str| {
        let at = chrono::NaiveDateTime::parse_from_str(at, "%Y-%m-%d %H:%M:%S%.f").unwrap();
        at.and_utc().timestamp_nanos_opt().unwrap() + 999
    };
    let day = |day: &str| {
        let day = chrono::NaiveDate::parse_from_str(day, "%Y-%m-%d").unwrap();
        (day - chrono::NaiveDate::default()).num_days() as i32
    };
    let columns: [(&str, ArrayRef); 8] = [
        ("id", Arc::new(rows.iter().map(|row| Some(row.id)).collect::<Int32Array>())),
        ("small", Arc::new(rows.iter().map(|row| row.small).collect::<Int16Array>())),
        ("big", Arc::new(rows.iter().map(|row| row.big).collect::<Int64Array>())),
        ("x", Arc::new(rows.iter().map(|row| row.x).collect::<Float64Array>())),
        ("name", Arc::new(rows.iter().map(|row| row.name).collect::<StringArray>())),
        ("ok", Arc::new(rows.iter().map(|row| row.ok).collect::<BooleanArray>())),
        ("day", Arc::new(rows.iter().map(|row| row.day.as_deref().map(day)).collect::<Date32Array>())),
        (
            "at",
            Arc::new(
                rows.iter().map(|row| row.at.as_deref().map(micros)).collect::<TimestampNanosecondArray>(),
            ),
        ),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(50)).build();
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[tokio::test]
async fn parquet_answers_as_a_table_of_ours() {
    let (ours, rows) = start().await;
    let path = ours.path("f.parquet");
    write_parquet(&path, &rows);
    let folder = ours.dir.path().display();
    ours.run(&format!("IMPORT FOREIGN SCHEMA \"{folder}\" FROM SERVER parquet INTO public")).await;
    ours.compare("f", 1).await;
    ours.run(&format!(
        "CREATE FOREIGN TABLE by_file_fdw ({COLUMNS}) SERVER files OPTIONS (filename '{path}', format 'parquet')"
    ))
    .await;
    let all = "SELECT * FROM TABLE ORDER BY id";
    assert_eq!(
        read(&ours.client, &all.replace("TABLE", "by_file_fdw")).await,
        read(&ours.client, &all.replace("TABLE", "ours")).await
    );
    // One group of six is read.
    let plan = read(&ours.client, "EXPLAIN ANALYZE SELECT x FROM f WHERE id = 120").await.concat();
    assert!(plan.iter().any(|line| line.trim() == "Rows Removed by Filter: 49"), "{plan:?}");
}

#[tokio::test]
async fn what_is_wrong_is_told() {
    let (ours, rows) = start().await;
    let (csv, json, parquet) = (ours.path("bad.csv"), ours.path("bad.jsonl"), ours.path("f.parquet"));
    std::fs::write(&csv, "1,a\nx,b\n").unwrap();
    std::fs::write(&json, "{\"a\": 1}\n\n{\"a\": \"1\"}\n").unwrap();
    write_parquet(&parquet, &rows);
    let lists = ours.path("lists.jsonl");
    std::fs::write(&lists, "[1, 2]").unwrap();
    let broken = ours.path("broken.parquet");
    std::fs::write(&broken, "PAR1 but nothing more").unwrap();
    // Whoever opened it would wait for a writer.
    let pipe = ours.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    ours.run(&format!(
        "CREATE FOREIGN TABLE pipe (a int) SERVER files OPTIONS (filename '{pipe}', format 'csv');
         CREATE FOREIGN TABLE lines (a int) SERVER files OPTIONS (filename '{pipe}', format 'json');
         CREATE FOREIGN TABLE pages (a int) SERVER parquet OPTIONS (filename '{pipe}');
         CREATE FOREIGN TABLE endless (a int) SERVER files OPTIONS (filename '/dev/zero', format 'csv')"
    ))
    .await;
    ours.run(&format!(
        "CREATE FOREIGN TABLE c (a int, b text) SERVER files OPTIONS (filename '{csv}', format 'csv');
         CREATE FOREIGN TABLE few (a text) SERVER files OPTIONS (filename '{csv}', format 'csv');
         CREATE FOREIGN TABLE short (a text, b varchar(1)) SERVER files OPTIONS (filename '{csv}', format 'csv');
         CREATE FOREIGN TABLE j (a int) SERVER files OPTIONS (filename '{json}', format 'json');
         CREATE FOREIGN TABLE cj (a json) SERVER files OPTIONS (filename '{csv}', format 'json');
         CREATE FOREIGN TABLE lists (a json) SERVER files OPTIONS (filename '{lists}', format 'json');
         CREATE FOREIGN TABLE nowhere (a int) SERVER files OPTIONS (filename '/nowhere/f.csv', format 'csv');
         CREATE FOREIGN TABLE none (a int) SERVER files OPTIONS (filename '/tmp/no such *.csv', format 'csv');
         CREATE FOREIGN TABLE p (id int, nope int) SERVER parquet OPTIONS (filename '{parquet}');
         CREATE FOREIGN TABLE q (name int) SERVER parquet OPTIONS (filename '{parquet}');
         CREATE FOREIGN TABLE narrow (big int) SERVER parquet OPTIONS (filename '{parquet}');
         CREATE FOREIGN TABLE broken (a int) SERVER parquet OPTIONS (filename '{broken}')"
    ))
    .await;
    for (query, place) in [
        ("SELECT * FROM c", "bad.csv\" of foreign table \"c\" on server \"files\""),
        ("SELECT * FROM nowhere", "f.csv\" of foreign table \"nowhere\" on server \"files\""),
        ("SELECT * FROM none", "foreign table \"none\" on server \"files\""),
        ("SELECT * FROM j", "line 3\nfile \""),
        ("SELECT * FROM broken", "\" of foreign table \"broken\" on server \"parquet\""),
    ] {
        let error = ours.client.simple_query(query).await.unwrap_err();
        let context = error.as_db_error().and_then(|error| error.where_()).unwrap_or_default();
        assert!(context.contains(place), "{query}: {error:?}");
    }
    for (query, state, message) in [
        ("SELECT * FROM c", "22P02", "invalid input syntax for type integer: \"x\""),
        ("SELECT * FROM few", "22P04", "extra data after last expected column"),
        (
            "SELECT * FROM j",
            "HV004",
            "column \"a\" of foreign table \"j\" is of type integer, but column \"a\"",
        ),
        ("SELECT * FROM cj", "22P02", "invalid input syntax for type json"),
        ("SELECT * FROM lists", "22P04", "a line is no JSON object"),
        (
            "SELECT * FROM nowhere",
            "58P01",
            "could not open file \"/nowhere/f.csv\": No such file or directory",
        ),
        (
            "SELECT * FROM none",
            "58P01",
            "could not open file \"/tmp/no such *.csv\": No such file or directory",
        ),
        ("SELECT * FROM pipe", "42809", "pipe\": Not a regular file"),
        ("SELECT * FROM lines", "42809", "pipe\": Not a regular file"),
        ("SELECT * FROM pages", "42809", "pipe\": Not a regular file"),
        ("SELECT * FROM endless", "42809", "could not open file \"/dev/zero\": Not a regular file"),
        ("SELECT id FROM p", "42703", "has no column \"nope\""),
        (
            "SELECT * FROM q",
            "HV004",
            "column \"name\" of foreign table \"q\" is of type integer, but column \"name\" of file",
        ),
        ("SELECT * FROM narrow", "22003", ""),
        ("SELECT * FROM broken", "HV000", "could not read file"),
        (
            "CREATE FOREIGN TABLE x (a int) SERVER files",
            "HV002",
            "either filename or program is required for file_fdw foreign tables",
        ),
        (
            "CREATE FOREIGN TABLE x (a int) SERVER files OPTIONS (filename '/x', format 'xml')",
            "22023",
            "COPY format \"xml\" not recognized",
        ),
        (
            "CREATE FOREIGN TABLE x (a int) SERVER files OPTIONS (filename '/x', format 'text', quote '''')",
            "0A000",
            "COPY quote available only in CSV mode",
        ),
        (
            "CREATE FOREIGN TABLE x (a int) SERVER files OPTIONS (filename '/x', format 'csv', delimiter ',,')",
            "0A000",
            "COPY delimiter must be a single one-byte character",
        ),
        (
            "CREATE FOREIGN TABLE x (a int) SERVER files OPTIONS (filename '/x', format 'json', header 'true')",
            "HV00D",
            "",
        ),
        (
            "CREATE FOREIGN TABLE x (a int) SERVER files OPTIONS (file '/x')",
            "HV00D",
            "invalid option \"file\"",
        ),
        (
            "CREATE FOREIGN TABLE x (a int) SERVER files OPTIONS (program 'ls')",
            "0A000",
            "option \"program\" is not supported",
        ),
        (
            "IMPORT FOREIGN SCHEMA x FROM SERVER files INTO public",
            "HV00P",
            "does not support IMPORT FOREIGN SCHEMA",
        ),
        (
            "IMPORT FOREIGN SCHEMA \"/nowhere\" FROM SERVER parquet INTO public",
            "HV00Q",
            "schema \"/nowhere\" is not present",
        ),
    ] {
        ours.check_failure(query, state, message).await;
    }
    let error = ours.client.simple_query("SELECT * FROM c").await.unwrap_err();
    let place =
        format!("COPY c, line 2, column a: \"x\"\nfile \"{csv}\" of foreign table \"c\" on server \"files\"");
    assert_eq!(error.as_db_error().unwrap().where_(), Some(place.as_str()));
    let error = ours
        .client
        .simple_query("CREATE FOREIGN TABLE x (a int) SERVER files OPTIONS (file '/x')")
        .await
        .unwrap_err();
    assert_eq!(
        error.as_db_error().unwrap().hint(),
        Some(
            "Valid options in this context are: filename, program, format, header, delimiter, quote, escape, null, encoding"
        )
    );
}
