//! LinkBench: the social graph of Facebook's published benchmark, as a suite.

mod access;
mod builtin_fit;
mod command;
mod compat;
mod csv_stream;
mod data_file;
mod distribution;
mod error;
mod explain;
mod graph;
mod history;
mod id2;
mod java_random;
mod known_keys;
mod link_count;
mod load;
mod mix;
mod oracle;
mod origin;
mod original;
mod original_url;
mod payload;
mod permutation;
mod plan;
mod preset;
mod properties;
mod random;
mod request;
mod request_log;
mod sampled;
mod schema;
mod settings;
mod shard;
mod store;
mod suite;
#[cfg(test)]
pub(crate) mod test_server;
mod validate;

pub use command::Arguments;
pub use error::{Error, Result};
pub use suite::LinkBench;

/// Milliseconds since 1970.
fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}

/// A published data file, for tests; without it they say that they were skipped.
#[cfg(test)]
fn shared_data(file: &str) -> Option<data_file::Distributions> {
    let folder = std::env::var("TIDEMILL_LINKBENCH_DATA").map_or_else(
        |_| std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/linkbench"),
        std::path::PathBuf::from,
    );
    let path = folder.join(file);
    if !path.exists() {
        eprintln!(
            "skipped: no {}; set TIDEMILL_LINKBENCH_DATA to the folder with the published files",
            path.display()
        );
        return None;
    }
    Some(data_file::Distributions::read(&path).unwrap())
}
