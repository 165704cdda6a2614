//! The names of all properties: those of the original's files, and this suite's own.

/// Also names whose features are gone: the original's files still set them.
const ORIGINAL: &[&str] = &[
    "addlink",
    "addnode",
    "bulk_insert_count",
    "bulk_insert_kb",
    "check_count",
    "countlink",
    "counttable",
    "data_file",
    "dbcount",
    "dbid",
    "dbload",
    "dbprefix",
    "debuglevel",
    "deletelink",
    "deletenode",
    "displayfreq",
    "generate_nodes",
    "getlink",
    "getlinklist",
    "getlinklist_history",
    "getnode",
    "hdr_histogram_accuracy",
    "hdr_histogram_max_latency",
    "host",
    "id2gen_config",
    "link_add_datagen",
    "link_datasize",
    "link_multiget_dist",
    "link_multiget_dist_max",
    "link_multiget_dist_min",
    "link_multiget_dist_prob",
    "link_type_count",
    "link_up_datagen",
    "linkstore",
    "linktable",
    "load_progress_interval",
    "load_random_seed",
    "loader_chunk_size",
    "loaders",
    "max_failed_requests",
    "maxid1",
    "maxsamples",
    "maxtime",
    "mysql_bulk_insert_batch",
    "mysql_disable_binlog_load",
    "never_change",
    "nlinks_config",
    "nlinks_default",
    "nlinks_func",
    "node_add_datagen",
    "node_datasize",
    "node_up_datagen",
    "nodestore",
    "nodetable",
    "password",
    "port",
    "progressfreq",
    "randomid2max",
    "req_progress_interval",
    "request_random_seed",
    "requesters",
    "requestrate",
    "requests",
    "startid1",
    "updatelink",
    "updatenode",
    "use_hdr_histogram",
    "user",
    "warmup_time",
    "workload_file",
];

/// Set in files of old, read by nothing since.
const DEAD: &[&str] = &["loaddata", "reportprogress", "tempdir", "useinputfiles"];

/// Of the above, those for which there is nothing here: connections are made by the target, results are kept by the
/// runner, and rows are loaded by the fastest way that the database has.
const WITHOUT_EFFECT: &[&str] = &[
    "bulk_insert_count",
    "bulk_insert_kb",
    "dbid",
    "debuglevel",
    "hdr_histogram_accuracy",
    "hdr_histogram_max_latency",
    "mysql_bulk_insert_batch",
    "mysql_disable_binlog_load",
    "nodestore",
];

/// Those that are on or off.
pub const SWITCHES: &[&str] =
    &["check_count", "covering_index", "generate_nodes", "never_change", "use_hdr_histogram"];

/// Whole numbers that only one of the phases reads.
pub const WHOLE_NUMBERS: &[&str] = &[
    "displayfreq",
    "load_progress_interval",
    "load_random_seed",
    "loader_chunk_size",
    "loaders",
    "max_failed_requests",
    "maxsamples",
    "maxtime",
    "progressfreq",
    "req_progress_interval",
    "request_random_seed",
    "requesters",
    "requestrate",
    "requests",
    "warmup_time",
];

/// This suite's own, all of them optional.
const OWN: &[&str] = &[
    "covering_index",
    "data_type",
    "fillfactor",
    "id_type",
    "link_update",
    "multiget",
    "partitions",
    "statements",
];

/// Families: a name of the first list, then one of the second.
const FAMILIES: [(&[&str], &[&str]); 2] = [
    (
        &[
            "read_",
            "read_uncorr_",
            "write_",
            "write_uncorr_",
            "node_read_",
            "node_update_",
            "node_delete_",
            "nlinks_",
        ],
        &["function", "config", "shape", "blend", "mean", "median", "sigma", "prob"],
    ),
    (
        &["link_add_datagen_", "link_up_datagen_", "node_add_datagen_", "node_up_datagen_"],
        &["startbyte", "endbyte", "uniqueness", "motif_length"],
    ),
];

pub fn is_known(key: &str) -> bool {
    all().any(|known| known == key)
}

pub fn is_without_effect(key: &str) -> bool {
    WITHOUT_EFFECT.iter().chain(DEAD).any(|known| *known == key)
}

/// The known name that differs least, when it is near enough to be a slip.
pub fn nearest(key: &str) -> Option<String> {
    let (near, changes) =
        all().map(|known| (distance(key, &known), known)).min().map(|(d, known)| (known, d))?;
    (changes <= 1 + key.len() / 5).then_some(near)
}

fn all() -> impl Iterator<Item = String> {
    let single = [ORIGINAL, DEAD, OWN].into_iter().flatten().map(|key| (*key).to_owned());
    let family = |(prefixes, suffixes): (&'static [&'static str], &'static [&'static str])| {
        prefixes.iter().flat_map(move |prefix| suffixes.iter().map(move |suffix| format!("{prefix}{suffix}")))
    };
    single.chain(FAMILIES.into_iter().flat_map(family))
}

/// Insertions, deletions and replacements from one to the other.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in to.bytes().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}
