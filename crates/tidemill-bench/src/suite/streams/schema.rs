//! Streams and views as each engine has them, and what the views say.

use crate::error::{Error, Result};
use crate::suite::{Context, one_of};
use crate::target::{Connection, Dialect, Rows, Target};

/// `m` and `-m`, so that the sum of a column stays what it was.
pub(super) const MARK_ROWS: u64 = 2;

/// The parameters, checked.
pub(super) struct Shape {
    pub streams: usize,
    pub views: usize,
    pub rows: u64,
    pub groups: u64,
    pub window: String,
    pub insert: &'static str,
    /// Views tell the highest mark that they have.
    pub has_marks: bool,
    engine: &'static str,
    dialect: Dialect,
}

/// What a view has counted.
pub(super) struct Seen {
    pub rows: u64,
    pub sum_x: u64,
    pub sum_y: u64,
}

pub(super) fn stream(i: usize) -> String {
    format!("bench_stream{i}")
}

pub(super) fn view(i: usize) -> String {
    format!("bench_view{i}")
}

impl Shape {
    pub fn of(context: &Context) -> Result<Shape> {
        let dialect = context.target.dialect();
        let at_least_one = |name: &str| {
            let value: u64 = context.number(name)?;
            match value {
                1..=1_000_000 => Ok(value),
                _ => Err(Error::usage(format!(
                    "parameter \"{name}\" must be between 1 and 1000000, not {value}"
                ))),
            }
        };
        let engine =
            match one_of("engine", context.text("engine")?, &["auto", "tidemill", "pipelinedb", "triggers"])?
            {
                "auto" if dialect == Dialect::Postgres => engine_of(&context.target)?,
                "auto" => "triggers",
                engine => engine,
            };
        let window = context.text("window")?;
        if !window.chars().all(|c| c.is_ascii_alphanumeric() || c == ' ') {
            return Err(Error::usage(format!("parameter \"window\" is no interval: \"{window}\"")));
        }
        if !window.is_empty() && engine == "triggers" {
            return Err(Error::Unsupported("triggers have no windows".to_owned()));
        }
        if dialect == Dialect::MySql {
            return Err(Error::Unsupported(
                "suite streams needs views with triggers, which MySQL does not have".to_owned(),
            ));
        }
        Ok(Shape {
            streams: at_least_one("streams")? as usize,
            views: at_least_one("views")? as usize,
            rows: at_least_one("rows")?,
            groups: at_least_one("groups")?,
            window: window.to_owned(),
            insert: one_of("insert", context.text("insert")?, &["generate", "values", "prepared", "copy"])?,
            has_marks: context.number::<u64>("see")? > 0,
            engine,
            dialect,
        })
    }

    /// The first two views read the same stream, as in the article.
    pub fn source(&self, view: usize) -> usize {
        view.saturating_sub(1) % self.streams
    }

    pub fn drops(&self) -> Vec<String> {
        let kind = |i| {
            if self.engine == "triggers" {
                format!("table if exists {}", view(i))
            } else {
                format!("view if exists {}", view(i))
            }
        };
        let mut drops: Vec<String> = Vec::new();
        if self.engine != "triggers" {
            drops.extend((0..self.views).map(|i| format!("drop {}", kind(i))));
        }
        drops.extend((0..self.streams).map(|i| match self.engine {
            "tidemill" => format!("drop stream if exists {} cascade", stream(i)),
            "pipelinedb" => format!("drop foreign table if exists {} cascade", stream(i)),
            _ => format!("drop view if exists {}", stream(i)),
        }));
        if self.engine == "triggers" {
            drops.extend((0..self.views).map(|i| format!("drop {}", kind(i))));
        }
        drops
    }

    pub fn creates(&self) -> Vec<String> {
        let mut creates = Vec::new();
        for i in 0..self.streams {
            let name = stream(i);
            creates.push(match self.engine {
                "tidemill" => format!("create stream {name} (x int, y int, z int)"),
                "pipelinedb" => {
                    format!("create foreign table {name} (x int, y int, z int) server pipelinedb")
                }
                // Nothing is kept of what is inserted into a view with a trigger.
                _ => format!("create view {name} as select 0 as x, 0 as y, 0 as z where 1 = 0"),
            });
        }
        for i in 0..self.views {
            if self.engine == "triggers" {
                creates.extend(self.triggers(i));
            } else {
                creates.push(self.continuous_view(i));
            }
        }
        creates
    }

    fn continuous_view(&self, i: usize) -> String {
        let columns = if i == 0 { "count(*)" } else { "sum(x), count(*), avg(y), sum(y) as sum_y" };
        let mark = if self.has_marks { ", max(x) as mark" } else { "" };
        let (key, group) = if self.groups > 1 { ("z, ", " group by z") } else { ("", "") };
        let options =
            if self.window.is_empty() { String::new() } else { format!(" with (sw = '{}')", self.window) };
        let head = match self.engine {
            // Of the extension: there a continuous view is a view with an action.
            "pipelinedb" if options.is_empty() => {
                format!("create view {} with (action = materialize)", view(i))
            }
            "pipelinedb" => {
                format!("create view {} with (action = materialize, sw = '{}')", view(i), self.window)
            }
            _ => format!("create continuous view {}{options}", view(i)),
        };
        format!("{head} as select {key}{columns}{mark} from {}{group}", stream(self.source(i)))
    }

    fn triggers(&self, i: usize) -> Vec<String> {
        let (table, source) = (view(i), stream(self.source(i)));
        let key = if self.groups > 1 { "new.z" } else { "0" };
        let upsert = format!(
            "insert into {table} as v values ({key}, new.x, 1, new.y, new.x) on conflict (z) do update set sum = v.sum + excluded.sum, \
             count = v.count + 1, sum_y = v.sum_y + excluded.sum_y, \
             mark = case when excluded.mark > v.mark then excluded.mark else v.mark end"
        );
        let mut statements = vec![format!(
            "create table {table} (z bigint primary key, sum bigint, count bigint, sum_y bigint, mark bigint)"
        )];
        if self.dialect == Dialect::Sqlite {
            statements.push(format!(
                "create trigger {table}_fold instead of insert on {source} begin {upsert}; end"
            ));
        } else {
            statements.push(format!(
                "create or replace function {table}_fold() returns trigger language plpgsql as \
                 $$ begin {upsert}; return new; end $$"
            ));
            statements.push(format!(
                "create trigger {table}_fold instead of insert on {source} for each row execute function {table}_fold()"
            ));
        }
        statements
    }

    pub fn seen(&self, connection: &mut dyn Connection, i: usize) -> Result<Seen> {
        let sums = if i == 0 { "0, 0" } else { "coalesce(sum(sum), 0), coalesce(sum(sum_y), 0)" };
        let mut rows = Rows::default();
        connection.query(&format!("select coalesce(sum(count), 0), {sums} from {}", view(i)), &mut rows)?;
        let number = |column| {
            let value = rows.int(0, column).and_then(|value| u64::try_from(value).ok());
            value.ok_or_else(|| {
                Error::Wrong(format!("{} says {}", view(i), rows.text(0, column).unwrap_or("NULL".into())))
            })
        };
        Ok(Seen { rows: number(0)?, sum_x: number(1)?, sum_y: number(2)? })
    }

    /// The highest mark that a view shows.
    pub fn mark(&self, connection: &mut dyn Connection, i: usize) -> Result<u64> {
        let mark = connection.query_int(&format!("select coalesce(max(mark), 0) from {}", view(i)));
        mark.map(|mark| u64::try_from(mark).unwrap_or(0)).map_err(|error| match error.code() {
            Some("42703") => Error::usage(format!("{} was prepared with see=0: prepare it anew", view(i))),
            _ => error,
        })
    }

    /// Rows by which an insert is known again, in a window too: no other row of the run has so large an `x`. A `y` of 0 keeps
    /// them out of the other sum, which so counts the rows of all other inserts.
    pub fn mark_text(&self, i: usize, mark: u64) -> String {
        let z = self.z(mark);
        format!("insert into {}(x,y,z) values ({mark},0,{z}),(-{mark},0,{z})", stream(i))
    }

    /// One insert as text.
    pub fn text(&self, i: usize) -> String {
        let (name, rows) = (stream(i), self.rows);
        let z = |x: &str| if self.groups > 1 { format!("{x} % {}", self.groups) } else { "1".to_owned() };
        if self.insert == "values" {
            let values: Vec<String> = (1..=rows).map(|x| format!("({x},1,{})", self.z(x))).collect();
            return format!("insert into {name}(x,y,z) values {}", values.join(","));
        }
        if self.dialect == Dialect::Sqlite {
            return format!(
                "insert into {name}(x,y,z) with recursive n(i) as (select 1 union all select i + 1 from n where i < {rows}) \
                 select i, 1, {} from n",
                z("i")
            );
        }
        match self.groups {
            // The article's own text.
            1 => format!("insert into {name}(x,y,z) select generate_series(1,{rows}),1,1"),
            _ => format!("insert into {name}(x,y,z) select i,1,{} from generate_series(1,{rows}) i", z("i")),
        }
    }

    /// The third column of row `x`.
    pub fn z(&self, x: u64) -> u64 {
        if self.groups > 1 { x % self.groups } else { 1 }
    }
}

/// What a server with PostgreSQL's protocol has instead of triggers, as it tells itself.
fn engine_of(target: &Target) -> Result<&'static str> {
    match target.connect()?.query_value("select pipelinedb.version()") {
        Ok(version) if version.as_deref().is_some_and(|version| version.contains("Tidemill")) => {
            Ok("tidemill")
        }
        Ok(_) => Ok("pipelinedb"),
        // There is no such schema, or no such function.
        Err(error) if matches!(error.code(), Some("3F000" | "42883")) => Ok("triggers"),
        Err(error) => Err(error),
    }
}
