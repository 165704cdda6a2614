//! Damaged runs: bytes of the fuzzer's own, blocks with a footer of its own, a sound run with some bytes changed.
//!
//! Behind a right checksum stands what a server wrote: that is not tried.
#![no_main]

use std::path::Path;
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use libfuzzer_sys::fuzz_target;
use tidemill_stream::disk::sim::SimDisk;
use tidemill_stream::disk::{Disk, read_file};
use tidemill_stream::run::{BlockCache, Run, RunWriter};

const LAYOUT: &str = "fuzz";
const PATH: &str = "f.run";
static SOUND: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let keys: StringArray = (0..5000).map(|i| Some(format!("key {i:05}"))).collect();
    let sums: Int64Array = (0..5000).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![("k0", Arc::new(keys)), ("a0s0", Arc::new(sums))];
    let batch = RecordBatch::try_from_iter(columns).expect("the columns are of one length");
    let disk = Arc::new(SimDisk::new());
    let mut writer = RunWriter::create(disk.clone(), Path::new(PATH), batch.schema(), 1, LAYOUT).expect("a sound disk");
    writer.append(&batch).expect("the keys are sorted");
    writer.finish().expect("a sound disk");
    read_file(disk.as_ref() as &dyn Disk, Path::new(PATH)).expect("it was just written")
});

fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    let content = match kind % 3 {
        0 => bytes.to_vec(),
        1 => [&SOUND[..SOUND.len() - bytes.len().min(SOUND.len())], bytes].concat(),
        _ => {
            let mut changed = SOUND.clone();
            for change in bytes.chunks_exact(3) {
                let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
                // Counted from the end, where footer and trailer are.
                let at = changed.len() - 1 - at % changed.len();
                changed[at] ^= change[2];
            }
            changed
        }
    };
    let disk = SimDisk::new();
    disk.set_content(Path::new(PATH), &content);
    let cache = Arc::new(BlockCache::new(1 << 20));
    let Ok(run) = Run::open(&disk, Path::new(PATH), LAYOUT, cache) else { return };
    let run = Arc::new(run);
    drop(run.get(b"key 00017"));
    run.scan().take_while(Result::is_ok).for_each(drop);
});
