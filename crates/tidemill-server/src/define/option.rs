//! `WITH (…)` of a continuous view: what there is, sliding window, time to live, unique key.

use std::time::Duration;

use tidemill_sql::planner::closest;
use tidemill_sql::statement::ViewOption;
use tidemill_sql::text::parse_interval;
use tidemill_sql::{Result, SqlError, SqlState};
use tidemill_stream::join::REFRESH;
use tidemill_stream::ttl::{TimeToLive, is_time};
use tidemill_stream::view::ViewTable;
use tidemill_stream::window::Window;

/// Percent of the window that a pane is, unless the view says otherwise.
const STEP_FACTOR: u8 = 5;
const DAY_US: i64 = 86_400_000_000;
const DAYS_PER_MONTH: i64 = 30;
/// The shortest time to live.
const TTL_MIN_US: i64 = 1_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Support {
    Yes,
    /// Accepted with a notice.
    NoEffect,
    No,
}

/// The options of PipelineDB's views and our own.
const OPTIONS: [(&str, Support); 17] = [
    ("action", Support::Yes),
    ("sw", Support::Yes),
    ("max_age", Support::Yes),
    ("step_factor", Support::Yes),
    ("ttl", Support::Yes),
    ("ttl_column", Support::Yes),
    ("pk", Support::Yes),
    ("join_refresh", Support::Yes),
    ("fillfactor", Support::NoEffect),
    ("tablespace", Support::NoEffect),
    ("sw_column", Support::No),
    ("time_column", Support::No),
    ("lateness", Support::No),
    ("backfill", Support::No),
    ("outputfunc", Support::No),
    ("partition_by", Support::No),
    ("partition_duration", Support::No),
];

/// Those of a transform.
const TRANSFORM_OPTIONS: [&str; 3] = ["action", "outputfunc", "join_refresh"];

/// Refuses options that there are not, and returns those that change nothing.
pub fn without_effect(options: &[ViewOption]) -> Result<Vec<&str>> {
    let mut idle = Vec::new();
    for option in options {
        let name = option.name.as_str();
        match OPTIONS.iter().find(|(known, _)| *known == name) {
            Some((_, Support::Yes)) => {}
            Some((_, Support::NoEffect)) => idle.push(name),
            Some(_) if name == "outputfunc" => {
                return Err(invalid("option \"outputfunc\" is one of a continuous transform".into())
                    .with_position(option.position)
                    .with_hint("Add \"action = transform\"."));
            }
            Some((_, Support::No)) => {
                let message = format!("option \"{name}\" of a continuous view is not supported yet");
                return Err(SqlError::unsupported(message).with_position(option.position));
            }
            None => return Err(unrecognized(option, OPTIONS.iter().map(|(known, _)| *known))),
        }
        if name == "action" {
            check_action(option)?;
        }
    }
    Ok(idle)
}

/// An option that there is not, and the one that was perhaps meant.
pub fn unrecognized<'a>(option: &ViewOption, known: impl Iterator<Item = &'a str>) -> SqlError {
    let error = invalid(format!("unrecognized parameter \"{}\"", option.name)).with_position(option.position);
    match closest(&option.name, known) {
        Some(meant) => error.with_hint(format!("Perhaps you meant the option \"{meant}\".")),
        None => error,
    }
}

fn check_action(option: &ViewOption) -> Result<()> {
    let error = match option.value.as_deref() {
        None | Some("materialize") => return Ok(()),
        Some(value) => invalid(format!("invalid value for option \"action\": \"{value}\""))
            .with_hint("Valid values are \"materialize\" and \"transform\"."),
    };
    Err(error.with_position(option.position))
}

/// Those of a transform; what else a view has is not for it.
pub fn check_transform(options: &[ViewOption]) -> Result<()> {
    for (i, option) in options.iter().enumerate() {
        let name = option.name.as_str();
        if !OPTIONS.iter().any(|(known, _)| *known == name) {
            return Err(unrecognized(option, TRANSFORM_OPTIONS.into_iter()));
        }
        if !TRANSFORM_OPTIONS.contains(&name) {
            let message = format!("option \"{name}\" is not one of a continuous transform");
            return Err(invalid(message).with_position(option.position));
        }
        if options[..i].iter().any(|earlier| earlier.name == name) {
            let message = format!("parameter \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).with_position(option.position));
        }
        if name == "join_refresh" {
            parse_one(name, option.value.as_deref().unwrap_or_default())
                .map_err(|e| e.with_position(option.position))?;
        }
    }
    Ok(())
}

/// `pk`: the columns that tell the view's rows apart, which are those of GROUP BY and no others.
pub fn check_key(options: &[ViewOption], table: &ViewTable) -> Result<()> {
    let Some(option) = options.iter().find(|option| option.name == "pk") else { return Ok(()) };
    let at = |error: SqlError| error.with_position(option.position);
    let value = option.value.as_deref().unwrap_or_default();
    let mut named: Vec<&str> = value.split(',').map(str::trim).collect();
    let schema = datafusion::catalog::TableProvider::schema(table);
    if let Some(name) = named.iter().find(|name| schema.index_of(name).is_err()) {
        let error = SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"));
        return Err(at(error.with_hint("\"pk\" names a column of the view.")));
    }
    let mut key = table.key();
    named.sort_unstable();
    key.sort_unstable();
    if !key.is_empty() && named == key {
        return Ok(());
    }
    let message =
        format!("option \"pk\" must name the columns of GROUP BY: \"{value}\" does not identify a row");
    let hint = match key.as_slice() {
        [] => "A view without GROUP BY has no key.".to_string(),
        key => format!("The key of this view is \"{}\".", key.join(", ")),
    };
    Err(at(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message).with_hint(hint)))
}

/// Refuses values that make no sense, where they stand.
/// With `has_clause`, the query's WHERE makes a window.
pub fn check(options: &[ViewOption], has_clause: bool) -> Result<()> {
    for (i, option) in options.iter().enumerate() {
        if options[..i].iter().any(|earlier| kind(&earlier.name) == kind(&option.name)) {
            let message = format!("parameter \"{}\" specified more than once", option.name);
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).with_position(option.position));
        }
        if let "sw" | "max_age" | "step_factor" | "ttl" | "join_refresh" = option.name.as_str() {
            parse_one(&option.name, option.value.as_deref().unwrap_or_default())
                .map_err(|e| e.with_position(option.position))?;
        }
    }
    let has = |k| options.iter().find(|o| kind(&o.name) == k);
    match (has("ttl"), has("ttl_column")) {
        (Some(ttl), _) if has_clause || has("sw").is_some() => {
            let message = "a time to live and a sliding window are given, and a window has its own";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).with_position(ttl.position));
        }
        (Some(alone), None) | (None, Some(alone)) => {
            let message = "\"ttl\" and \"ttl_column\" can only be specified together";
            return Err(invalid(message.into()).with_position(alone.position));
        }
        _ => {}
    }
    match (has("sw"), has("step_factor")) {
        (Some(sw), _) if has_clause => {
            let message =
                "a sliding window is given twice: by an option and by a condition on arrival_timestamp";
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message).with_position(sw.position))
        }
        (None, Some(step)) if !has_clause => {
            let message = "\"step_factor\" can only be specified with \"sw\"";
            Err(invalid(message.into()).with_position(step.position))
        }
        _ => Ok(()),
    }
}

/// The options as the catalog keeps them. A window's step is among them: a later change of the default does not
/// change the panes of states that exist.
pub fn written(options: &[ViewOption], has_clause: bool, step_factor: u8) -> Vec<(String, String)> {
    let written = options.iter().map(|o| (o.name.clone(), o.value.clone().unwrap_or_default()));
    let mut written: Vec<_> = written.collect();
    let has = |k| options.iter().any(|o| kind(&o.name) == k);
    if (has("sw") || has_clause) && !has("step_factor") {
        written.push(("step_factor".into(), step_factor.to_string()));
    }
    written
}

/// The window that a view's options ask for, or the clause of its query.
pub fn window(options: &[(String, String)], clause: Option<&str>) -> Result<Option<Window>> {
    let mut span_us = clause.map(|interval| parse_one("sw", interval)).transpose()?;
    let mut step = i64::from(STEP_FACTOR);
    for (name, value) in options {
        match kind(name) {
            "sw" => span_us = Some(parse_one(name, value)?),
            "step_factor" => step = parse_one(name, value)?,
            _ => {}
        }
    }
    let step = u8::try_from(step).unwrap_or(STEP_FACTOR);
    Ok(span_us.map(|span_us| Window::new(span_us, step)))
}

/// The time to live that a view's options ask for.
pub fn time_to_live(options: &[(String, String)], table: &ViewTable) -> Result<Option<TimeToLive>> {
    let value =
        |wanted: &str| options.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    let (Some(ttl), Some(column)) = (value("ttl"), value("ttl_column")) else { return Ok(None) };
    Ok(Some(TimeToLive { column: time_column(table, column)?, us: parse_one("ttl", ttl)? }))
}

/// How old rows of other servers may be that events join.
pub fn join_refresh(options: &[(String, String)]) -> Result<Duration> {
    match options.iter().find(|(name, _)| name == "join_refresh") {
        Some((name, value)) => Ok(Duration::from_micros(parse_one(name, value)?.unsigned_abs())),
        None => Ok(REFRESH),
    }
}

/// The column of the view's groups, or of its rows, that has their time.
fn time_column(table: &ViewTable, name: &str) -> Result<usize> {
    let schema = datafusion::catalog::TableProvider::schema(table);
    let Some((at, field)) = schema.column_with_name(name) else {
        return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"))
            .with_hint("\"ttl_column\" names a column of the view."));
    };
    if !is_time(field.data_type()) {
        let message = format!("ttl_column \"{name}\" must be of type timestamp with or without time zone");
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
    }
    table.given(at).ok_or_else(|| {
        SqlError::new(
            SqlState::INVALID_COLUMN_REFERENCE,
            format!("ttl_column \"{name}\" must be in GROUP BY"),
        )
        .with_hint("Groups expire by a time that all their events share, such as a minute.")
    })
}

/// `max_age` is what `sw` was called before.
fn kind(name: &str) -> &str {
    if name == "max_age" { "sw" } else { name }
}

/// Microseconds of a window, percent of a step.
fn parse_one(name: &str, value: &str) -> Result<i64> {
    if kind(name) == "step_factor" {
        return match value.trim().parse() {
            Ok(percent @ 1..=50) => Ok(percent),
            _ => Err(invalid("step_factor must be between 1 and 50".into())),
        };
    }
    let interval = parse_interval(value.as_bytes())?;
    let days = i64::from(interval.months) * DAYS_PER_MONTH + i64::from(interval.days);
    match days.checked_mul(DAY_US).and_then(|us| us.checked_add(interval.nanoseconds / 1000)) {
        Some(us) if us < TTL_MIN_US && name == "ttl" => {
            Err(invalid("\"ttl\" must be at least 1 second".into()))
        }
        Some(us) if us > 0 => Ok(us),
        _ => Err(invalid(format!("\"{name}\" must be a positive interval"))),
    }
}

fn invalid(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}
