//! Columns that are generated on the other side.

use crate::foreign_write::{Setting, start};
use crate::server::{error, failure, rows};

#[tokio::test]
async fn what_is_generated_there_is_left_to_the_server() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, .. } = &setting;
    for i in 1..=2 {
        let there =
            format!("CREATE TABLE n{i}.made (x int, g int GENERATED ALWAYS AS (x * 2) STORED, y text)");
        remote.batch_execute(&there).await.unwrap();
    }
    client
        .batch_execute(
            "CREATE FOREIGN TABLE made (x int, g int, y text) SERVER n1 OPTIONS (schema_name 'n1');
             CREATE MULTI TENANT TABLE pair (x int, g int, y text) CHILDREN (n1.n1.made, n2.n2.made);
             CREATE STREAM s (x int);
             CREATE CONTINUOUS TRANSFORM keep AS SELECT x + 100 AS x FROM s
                 THEN EXECUTE PROCEDURE pipeline_stream_insert('made')",
        )
        .await
        .unwrap();
    // By COPY and by INSERT.
    client
        .batch_execute("INSERT INTO made (x) VALUES (1); INSERT INTO made (y, x) VALUES ('two', 2)")
        .await
        .unwrap();
    assert_eq!(rows(client, "INSERT INTO made (x) VALUES (3) RETURNING g").await, [["6"]]);
    client.batch_execute("INSERT INTO pair (x) VALUES (4), (5); INSERT INTO s VALUES (1)").await.unwrap();
    let own = "SELECT x, g, y FROM pair WHERE x < 100 ORDER BY x";
    let wanted =
        [["1", "2", "NULL"], ["2", "4", "two"], ["3", "6", "NULL"], ["4", "8", "NULL"], ["5", "10", "NULL"]];
    assert_eq!(rows(client, own).await, wanted);
    crate::node::until(client, "SELECT g FROM made WHERE x = 101", "202").await;
    let refused = error(client, "INSERT INTO made VALUES (6, 12)").await;
    assert_eq!(
        (refused.code().code(), refused.message(), refused.detail()),
        (
            "428C9",
            "cannot insert a non-DEFAULT value into column \"g\"",
            Some("Column \"g\" of \"n1\".\"made\" is a generated column.")
        )
    );
    let (state, message) = failure(client, "UPDATE pair SET g = 1").await;
    assert!(state == "428C9" && message.contains("can only be updated to DEFAULT"), "{state} {message}");
    remote
        .batch_execute("CREATE TABLE n1.counted (id int GENERATED ALWAYS AS IDENTITY, x int)")
        .await
        .unwrap();
    let create = "CREATE FOREIGN TABLE counted (id int, x int) SERVER n1 OPTIONS (schema_name 'n1')";
    client.batch_execute(create).await.unwrap();
    client
        .batch_execute("INSERT INTO counted (x) VALUES (4); INSERT INTO counted VALUES (DEFAULT, 5)")
        .await
        .unwrap();
    assert_eq!(rows(client, "INSERT INTO counted (x) VALUES (6) RETURNING id").await, [["3"]]);
    for insert in ["INSERT INTO counted VALUES (9, 9)", "INSERT INTO counted VALUES (9, 9) RETURNING id"] {
        let (state, message) = failure(client, insert).await;
        let wanted = ("428C9", "cannot insert a non-DEFAULT value into column \"id\"");
        assert_eq!((state.as_str(), message.as_str()), wanted, "{insert}");
    }
    assert_eq!(
        rows(client, "SELECT id, x FROM counted ORDER BY 1").await,
        [["1", "4"], ["2", "5"], ["3", "6"]]
    );
    client.batch_execute("UPDATE made SET x = 7 WHERE x = 1").await.unwrap();
    assert_eq!(rows(client, "SELECT g FROM made WHERE x = 7").await, [["14"]]);
}
