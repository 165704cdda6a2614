//! The data, and how each engine is told where they are.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::random::Random;
use crate::suite::{Context, one_of};
use crate::target::{Connection, Dialect, Rows, Target, Value};

const HIST: [&str; 3] = ["eid", "ts", "v"];
/// Values are whole numbers below it, so that sums are the same in any order.
const VALUE_MAX: u64 = 1000;
/// Names of signals, and units of them.
const NAMES: u64 = 100;
const UNITS: u64 = 7;

/// The parameters, checked.
pub(super) struct Layout {
    pub nodes: Vec<Target>,
    /// Has the small tables.
    pub relational: Target,
    pub rows: u64,
    sensors: u64,
    engine: &'static str,
    seed: u64,
}

impl Layout {
    pub fn of(context: &Context) -> Result<Layout> {
        let version = || context.target.connect()?.version();
        let engine = engine(context.text("engine")?, context.text("nodes")?, version)?;
        let open = |url: &str| Target::open(url.trim());
        let urls: Vec<&str> =
            context.text("nodes")?.split(',').filter(|url| !url.trim().is_empty()).collect();
        let nodes = urls.iter().map(|url| open(url)).collect::<Result<Vec<_>>>()?;
        if nodes.is_empty() && engine != "local" {
            return Err(Error::usage(
                "parameter \"nodes\" says where the data are: -p nodes=postgres://…,postgres://… (or -p engine=local)",
            ));
        }
        let count = |name: &str| {
            let value: u64 = context.number(name)?;
            if value == 0 {
                Err(Error::usage(format!("parameter \"{name}\" must be above 0")))
            } else {
                Ok(value)
            }
        };
        let relational = match context.text("relational")? {
            "" => nodes.first().cloned().unwrap_or_else(|| context.target.clone()),
            url => open(url)?,
        };
        let is_foreign = |target: &&Target| {
            engine != "local" && !matches!(target.dialect(), Dialect::Postgres | Dialect::Noop)
        };
        if let Some(other) = nodes.iter().chain([&relational]).find(is_foreign) {
            return Err(Error::usage(format!(
                "the nodes of suite federation speak PostgreSQL's protocol, which {} does not",
                other.url()
            )));
        }
        Ok(Layout {
            nodes,
            relational,
            rows: count("rows")?,
            sensors: count("sensors")?,
            engine,
            seed: context.data_seed()?,
        })
    }

    /// With everything on the target, there is one node's worth of data.
    pub fn parts(&self) -> usize {
        self.nodes.len().max(1)
    }

    pub fn is_local(&self) -> bool {
        self.engine == "local"
    }

    /// Tables on the nodes, or all of them on the one that is given.
    pub fn fill(&self, all_on: Option<&Target>) -> Result<()> {
        let relational = all_on.unwrap_or(&self.relational);
        let parts: Vec<(usize, &Target)> = (0..self.parts())
            .map(|i| (i, all_on.unwrap_or_else(|| self.nodes.get(i).unwrap_or(relational))))
            .collect();
        for (i, target) in &parts {
            let mut connection = target.connect()?;
            if *i == 0 || all_on.is_none() {
                make_hist(connection.as_mut())?;
            }
            self.load_hist(connection.as_mut(), *i)?;
        }
        let mut connection = relational.connect()?;
        self.make_small(connection.as_mut())?;
        let settled = parts.iter().map(|(_, target)| *target).chain([relational]);
        for target in settled {
            let sql = match target.dialect() {
                Dialect::MySql => "analyze table bench_hist, bench_signal, bench_unit",
                _ => "analyze",
            };
            target.connect()?.execute(sql)?;
        }
        Ok(())
    }

    fn load_hist(&self, connection: &mut dyn Connection, part: usize) -> Result<()> {
        let mut random = Random::part(self.seed, part as u64);
        let mut load = connection.load("bench_hist", &HIST)?;
        for row in 0..self.rows {
            let (sensor, second) = (row % self.sensors, row / self.sensors);
            let eid = format!("n{part}s{sensor}");
            let (day, rest) = (second / 86_400, second % 86_400);
            let ts = format!("{} {:02}:{:02}:{:02}", date(day), rest / 3600, rest / 60 % 60, rest % 60);
            load.row(&[Value::Text(&eid), Value::Text(&ts), Value::Float(random.below(VALUE_MAX) as f64)])?;
        }
        load.finish().map(drop)
    }

    fn make_small(&self, connection: &mut dyn Connection) -> Result<()> {
        connection.execute(
            "drop table if exists bench_signal; drop table if exists bench_unit;
             create table bench_signal (eid varchar(40) not null primary key, name varchar(40) not null);
             create table bench_unit (name varchar(40) not null primary key, unit varchar(40) not null)",
        )?;
        let mut load = connection.load("bench_signal", &["eid", "name"])?;
        for part in 0..self.parts() {
            for sensor in 0..self.sensors.min(self.rows) {
                let (eid, name) = (format!("n{part}s{sensor}"), format!("name{}", sensor % NAMES));
                load.row(&[Value::Text(&eid), Value::Text(&name)])?;
            }
        }
        load.finish()?;
        let mut load = connection.load("bench_unit", &["name", "unit"])?;
        for i in 0..NAMES {
            load.row(&[Value::Text(&format!("name{i}")), Value::Text(&format!("unit{}", i % UNITS))])?;
        }
        load.finish().map(drop)
    }

    /// What the engine is told, so that the tables of the nodes are its own.
    pub fn federate(&self, connection: &mut dyn Connection) -> Result<()> {
        if self.is_local() {
            return Ok(());
        }
        let is_tidemill = self.engine == "tidemill";
        connection.execute("create extension if not exists postgres_fdw")?;
        for name in servers(connection)?.keys() {
            connection.execute(&format!("drop server if exists {name} cascade"))?;
        }
        for (name, target) in self.servers() {
            connection.execute(&format!("drop server if exists {name} cascade"))?;
            server(connection, &name, target)?;
        }
        let relational = self.nodes.len();
        for (table, columns) in [
            ("bench_signal", "eid varchar(40), name varchar(40)"),
            ("bench_unit", "name varchar(40), unit varchar(40)"),
        ] {
            connection.execute(&format!(
                "create foreign table {table} ({columns}) server bench_node{relational}"
            ))?;
        }
        let columns = "eid varchar(40), ts timestamp, v double precision";
        if is_tidemill {
            let children: Vec<String> =
                (0..self.nodes.len()).map(|i| format!("bench_node{i}.public.bench_hist")).collect();
            let sql = format!(
                "create multi tenant table bench_hist ({columns}) children ({})",
                children.join(", ")
            );
            return connection.execute(&sql).map(drop);
        }
        let mut parts = Vec::new();
        for i in 0..self.nodes.len() {
            connection.execute(&format!(
                "create foreign table bench_hist{i} ({columns}) server bench_node{i} options (table_name 'bench_hist')"
            ))?;
            parts.push(format!("select * from bench_hist{i}"));
        }
        connection
            .execute(&format!("create or replace view bench_hist as {}", parts.join(" union all ")))
            .map(drop)
    }
}

impl Layout {
    /// The nodes, then the database with the small tables, by the names that the engine has for them.
    fn servers(&self) -> impl Iterator<Item = (String, &Target)> {
        let targets = self.nodes.iter().chain([&self.relational]);
        targets.enumerate().map(|(i, target)| (format!("{SERVER}{i}"), target))
    }

    /// An error if the engine's tables were made over other nodes than these, which the result would name.
    pub fn check_servers(&self, connection: &mut dyn Connection) -> Result<()> {
        if self.is_local() {
            return Ok(());
        }
        let found = servers(connection)?;
        let wanted: BTreeMap<String, Options> =
            self.servers().map(|(name, target)| (name, options(target))).collect();
        let differs = |name: &&String| found.get(*name) != wanted.get(*name);
        let Some(name) = found.keys().chain(wanted.keys()).find(differs) else { return Ok(()) };
        let told = |options: Option<&Options>| {
            options.map_or("none".to_owned(), |options| {
                options.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
            })
        };
        Err(Error::Wrong(format!(
            "the tables were made over other nodes: server {name} is {}, and not {}\nmake the tables anew: tidemill bench prepare federation",
            told(found.get(name)),
            told(wanted.get(name)),
        )))
    }
}

/// How the names of servers begin; a number follows.
const SERVER: &str = "bench_node";

/// Where a server is.
type Options = BTreeMap<String, String>;

/// Those of an earlier `prepare`.
fn servers(connection: &mut dyn Connection) -> Result<BTreeMap<String, Options>> {
    let mut rows = Rows::default();
    connection.query(
        "select foreign_server_name, option_name, option_value from information_schema.foreign_server_options
         where option_name in ('host', 'port', 'dbname')",
        &mut rows,
    )?;
    let text = |row, column| rows.text(row, column).map(|text| text.into_owned());
    let mut servers: BTreeMap<String, Options> = BTreeMap::new();
    for row in 0..rows.len() {
        if let (Some(server), Some(name), Some(value)) = (text(row, 0), text(row, 1), text(row, 2))
            && server.strip_prefix(SERVER).is_some_and(|rest| rest.parse::<usize>().is_ok())
        {
            servers.entry(server).or_default().insert(name, value);
        }
    }
    Ok(servers)
}

fn options(target: &Target) -> Options {
    let url = target.url();
    let database = if url.path.is_empty() { user(target) } else { &url.path };
    let host = url.host.as_deref().unwrap_or("localhost");
    let all = [("host", host), ("port", &url.port.unwrap_or(5432).to_string()), ("dbname", database)];
    all.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

fn user(target: &Target) -> &str {
    target.url().user.as_deref().unwrap_or("postgres")
}

/// What stands in front of the nodes, by what the target says of itself; without any, all is in the target.
pub(super) fn engine(
    given: &str,
    nodes: &str,
    version: impl FnOnce() -> Result<String>,
) -> Result<&'static str> {
    match one_of("engine", given, &["auto", "tidemill", "postgres_fdw", "local"])? {
        "auto" if nodes.trim().is_empty() => Ok("local"),
        "auto" if version()?.contains("Tidemill") => Ok("tidemill"),
        "auto" => Ok("postgres_fdw"),
        named => Ok(named),
    }
}

fn make_hist(connection: &mut dyn Connection) -> Result<()> {
    connection.execute(
        "drop table if exists bench_hist;
         create table bench_hist (eid varchar(40) not null, ts timestamp not null, v double precision not null);
         create index bench_hist_eid on bench_hist (eid, ts)",
    )?;
    Ok(())
}

fn server(connection: &mut dyn Connection, name: &str, target: &Target) -> Result<()> {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let options = options(target);
    let options: Vec<String> =
        options.iter().map(|(name, value)| format!("{name} {}", quoted(value))).collect();
    connection.execute(&format!(
        "create server {name} foreign data wrapper postgres_fdw options ({})",
        options.join(", ")
    ))?;
    let password =
        target.url().password.as_deref().map(|p| format!(", password {}", quoted(p))).unwrap_or_default();
    connection.execute(&format!(
        "create user mapping for current_user server {name} options (user {}{password})",
        quoted(user(target))
    ))?;
    Ok(())
}

/// Days after 2019-01-01 (Howard Hinnant's civil_from_days).
fn date(day: u64) -> String {
    let z = day + 17_897 + 719_468;
    let era = z / 146_097;
    let doe = z % 146_097;
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{:02}", doy - (153 * mp + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    #[test]
    fn days_have_dates() {
        for (day, date) in [
            (0, "2019-01-01"),
            (58, "2019-02-28"),
            (59, "2019-03-01"),
            (424, "2020-02-29"),
            (730, "2020-12-31"),
        ] {
            assert_eq!(super::date(day), date);
        }
    }
}
