//! Runs that are not what they were: raw bytes, and footers whose checksums are right but whose content is not.
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
/// Offset and length of the footer, its checksum, the checksum of these, and the header again.
const TRAILER_BYTES: usize = 32;

/// A sound run, and where its footer begins.
static SOUND: LazyLock<(Vec<u8>, usize)> = LazyLock::new(|| {
    let keys: StringArray = (0..5000).map(|i| Some(format!("key {i:05}"))).collect();
    let sums: Int64Array = (0..5000).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![("k0", Arc::new(keys)), ("a0s0", Arc::new(sums))];
    let batch = RecordBatch::try_from_iter(columns).expect("the columns are of one length");
    let disk = Arc::new(SimDisk::new());
    let mut writer = RunWriter::create(disk.clone(), Path::new(PATH), batch.schema(), 1, LAYOUT).expect("a sound disk");
    writer.append(&batch).expect("the keys are sorted");
    writer.finish().expect("a sound disk");
    let bytes = read_file(disk.as_ref() as &dyn Disk, Path::new(PATH)).expect("it was just written");
    let trailer = bytes.len() - TRAILER_BYTES;
    let footer = u64::from_le_bytes(bytes[trailer..trailer + 8].try_into().expect("eight bytes"));
    (bytes, footer as usize)
});

fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    let (sound, footer) = &*SOUND;
    let content = match kind % 3 {
        0 => bytes.to_vec(),
        // The blocks and a footer of the fuzzer's own.
        1 => with_trailer(sound[..*footer].to_vec(), bytes, &sound[..8]),
        // The sound footer with some bytes changed: pairs of place and value.
        _ => {
            let mut changed = sound[*footer..sound.len() - TRAILER_BYTES].to_vec();
            for change in bytes.chunks_exact(3) {
                let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % changed.len();
                changed[at] ^= change[2];
            }
            with_trailer(sound[..*footer].to_vec(), &changed, &sound[..8])
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

fn with_trailer(mut content: Vec<u8>, footer: &[u8], header: &[u8]) -> Vec<u8> {
    let mut trailer = (content.len() as u64).to_le_bytes().to_vec();
    trailer.extend_from_slice(&(footer.len() as u64).to_le_bytes());
    trailer.extend_from_slice(&crc32c::crc32c(footer).to_le_bytes());
    trailer.extend_from_slice(&crc32c::crc32c(&trailer).to_le_bytes());
    trailer.extend_from_slice(header);
    content.extend_from_slice(footer);
    content.extend_from_slice(&trailer);
    content
}
