//! Tests of the configuration file, and that the default file says what the table says.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use super::*;
use crate::settings::table::{Context, Effect, Setting};
use crate::settings::{Settings, of_session_only};

fn load(text: &str) -> Result<Settings, String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let path = file.path().display().to_string();
    Settings::load(Some(file.path()), &[]).map_err(|error| error.to_string().replace(&path, "F"))
}

#[test]
fn values_of_every_toml_type() {
    let text = "port = 0x10\nlisten_addresses = [\"a\", \"b\"]\nmemory_limit = \"2GB\"\ncommit_delay = \"2ms\"\n\
                jit = false\nrandom_page_cost = 1.5\nmy.own = \"x\"\n[pipelinedb]\nnum_workers = 4\n";
    let settings = load(text).unwrap();
    assert_eq!(settings.port(), 16);
    assert_eq!(settings.listen_addresses(), ["a", "b"]);
    assert_eq!(settings.memory_limit_bytes(), 2 << 30);
    assert_eq!(settings.commit_delay(), Duration::from_millis(2));
    let notices: Vec<_> = settings.notices().iter().map(|notice| notice.severity.as_str()).collect();
    assert_eq!(notices, ["DEBUG", "DEBUG", "NOTICE"]);
}

#[test]
fn errors_tell_the_line_and_what_was_meant() {
    let error = |text: &str| load(text).unwrap_err();
    assert_eq!(
        error("port = 1\n\nmemry_limit = \"1GB\"\n"),
        "F:3: unknown setting \"memry_limit\" (perhaps you meant \"memory_limit\")"
    );
    assert_eq!(error("block_size = 1"), "F:1: setting \"block_size\" can't be set here");
    assert_eq!(error("role = \"x\""), "F:1: setting \"role\" can't be set here");
    assert_eq!(
        error("\nport = 70000"),
        "F:2: 70000 is outside the valid range for parameter \"port\" (1 .. 65535)"
    );
    assert!(error("memory_limit = \"1 gig\"").ends_with("\"GB\", and \"TB\".)"));
    assert!(error("[pipelinedb]\nnum_wrokers = 4").starts_with("F:2: invalid configuration parameter name"));
    assert!(error("port = 2020-01-01").starts_with("F:1: \"port\" can't be a TOML datetime"));
    assert!(error("port = [1]").starts_with("F:1: \"port\" can't be a TOML array"));
    assert!(error("port = 1\nport = 2").starts_with("F:2: duplicate key"));
    assert!(error("a = 1\nport =").starts_with("F:2: "));
    let missing = Settings::load(Some(Path::new("/nonexistent/x.toml")), &[]).unwrap_err().to_string();
    assert!(missing.starts_with("/nonexistent/x.toml: could not read the configuration file"), "{missing}");
}

#[test]
fn the_command_line_wins_over_the_file() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"port = 1").unwrap();
    let settings = Settings::load(Some(file.path()), &[("port", "2"), ("data_directory", "/d")]).unwrap();
    assert_eq!((settings.port(), settings.data_directory()), (2, Some("/d".into())));
    let error = Settings::load(None, &[("prot", "2")]).unwrap_err().to_string();
    assert_eq!(error, "command line: unknown setting \"prot\" (perhaps you meant \"port\")");
}

/// The text of the default file, from the table.
fn render() -> String {
    let mut text = "# The settings of Tidemill, with their defaults. Take the # from a line to change it.\n\
                    # Sizes are written with B, kB, MB, GB or TB, times with us, ms, s, min, h or d.\n\
                    # Those marked (SET) can also be changed in a session.\n"
        .to_owned();
    let mut last = "";
    let listed = |effect: fn(Effect) -> bool| {
        let all = [
            crate::settings::tidemill::SETTINGS,
            crate::settings::postgres::SETTINGS,
            crate::settings::pipelinedb::SETTINGS,
        ];
        all.concat().into_iter().filter(move |setting| {
            effect(setting.effect) && setting.context != Context::Internal && !of_session_only(setting.name)
        })
    };
    for setting in listed(|effect| effect == Effect::Honoured) {
        if setting.category != last {
            last = setting.category;
            write!(text, "\n\n# {last}\n").unwrap();
        }
        let user = if setting.context == Context::User { " (SET)" } else { "" };
        text.push('\n');
        wrapped(&mut text, &format!("{}{}{user}", setting.description, allowed(setting)));
        writeln!(text, "# {} = {}", setting.name, literal(setting)).unwrap();
    }
    text.push_str("\n\n# Of PostgreSQL, accepted for its clients and without effect here\n\n");
    for setting in listed(|effect| effect == Effect::None) {
        writeln!(text, "# {} = {}", setting.name, literal(setting)).unwrap();
    }
    text.push_str("\n\n# Of PipelineDB, accepted with a notice and without effect here\n\n");
    for setting in listed(|effect| matches!(effect, Effect::Replaced(_))) {
        writeln!(text, "# {} = {}", setting.name, literal(setting)).unwrap();
    }
    text
}

/// Appends words as comment lines of up to 100 characters.
fn wrapped(text: &mut String, words: &str) {
    let mut line = "#".to_owned();
    for word in words.split(' ') {
        if line.len() + 1 + word.len() > 100 {
            writeln!(text, "{line}").unwrap();
            line = "#".to_owned();
        }
        line = line + " " + word;
    }
    writeln!(text, "{line}").unwrap();
}

fn allowed(setting: &Setting) -> String {
    let value = |number: i64| setting.kind.show(&crate::settings::Value::Integer(number));
    match setting.kind {
        Kind::Integer { min, max, .. } if max == i64::from(i32::MAX) && min == 0 => {
            " 0 is no limit.".to_owned()
        }
        Kind::Integer { min, max, .. } if max == i64::from(i32::MAX) => format!(" At least {}.", value(min)),
        Kind::Integer { min, max, .. } => format!(" From {} to {}.", value(min), value(max)),
        Kind::Enum { values, .. } => format!(" One of {}.", values.join(", ")),
        _ => String::new(),
    }
}

fn literal(setting: &Setting) -> String {
    match setting.kind {
        Kind::Bool => (setting.default == "on").to_string(),
        Kind::Real { .. } => setting.default.to_owned(),
        Kind::Integer { .. } if setting.default.parse::<i64>().is_ok() => setting.default.to_owned(),
        _ => format!("'{}'", setting.default),
    }
}

/// `TIDEMILL_WRITE_DEFAULTS=path cargo test default_file` writes it anew.
#[test]
fn the_default_file_is_the_table() {
    let expected = render();
    if let Ok(path) = std::env::var("TIDEMILL_WRITE_DEFAULTS") {
        std::fs::write(path, &expected).unwrap();
        return;
    }
    assert!(
        DEFAULT_FILE == expected,
        "settings/default.toml differs from the table; see this test for how to write it"
    );
    let uncommented: String = DEFAULT_FILE
        .lines()
        .filter_map(|line| line.strip_prefix("# "))
        .filter(|line| line.contains(" = "))
        .fold(String::new(), |text, line| text + line + "\n");
    let settings = load(&uncommented).unwrap();
    for (place, value) in Settings::default().values.iter().enumerate() {
        if SETTINGS[place].name != "config_file" {
            assert_eq!(&settings.values[place], value, "{}", SETTINGS[place].name);
        }
    }
}
