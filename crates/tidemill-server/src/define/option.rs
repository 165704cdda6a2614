//! `WITH (sw = …, step_factor = …)`: the sliding window of a continuous view.

use tidemill_sql::statement::ViewOption;
use tidemill_sql::text::parse_interval;
use tidemill_sql::{Result, SqlError, SqlState};
use tidemill_stream::window::Window;

/// Percent of the window that a pane is, unless the view says otherwise.
const STEP_FACTOR: u8 = 5;
const DAY_US: i64 = 86_400_000_000;
const DAYS_PER_MONTH: i64 = 30;

/// Refuses values that make no sense, where they stand.
/// With `has_clause`, the query's WHERE makes a window.
pub fn check(options: &[ViewOption], has_clause: bool) -> Result<()> {
    let mut written: Vec<(String, String)> = Vec::new();
    for option in options {
        if let "sw" | "max_age" | "step_factor" = option.name.as_str() {
            let value = option.value.clone().unwrap_or_default();
            if written.iter().any(|(name, _)| kind(name) == kind(&option.name)) {
                let message = format!("parameter \"{}\" specified more than once", option.name);
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).with_position(option.position));
            }
            written.push((option.name.clone(), value));
            parse_one(&option.name, written.last().map_or("", |(_, v)| v.as_str()))
                .map_err(|e| e.with_position(option.position))?;
        }
    }
    let has = |k| options.iter().find(|o| kind(&o.name) == k);
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
        Some(us) if us > 0 => Ok(us),
        _ => Err(invalid(format!("\"{name}\" must be a positive interval"))),
    }
}

fn invalid(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}
