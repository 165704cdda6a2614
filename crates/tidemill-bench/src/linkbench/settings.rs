//! All settings of a benchmark, from a preset, files and the command line.

use super::compat::Compat;
use super::graph::Graph;
use super::preset::Preset;
use super::properties::Properties;
use super::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where settings come from; what stands first wins: definitions, the configuration file, its workload file, the preset.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Sources {
    /// Version of the benchmark whose settings stand in for what is not set (default fb2017, none with --config).
    #[arg(long, value_enum)]
    pub preset: Option<Preset>,
    /// Properties file of the original benchmark, for example LinkConfigPgsql.properties.
    #[arg(long, short = 'c', value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Sets a property; may be given several times.
    #[arg(short = 'D', value_name = "KEY=VALUE")]
    pub define: Vec<String>,
    /// Number of nodes (property maxid1).
    #[arg(long, value_name = "N")]
    pub nodes: Option<u64>,
    /// File of empirical distributions (property data_file); without it a built-in fit stands in.
    #[arg(long, value_name = "FILE")]
    pub data_file: Option<PathBuf>,
    /// Reproduce flaws of the original: all, or a list of names.
    #[arg(long, value_name = "FLAWS", num_args = 0..=1, default_missing_value = "all")]
    pub compat: Option<String>,
}

/// What a benchmark is run with.
#[derive(Debug, Clone)]
pub struct Settings {
    pub properties: Properties,
    pub graph: Graph,
    pub compat: Compat,
    preset: Option<Preset>,
}

impl Settings {
    /// For results: the preset, and what was set besides. Without the password.
    pub fn told(&self) -> BTreeMap<String, String> {
        let mut told: BTreeMap<String, String> = self.properties.beyond_preset().collect();
        told.remove("password");
        let preset = self.preset.map_or("none", Preset::name).to_owned();
        let compat = self.compat.names().join(",");
        let own = [("preset", preset), ("distributions", self.graph.source.clone()), ("compat", compat)];
        told.extend(
            own.map(|(name, value)| (name.to_owned(), value))
                .into_iter()
                .filter(|(_, value)| !value.is_empty()),
        );
        told
    }
}

impl Sources {
    pub fn settings(&self) -> Result<Settings> {
        let properties = self.properties()?;
        let preset = self.preset_or_default();
        let year = preset.unwrap_or(Preset::Fb2017).year();
        let compat = self.compat.as_deref().map_or(Ok(Compat::none()), Compat::parse)?;
        let graph = Graph::new(&properties, year, compat)?;
        Ok(Settings { properties, graph, compat, preset })
    }

    fn properties(&self) -> Result<Properties> {
        let mut properties = Properties::default();
        for definition in &self.define {
            properties.define(definition)?;
        }
        if let Some(path) = &self.data_file {
            properties.set("data_file", &path.display().to_string(), "--data-file");
        }
        if let Some(config) = &self.config {
            properties.fill(&Properties::read(config)?);
        }
        let mut home = self.config.as_deref().map(home_of);
        if let Some(path) = from_home(&properties, "workload_file", home.as_deref()) {
            properties.fill(&Properties::read(&path)?);
            home = home.or_else(|| Some(home_of(&path)));
        }
        if self.data_file.is_none()
            && !properties.is_defined("data_file")
            && let Some(path) = from_home(&properties, "data_file", home.as_deref())
        {
            properties.set("data_file", &path.display().to_string(), "data_file of the workload");
        }
        if let Some(preset) = self.preset_or_default() {
            properties.fill(&preset.properties());
        }
        if let Some(nodes) = self.nodes {
            let start: i64 = properties.or("startid1", 1)?;
            let end = i64::try_from(nodes).ok().and_then(|nodes| start.checked_add(nodes));
            let end = end.ok_or_else(|| Error::at("--nodes", format!("{nodes} is too large")))?;
            properties.set("maxid1", &end.to_string(), "--nodes");
        }
        properties.check_known()?;
        properties.check_values()?;
        Ok(properties)
    }

    fn preset_or_default(&self) -> Option<Preset> {
        self.preset.or_else(|| self.config.is_none().then_some(Preset::Fb2017))
    }
}

/// A path in a file counts from the benchmark's home, one of the command line from here.
fn from_home(properties: &Properties, key: &str, home: Option<&Path>) -> Option<PathBuf> {
    let path = Path::new(properties.text(key)?);
    let home = home.filter(|_| !properties.is_defined(key));
    Some(home.map_or_else(|| path.to_path_buf(), |home| home.join(path)))
}

/// `LINKBENCH_HOME`, or what it would be for a file in its folder `config`.
fn home_of(config: &Path) -> PathBuf {
    if let Ok(home) = std::env::var("LINKBENCH_HOME") {
        return PathBuf::from(home);
    }
    let folder = config.parent().unwrap_or(Path::new("."));
    match folder.file_name() {
        Some(name) if name == "config" => folder.parent().unwrap_or(Path::new(".")).to_path_buf(),
        _ => folder.to_path_buf(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_presets_and_definitions_in_order() {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join("config");
        std::fs::create_dir(&config).unwrap();
        let file = config.join("LinkConfigPgsql.properties");
        let text = "workload_file = config/FBWorkload.properties \nloaders = 3\nrequesters = 5\n";
        std::fs::write(&file, text).unwrap();
        std::fs::write(config.join("FBWorkload.properties"), "requesters = 6\nmaxid1 = 101\nstartid1=1\n")
            .unwrap();
        let sources = Sources {
            preset: Some(Preset::Fb2011),
            config: Some(file),
            define: vec!["loaders=9".to_owned()],
            ..Sources::default()
        };
        let settings = sources.settings().unwrap();
        let number = |key: &str| settings.properties.required::<i64>(key).unwrap();
        assert_eq!((number("loaders"), number("requesters"), number("maxid1")), (9, 5, 101));
        assert_eq!(settings.properties.text("link_datasize"), Some("8"));
        assert_eq!(settings.graph.counts.ids(), 1..101);
    }

    #[test]
    fn data_files_are_found_from_home() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("c.properties");
        std::fs::write(&file, "data_file = Dist.dat\n").unwrap();
        let sources = Sources { preset: Some(Preset::Fb2017), config: Some(file), ..Sources::default() };
        let message = sources.settings().unwrap_err().to_string();
        assert!(message.starts_with(&home.path().join("Dist.dat").display().to_string()), "{message}");
    }

    #[test]
    fn a_workload_file_needs_no_other_and_is_looked_for_from_here() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config");
        std::fs::create_dir(&config).unwrap();
        let workload = config.join("w.properties");
        std::fs::write(&workload, "link_type_count = 3\ndata_file = Dist.dat\n").unwrap();
        let of = |config: Option<PathBuf>, more: &[&str]| {
            let define = [
                &[format!("workload_file={}", workload.display())][..],
                &more.iter().map(|more| (*more).to_owned()).collect::<Vec<_>>(),
            ];
            let nodes = Some(10);
            Sources {
                config,
                define: define.concat(),
                nodes,
                preset: Some(Preset::Fb2017),
                ..Sources::default()
            }
            .settings()
        };
        // What it names itself counts from its home.
        let message = of(None, &[]).unwrap_err().to_string();
        assert!(message.starts_with(&folder.path().join("Dist.dat").display().to_string()), "{message}");
        let settings =
            of(None, &["nlinks_func=const", "nlinks_config=0", "nlinks_default=1", "data_file="]).unwrap();
        assert_eq!(settings.properties.text("link_type_count"), Some("3"));
        let file = config.join("c.properties");
        std::fs::write(&file, "loaders = 2\n").unwrap();
        let define = vec!["workload_file=nowhere.properties".to_owned()];
        for config in [None, Some(file)] {
            let sources = Sources { config, define: define.clone(), ..Sources::default() };
            let message = sources.settings().unwrap_err().to_string();
            assert!(message.starts_with("nowhere.properties: "), "{message}");
        }
    }

    /// Its files of MySQL have them, as comments.
    #[test]
    fn what_only_the_original_s_loader_can_is_told() {
        let define = ["mysql_bulk_insert_batch=1024", "mysql_disable_binlog_load=true"];
        let define = define.map(str::to_owned).to_vec();
        let settings = Sources { define, nodes: Some(10), ..Sources::default() }.settings().unwrap();
        let told = ["mysql_bulk_insert_batch", "mysql_disable_binlog_load"];
        assert_eq!(settings.properties.without_effect(), told);
    }

    #[test]
    fn wrong_settings_are_told() {
        let message = |definition: &str| {
            let sources = Sources { define: vec![definition.to_owned()], ..Sources::default() };
            sources.settings().unwrap_err().to_string()
        };
        assert!(message("request=5").contains("did you mean \"requests\"?"));
        assert!(message("maxid1=1").contains("1 is not above startid1, 1"));
        assert!(message("link_type_count=0").contains("0 is not between 1 and 1000"));
        assert!(message("nlinks_func=const").contains("\"nlinks_config\" (not set): is required"));
        assert!(message("randomid2max=10").contains("is too small for"));
        assert!(message("randomid2max=-1").contains("-1 is below 0"));
        assert!(message("loaders=x").contains("\"loaders\" (-D loaders=x): \"x\" is not a whole number"));
        assert!(message("port=abc").contains("\"abc\" is not a whole number in range"));
        assert!(message("use_hdr_histogram=maybe").contains("\"maybe\" is not true or false"));
        let functions = message("nlinks_func=ROUND_ROBIN");
        assert!(
            functions
                .ends_with("LogNormal, REAL, CONST, RECIPROCAL, MULTIPLES, PERFECT_SQUARES, EXPONENTIAL")
        );
    }
}
