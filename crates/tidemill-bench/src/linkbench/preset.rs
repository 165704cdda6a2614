//! The three published versions of the benchmark, as properties.

use super::builtin_fit::Year;
use super::properties::Properties;

/// Which version's numbers to reproduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Preset {
    /// As first published: 2011's operations, distributions and sizes, upserts.
    Fb2011,
    /// 2017's operations and sizes with the old rule for numbers of links.
    Fb2017NeverChange,
    /// 2017's operations and sizes, at least one link a type.
    Fb2017,
}

impl Preset {
    pub fn name(self) -> &'static str {
        match self {
            Preset::Fb2011 => "fb2011",
            Preset::Fb2017NeverChange => "fb2017-never-change",
            Preset::Fb2017 => "fb2017",
        }
    }

    /// Whose distributions the built-in fit stands in for.
    pub fn year(self) -> Year {
        match self {
            Preset::Fb2011 => Year::Y2011,
            Preset::Fb2017NeverChange | Preset::Fb2017 => Year::Y2017,
        }
    }

    pub fn properties(self) -> Properties {
        let own: &[(&str, &str)] = match self {
            Preset::Fb2011 => {
                &[("never_change", "true"), ("link_update", "upsert"), ("statements", "literal")]
            }
            Preset::Fb2017NeverChange => &[("never_change", "true")],
            Preset::Fb2017 => &[],
        };
        let year = match self.year() {
            Year::Y2011 => OF_2011,
            Year::Y2017 => OF_2017,
        };
        let mut properties = Properties::default();
        let origin = format!("{ORIGIN}{}", self.name());
        for (key, value) in COMMON.iter().chain(year).chain(own) {
            properties.set(key, value, &origin);
        }
        properties
    }
}

/// How the origin of a preset's property begins.
pub const ORIGIN: &str = "preset ";

const COMMON: &[(&str, &str)] = &[
    ("startid1", "1"),
    ("maxid1", "10000001"),
    ("link_type_count", "2"),
    ("nlinks_func", "real"),
    ("getlinklist_history", "0.3"),
    ("read_function", "Zipf"),
    ("read_shape", "0.8"),
    ("read_uncorr_blend", "99.5"),
    ("read_uncorr_function", "Zipf"),
    ("read_uncorr_shape", "0.8"),
    ("write_function", "Zipf"),
    ("write_shape", "0.741"),
    ("write_uncorr_blend", "95"),
    ("write_uncorr_function", "Zipf"),
    ("write_uncorr_shape", "0.741"),
    ("node_read_function", "Zipf"),
    ("node_read_shape", "0.625"),
    ("node_update_function", "Zipf"),
    ("node_update_shape", "0.606"),
    ("node_delete_function", "Uniform"),
    ("link_multiget_dist", "Geometric"),
    ("link_multiget_dist_min", "1"),
    ("link_multiget_dist_max", "128"),
    ("link_multiget_dist_prob", "0.382"),
    ("link_add_datagen", "Motif"),
    ("link_add_datagen_startbyte", "32"),
    ("link_add_datagen_endbyte", "100"),
    ("link_add_datagen_uniqueness", "0.225"),
    ("link_add_datagen_motif_length", "128"),
    ("link_up_datagen", "Motif"),
    ("link_up_datagen_startbyte", "32"),
    ("link_up_datagen_endbyte", "100"),
    ("link_up_datagen_uniqueness", "0.225"),
    ("link_up_datagen_motif_length", "128"),
    ("node_add_datagen", "Motif"),
    ("node_add_datagen_startbyte", "50"),
    ("node_add_datagen_endbyte", "220"),
    ("node_add_datagen_uniqueness", "0.63"),
    ("node_up_datagen", "Motif"),
    ("node_up_datagen_startbyte", "50"),
    ("node_up_datagen_endbyte", "220"),
    ("node_up_datagen_uniqueness", "0.63"),
    ("loaders", "4"),
    ("generate_nodes", "true"),
    ("requesters", "8"),
    ("requests", "500000"),
    ("maxtime", "100000"),
    ("max_failed_requests", "100"),
    ("load_progress_interval", "50000"),
    ("req_progress_interval", "10000"),
];

const OF_2011: &[(&str, &str)] = &[
    ("link_datasize", "8"),
    ("node_datasize", "128"),
    ("addlink", "8.9886601"),
    ("deletelink", "2.9907664"),
    ("updatelink", "8.0122125"),
    ("countlink", "4.8863567"),
    ("getlink", "0.5261142"),
    ("getlinklist", "50.7119145"),
    ("getnode", "12.9326683"),
    ("addnode", "2.5732789"),
    ("updatenode", "7.366437"),
    ("deletenode", "1.0115914"),
];

const OF_2017: &[(&str, &str)] = &[
    ("link_datasize", "23"),
    ("node_datasize", "168"),
    ("addlink", "5.35038"),
    ("deletelink", "0.98401"),
    ("updatelink", "4.75589"),
    ("countlink", "4.27898"),
    ("getlink", "12.14725"),
    ("getlinklist", "22.57039"),
    ("getnode", "43.9869"),
    ("addnode", "2.61198"),
    ("updatenode", "3.06256"),
    ("deletenode", "0.25166"),
];
