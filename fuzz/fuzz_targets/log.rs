//! Start-up on a damaged log: segments of the fuzzer's own, and a sound log with some bytes changed.
//!
//! Behind a right checksum stands what a server wrote: that is not tried.
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

const SEGMENT: &str = "log/0000000000000001.seg";

static PLAN: LazyLock<Arc<ViewPlan>> = LazyLock::new(|| {
    let columns = vec![("k".into(), Type::new(Scalar::Text)), ("x".into(), Type::new(Scalar::Int8))];
    let stream = StreamDefinition { id: StreamId(1), name: "s".into(), columns };
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    context.register_table("s", Arc::new(StreamTable::new(&stream))).expect("the default schema takes tables");
    let compile = async {
        let sql = "SELECT k, count(*), sum(x), min(k) FROM s GROUP BY k";
        let plan = context.state().create_logical_plan(sql).await.expect("the query is right");
        view::compile(&context.state(), &plan, None).await.expect("the query can be a view")
    };
    Arc::new(futures::executor::block_on(compile))
});

/// A log of several records.
static SOUND: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let disk = SimDisk::new();
    disk.create_dir(Path::new("log")).expect("a sound disk");
    let options = LogOptions { reserve_bytes: 0, ..LogOptions::default() };
    let (mut log, _) = Log::open(Arc::new(disk.clone()), Path::new("log"), options).expect("a sound disk");
    for view in 0..20u32 {
        // The truncation of a view, or a commit without states.
        log.append(2, &[&view.to_le_bytes()]).expect("a sound disk");
        log.append(1, &[&0u32.to_le_bytes()]).expect("a sound disk");
        log.sync().expect("a sound disk");
    }
    disk.content(Path::new(SEGMENT)).expect("it was just written")
});

fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    let content = if kind % 2 == 0 {
        bytes.to_vec()
    } else {
        let mut changed = SOUND.clone();
        changed.truncate(changed.len() - usize::from(kind / 2));
        for change in bytes.chunks_exact(3) {
            let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % changed.len();
            changed[at] ^= change[2];
        }
        changed
    };
    let disk = SimDisk::new();
    disk.create_dir(Path::new("log")).expect("a sound disk");
    disk.set_content(Path::new(SEGMENT), &content);
    let view = View::new(ViewId(100), Arc::clone(&PLAN), true).expect("the plan is right");
    let options = Options { reserve_bytes: 0, ..Options::default() };
    drop(Engine::open(Arc::new(disk), options, vec![Arc::new(view)], Fatal::new(|_| {})));
});
