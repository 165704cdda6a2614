//! Files in object stores and on web servers, each beside the same file here.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use super::Ours;
use super::file::write_parquet;
use super::request;
use super::row::{COLUMNS, Row, rows};
use super::store::{self, Readers, Store};
use crate::server::rows as read;
use crate::tls::make_certificates;

const ROWS: i32 = 300;

/// A server `s3` of files and a server `lake` of Parquet files, of the same store.
pub async fn start(options: &str) -> (Ours, Store) {
    let (ours, store) = (Ours::start().await, Store::start().await);
    let endpoint = store.endpoint();
    ours.run(&format!(
        "CREATE SERVER s3 FOREIGN DATA WRAPPER file_fdw OPTIONS (endpoint '{endpoint}'{options});
         CREATE SERVER lake FOREIGN DATA WRAPPER parquet_fdw OPTIONS (endpoint '{endpoint}'{options})"
    ))
    .await;
    (ours, store)
}

/// Two queries have the same rows.
async fn same(ours: &Ours, there: &str, here: &str) {
    let (there, here) = (read(&ours.client, there).await, read(&ours.client, here).await);
    assert!(!here.is_empty());
    assert_eq!(there, here);
}

/// A file of several groups of rows, with columns of many bytes.
pub fn wide(rows: i64) -> Vec<u8> {
    let text = |column: i64| {
        let texts = (0..rows)
            .map(|row| Some(format!("{:032x}", (row * 31 + column) as i128 * 0x9e37_79b9_7f4a_7c15)));
        Arc::new(texts.collect::<StringArray>()) as ArrayRef
    };
    let mut columns = vec![("id".to_string(), Arc::new((0..rows).collect::<Int64Array>()) as ArrayRef)];
    columns.extend((0..20).map(|column| (format!("c{column}"), text(column))));
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(2000)).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

#[tokio::test]
async fn files_of_a_store_answer_as_those_here() {
    let (ours, store) = start("").await;
    let rows = rows(ROWS, 5);
    let lines: Vec<_> = rows.iter().map(Row::csv).collect();
    let parquet = ours.path("f.parquet");
    write_parquet(&parquet, &rows);
    store.put("/b/one/f.parquet", std::fs::read(&parquet).unwrap());
    store.put("/b/one/g h.parquet", std::fs::read(&parquet).unwrap());
    let head = "id,small,big,x,name,ok,day,at\n";
    let csv = format!("{head}{}\n", lines.join("\n"));
    std::fs::write(ours.path("f.csv"), &csv).unwrap();
    store.put("/b/f é.csv", csv);
    for (i, part) in lines.chunks(70).enumerate() {
        store.put(&format!("/b/parts/part{i}.csv"), format!("{head}{}\n", part.join("\n")));
    }
    store.put("/b/parts/more/part9.csv", "not in this folder");
    store.put("/b/parts/read.me", "not a part of it");
    let json = "{\"id\": 1, \"name\": \"a\"}\n{\"id\": 2}\n";
    std::fs::write(ours.path("f.jsonl"), json).unwrap();
    store.put("/b/f.jsonl", json);
    let web = store.endpoint();
    let csv = "format 'csv', header 'true'";
    for (name, server, options) in [
        ("here", "s3", format!("filename '{}', {csv}", ours.path("f.csv"))),
        ("one", "s3", format!("filename 's3://b/f é.csv', {csv}")),
        ("folder", "s3", format!("filename 's3://b/parts/', {csv}")),
        ("matched", "s3", format!("filename 's3://b/parts/p?rt*.csv', {csv}")),
        ("web", "s3", format!("filename '{web}/b/f%20%C3%A9.csv', {csv}")),
        ("p_here", "lake", format!("filename '{parquet}'")),
        ("p", "lake", "filename 's3://b/one/f.parquet'".into()),
        ("p_two", "lake", "filename 's3://b/one/'".into()),
        ("p_dir", "lake", "dirname 's3://b/one'".into()),
        ("p_matched", "lake", "filename 's3://b/one/f*'".into()),
        ("p_web", "lake", format!("filename '{web}/b/one/g%20h.parquet?what=ever'")),
        ("p_file", "s3", "filename 's3://b/one/f.parquet', format 'parquet'".into()),
        ("j_here", "s3", format!("filename '{}', format 'json'", ours.path("f.jsonl"))),
        ("j", "s3", "filename 's3://b/f.jsonl', format 'json'".into()),
    ] {
        ours.run(&format!("CREATE FOREIGN TABLE {name} ({COLUMNS}) SERVER {server} OPTIONS ({options})"))
            .await;
    }
    assert_eq!(ours.asked("SELECT * FROM folder").await, "s3://b/parts/");
    for (there, here) in [
        ("one", "here"),
        ("folder", "here"),
        ("matched", "here"),
        ("web", "here"),
        ("p", "p_here"),
        ("p_matched", "p_here"),
        ("p_web", "p_here"),
        ("p_file", "p_here"),
        ("j", "j_here"),
    ] {
        let all = |table: &str| format!("SELECT * FROM {table} ORDER BY id");
        same(&ours, &all(there), &all(here)).await;
    }
    for twice in ["p_two", "p_dir"] {
        let sum = |table: &str, n| format!("SELECT {n} * count(*), {n} * sum(id) FROM {table}");
        same(&ours, &sum(twice, 1), &sum("p_here", 2)).await;
    }
    ours.run("IMPORT FOREIGN SCHEMA \"s3://b/one/\" LIMIT TO (\"g h\") FROM SERVER lake INTO public").await;
    ours.check_failure("SELECT * FROM f", "42P01", "").await;
    ours.run("DROP FOREIGN TABLE \"g h\"; IMPORT FOREIGN SCHEMA \"s3://b/one\" FROM SERVER lake INTO public")
        .await;
    for table in ["f", "\"g h\""] {
        same(&ours, &format!("SELECT * FROM {table} ORDER BY id"), "SELECT * FROM p_here ORDER BY id").await;
    }
    for (schema, state) in [("s3://b/none", "HV00Q"), ("http://host/folder", "0A000")] {
        let import = format!("IMPORT FOREIGN SCHEMA \"{schema}\" FROM SERVER lake INTO public");
        ours.check_failure(&import, state, schema).await;
    }
}

#[tokio::test]
async fn of_a_parquet_file_comes_what_is_wanted() {
    let (ours, store) = start("").await;
    let file = wide(20_000);
    let size = file.len();
    store.put("/b/w.parquet", file);
    ours.run("IMPORT FOREIGN SCHEMA \"s3://b\" FROM SERVER lake INTO public").await;
    store.sent();
    store.asked();
    for (query, wanted, share) in [
        ("SELECT count(*), sum(id) FROM w", "20000,199990000", 10),
        ("SELECT count(c3), count(DISTINCT c7) FROM w WHERE id BETWEEN 4100 AND 4200", "101,101", 20),
        ("SELECT count(*) FROM w WHERE id < 0", "0", 20),
    ] {
        assert_eq!(read(&ours.client, query).await.concat().join(","), wanted);
        let sent = store.sent();
        assert!(sent < size / share, "{query}: {sent} of {size} bytes");
        // How large it is, its end, and what is wanted of each of ten groups of rows.
        let asked = store.asked().iter().filter(|asked| asked.ends_with(".parquet")).count();
        assert!((2..=12).contains(&asked), "{query}: {asked} requests");
    }
    let answer = read(&ours.client, "SELECT bytes FROM tidemill.last_query_nodes").await;
    assert!(answer[0][0].parse::<usize>().unwrap() <= size / 20, "{answer:?}");
    // All of it comes once, although it is more than what comes ahead of a column.
    let all = (0..20).map(|column| format!("max(c{column})")).collect::<Vec<_>>().join(", ");
    read(&ours.client, &format!("SELECT {all} FROM w")).await;
    let sent = store.sent();
    assert!(sent <= size + (1 << 20), "{sent} of {size} bytes");
}

#[tokio::test]
async fn a_key_opens_the_store_and_is_shown_nowhere() {
    let (ours, store) = start("").await;
    store.put("/b/a/f.csv", "1\n2\n");
    let mapped = |options: &str| {
        format!(
            "DROP USER MAPPING IF EXISTS FOR PUBLIC SERVER s3; CREATE USER MAPPING FOR PUBLIC SERVER s3 OPTIONS ({options})"
        )
    };
    ours.run(
        "CREATE FOREIGN TABLE f (a int) SERVER s3 OPTIONS (filename 's3://b/a/f.csv', format 'csv');
         CREATE FOREIGN TABLE every (a int) SERVER s3 OPTIONS (filename 's3://b/a/', format 'csv')",
    )
    .await;
    store.readers(Readers::WithKey);
    let (user, password, token) = (request::USER, request::PASSWORD, store::TOKEN);
    for (options, code) in [
        (None, "AccessDenied: What AccessDenied means."),
        (Some(format!("user 'nobody', password '{password}'")), "InvalidAccessKeyId"),
        (Some(format!("user '{user}', password 'guess'")), "SignatureDoesNotMatch"),
    ] {
        if let Some(options) = options {
            ours.run(&mapped(&options)).await;
        }
        for table in ["f", "every"] {
            let error = ours.client.simple_query(&format!("SELECT * FROM {table}")).await.unwrap_err();
            let told = format!("{error:?}");
            let error = error.as_db_error().unwrap();
            assert_eq!(error.code().code(), "42501", "{told}");
            assert!(error.message().starts_with("could not open file \"s3://b/a/"), "{told}");
            assert!(error.detail().unwrap().contains(code), "{told}");
            assert!(!told.contains(user) && !told.contains("guess") && !told.contains(password), "{told}");
        }
    }
    ours.run(&mapped(&format!("user '{user}', password '{password}'"))).await;
    for table in ["f", "every"] {
        assert_eq!(read(&ours.client, &format!("SELECT sum(a) FROM {table}")).await, [["3"]]);
    }
    store.readers(Readers::WithToken);
    ours.check_failure("SELECT * FROM f", "HV000", "could not read file").await;
    ours.run(&mapped(&format!("user '{user}', password '{password}', session_token '{token}'"))).await;
    assert_eq!(read(&ours.client, "SELECT sum(a) FROM f").await, [["3"]]);
    for shown in [
        "SELECT umoptions::text FROM pg_user_mappings",
        "SELECT option_name || ' ' || coalesce(option_value, '') FROM information_schema.user_mapping_options",
        "EXPLAIN ANALYZE VERBOSE SELECT * FROM f",
        "SELECT remote_sql FROM tidemill.last_query_nodes",
    ] {
        let told = read(&ours.client, shown).await.concat().join(" ");
        assert!(!told.is_empty() && !told.contains(password) && !told.contains(token), "{shown}: {told}");
    }
    for (options, state) in [("user 'a'", "HV002"), ("password 'a'", "HV002")] {
        ours.run(&mapped(options)).await;
        ours.check_failure("SELECT * FROM f", state, "has only one of \"user\" and \"password\"").await;
    }
}

#[tokio::test]
async fn a_folder_may_have_too_many_files() {
    let ours = Ours::start().await;
    let store = Store::start_with(None, 1000).await;
    for i in 0..10_001 {
        store.put(&format!("/b/{i:05}.csv"), "1\n");
    }
    ours.run(&format!(
        "CREATE SERVER s3 FOREIGN DATA WRAPPER file_fdw OPTIONS (endpoint '{}');
         CREATE FOREIGN TABLE f (a int) SERVER s3 OPTIONS (filename 's3://b/', format 'csv');
         CREATE FOREIGN TABLE few (a int) SERVER s3 OPTIONS (filename 's3://b/0001?.csv', format 'csv')",
        store.endpoint()
    ))
    .await;
    ours.check_failure("SELECT * FROM f", "54000", "\"s3://b/\" are more than 10000 files").await;
    assert_eq!(read(&ours.client, "SELECT count(*) FROM few").await, [["10"]]);
}

#[tokio::test]
async fn stores_are_encrypted_and_known_by_their_authority() {
    let ours = Ours::start().await;
    if !make_certificates(ours.dir.path()) {
        println!("skipped: no certificates could be made (install openssl)");
        return;
    }
    let store = Store::start_with(Some(store::tls(ours.dir.path())), 10).await;
    store.put("/b/f.csv", "1\n");
    let at = format!("https://localhost:{}", store.port);
    for (name, authority) in [("known", Some("ca.crt")), ("other", Some("other.crt")), ("machine", None)] {
        let root = authority.map_or(String::new(), |file| format!(", sslrootcert '{}'", ours.path(file)));
        ours.run(&format!(
            "CREATE SERVER {name} FOREIGN DATA WRAPPER file_fdw OPTIONS (endpoint '{at}'{root});
             CREATE FOREIGN TABLE {name} (a int) SERVER {name} OPTIONS (filename 's3://b/f.csv', format 'csv')"
        ))
        .await;
    }
    assert_eq!(read(&ours.client, "SELECT * FROM known").await, [["1"]]);
    for name in ["other", "machine"] {
        ours.check_failure(&format!("SELECT * FROM {name}"), "08001", &format!("server \"{name}\"")).await;
    }
}
