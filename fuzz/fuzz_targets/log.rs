//! Start-up on whatever the log holds: raw segments, and records whose checksums are right but whose payload is not.
#![no_main]

use std::path::Path;
use std::sync::{Arc, LazyLock};

use datafusion::prelude::{SessionConfig, SessionContext};
use libfuzzer_sys::fuzz_target;
use tidemill_sql::types::{Scalar, Type};
use tidemill_stream::disk::Disk;
use tidemill_stream::disk::sim::SimDisk;
use tidemill_stream::engine::{Engine, Fatal, Options};
use tidemill_stream::log::{Log, LogOptions};
use tidemill_stream::stream::{StreamDefinition, StreamId, StreamTable};
use tidemill_stream::view::{self, View, ViewId, ViewPlan};

static PLAN: LazyLock<Arc<ViewPlan>> = LazyLock::new(|| {
    let columns = vec![("k".into(), Type::new(Scalar::Text)), ("x".into(), Type::new(Scalar::Int8))];
    let stream = StreamDefinition { id: StreamId(1), name: "s".into(), columns };
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    context.register_table("s", Arc::new(StreamTable::new(&stream))).expect("the default schema takes tables");
    let compile = async {
        let sql = "SELECT k, count(*), sum(x), min(k) FROM s GROUP BY k";
        let plan = context.state().create_logical_plan(sql).await.expect("the query is right");
        view::compile(&context.state(), &plan).await.expect("the query can be a view")
    };
    Arc::new(futures::executor::block_on(compile))
});

fuzz_target!(|data: &[u8]| {
    let Some((kind, payload)) = data.split_first() else { return };
    let disk = SimDisk::new();
    disk.create_dir(Path::new("log")).expect("the disk is sound");
    if *kind == 0 {
        disk.set_content(Path::new("log/0000000000000001.seg"), payload);
    } else {
        let options = LogOptions { reserve_bytes: 0, ..LogOptions::default() };
        let (mut log, _) = Log::open(Arc::new(disk.clone()), Path::new("log"), options).expect("the disk is sound");
        log.append(*kind % 5, &[payload]).expect("the disk is sound");
        log.sync().expect("the disk is sound");
    }
    let view = View::new(ViewId(100), Arc::clone(&PLAN), true).expect("the plan is right");
    let options = Options { reserve_bytes: 0, ..Options::default() };
    drop(Engine::open(Arc::new(disk), options, vec![Arc::new(view)], Fatal::new(|_| {})));
});
