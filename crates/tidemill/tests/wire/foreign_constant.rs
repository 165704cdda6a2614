//! Constants as servers are told them.

use crate::foreign_write::{Setting, start};
use crate::server::rows;

#[tokio::test]
async fn arrays_of_all_types_are_told() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, .. } = &setting;
    let columns = "id int, i int[], b bool[], t text[], n numeric[]";
    let there = format!("CREATE TABLE n1.a ({columns}); INSERT INTO n1.a VALUES (1), (2)");
    remote.batch_execute(&there).await.unwrap();
    let here = format!("CREATE FOREIGN TABLE a ({columns}) SERVER n1 OPTIONS (schema_name 'n1')");
    client.batch_execute(&here).await.unwrap();
    let update = "UPDATE a SET i = array[9, -8], b = array[true, false, NULL], t = array['it''s', 'a, \"b\"'], n = array[1.50]
        WHERE id = 1";
    client.batch_execute(update).await.unwrap();
    assert_eq!(
        rows(remote, "SELECT * FROM n1.a ORDER BY id").await,
        [
            ["1", "{9,-8}", "{t,f,NULL}", r#"{it's,"a, \"b\""}"#, "{1.50}"],
            ["2", "NULL", "NULL", "NULL", "NULL"]
        ]
    );
    for array in ["array[1]", "array[false]", "array['x']", "array[1.5]"] {
        let query = format!("SELECT count(CASE WHEN id = 1 THEN {array} END) FROM a");
        assert_eq!(rows(client, &query).await, [["1"]], "{array}");
    }
}
