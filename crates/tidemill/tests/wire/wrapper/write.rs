//! Writing to the tables of other databases: what is written there is what is written to a table of ours.

use super::Ours;
use super::row::{COLUMNS, inserts, rows};
use crate::server::rows as read;

impl Ours {
    /// Statements of all kinds do to a foreign table, which is empty, what they do to `ours`.
    pub async fn compare_writes(&self, foreign: &str) {
        self.run(&format!("CREATE TABLE ours ({COLUMNS})")).await;
        let rows = rows(300, 5);
        for statement in inserts("TABLE", &rows, false).lines().chain([
            "INSERT INTO TABLE (name, id) VALUES ('only these', 1000), (NULL, 1001)",
            "INSERT INTO TABLE (id, x) SELECT x, x / 4.0 FROM generate_series(2000, 5000) AS x",
            "INSERT INTO TABLE SELECT id + 10000, small, big, x, name, ok, day, at FROM TABLE WHERE id < 100",
            "UPDATE TABLE SET name = 'it''s \\ new', small = 7 WHERE id = 5 OR (small = 2 AND ok)",
            "UPDATE TABLE SET x = NULL, at = '2021-05-05 01:02:03.5' WHERE x > 100 AND id < 300",
            "UPDATE TABLE SET day = '2024-02-29' WHERE name = 'a'",
            "UPDATE TABLE SET big = -9223372036854775808, ok = NOT true WHERE id IN (7, 8, 9)",
            "UPDATE TABLE SET x = x WHERE id > 4000",
            "DELETE FROM TABLE WHERE name IS NULL AND id > 100 AND id < 1000",
            "DELETE FROM TABLE WHERE name = 'nobody'",
        ]) {
            let (there, here) = (statement.replace("TABLE", foreign), statement.replace("TABLE", "ours"));
            let there = self.client.execute(&there, &[]).await.unwrap_or_else(|e| panic!("{there}: {e:?}"));
            assert_eq!(there, self.client.execute(&here, &[]).await.unwrap(), "{statement}");
            self.check_same(foreign, statement).await;
        }
        self.compare_blocks(foreign).await;
    }

    async fn compare_blocks(&self, foreign: &str) {
        for block in [
            "BEGIN; INSERT INTO TABLE (id) VALUES (20001); DELETE FROM TABLE WHERE id < 50; ROLLBACK",
            "BEGIN; INSERT INTO TABLE (id, name) VALUES (20002, 'x'), (20003, 'y'); COMMIT",
            "INSERT INTO TABLE (id) VALUES (20004); INSERT INTO TABLE (id) VALUES (20005)",
            "BEGIN; INSERT INTO TABLE (id) VALUES (20006); SAVEPOINT a; INSERT INTO TABLE (id) VALUES (20007);
             ROLLBACK TO a; INSERT INTO TABLE (id) VALUES (20008); COMMIT",
        ] {
            // Rows of ours are not deleted in a block.
            let own = block.replace("DELETE FROM TABLE WHERE id < 50;", "").replace("TABLE", "ours");
            self.run(&block.replace("TABLE", foreign)).await;
            self.run(&own).await;
            self.check_same(foreign, block).await;
        }
        // The block sees what it has written.
        self.run(&format!("BEGIN; INSERT INTO {foreign} (id, x) VALUES (30000, 1.5); UPDATE {foreign} SET name = 'in block' WHERE id > 29999")).await;
        let seen = format!("SELECT name, x FROM {foreign} WHERE id >= 30000");
        assert_eq!(read(&self.client, &seen).await, [["in block", "1.5"]]);
        let count =
            format!("SELECT count(*) FROM {foreign} AS a JOIN {foreign} AS b USING (id) WHERE a.id > 20000");
        assert_eq!(read(&self.client, &count).await, [["7"]]);
        self.run("ROLLBACK").await;
        self.check_same(foreign, "ROLLBACK").await;
    }

    async fn check_same(&self, foreign: &str, statement: &str) {
        let all = "SELECT * FROM TABLE ORDER BY id, small, big, x, name, ok, day, at";
        let there = read(&self.client, &all.replace("TABLE", foreign)).await;
        let here = read(&self.client, &all.replace("TABLE", "ours")).await;
        assert!(there == here, "{statement}: {:?}", there.iter().zip(&here).find(|(a, b)| a != b));
    }
}
