//! A write is whole for each view: one that comes or goes meanwhile has all of it or nothing.

use std::sync::Arc;

use tidemill_stream::disk::sim::SimDisk;
use tidemill_stream::engine::{Level, Options};

use crate::scenario::{batch, first_count, run};
use crate::support::{Harness, Plans};

#[test]
fn a_view_that_is_made_during_a_write_has_nothing_of_it() {
    run(async {
        let plans = Plans::compile(&["SELECT count(*) FROM s".to_string()]).await;
        let mut harness = Harness::start(Arc::new(SimDisk::new()), Options::default(), &plans).unwrap();
        let mut set = harness.engine.begin(true);
        set.add(harness.stream.id, None, &batch(0, 10, 3)).unwrap();
        let late = harness.add_view("SELECT count(*), sum(x) FROM s").await;
        set.add(harness.stream.id, None, &batch(10, 10, 3)).unwrap();
        assert_eq!(first_count(&harness.read(0).await), 20, "readers see a running write");
        assert_eq!(first_count(&harness.read(late).await), 0);
        set.commit(Level::SyncCommit).await.unwrap();
        assert_eq!(first_count(&harness.read(0).await), 20);
        assert_eq!(first_count(&harness.read(late).await), 0);
        harness.insert(batch(20, 1, 1), Level::SyncCommit).await.unwrap();
        assert_eq!(first_count(&harness.read(late).await), 1);
    });
}

#[test]
fn a_view_that_is_deactivated_during_a_write_has_all_of_it() {
    run(async {
        let plans = Plans::compile(&["SELECT count(*) FROM s".to_string()]).await;
        let harness = Harness::start(Arc::new(SimDisk::new()), Options::default(), &plans).unwrap();
        let mut set = harness.engine.begin(true);
        set.add(harness.stream.id, None, &batch(0, 10, 3)).unwrap();
        harness.engine.set_active(Plans::id(0), false);
        set.add(harness.stream.id, None, &batch(10, 10, 3)).unwrap();
        set.commit(Level::SyncCommit).await.unwrap();
        harness.insert(batch(20, 1, 1), Level::SyncCommit).await.unwrap();
        assert_eq!(first_count(&harness.read(0).await), 20);
    });
}
