//! Clients that run scripts.

use std::process::Command as Process;
use std::time::Instant;

use super::evaluate::Scope;
use super::expression::Expression;
use super::number::leading_int;
use super::parse::{Action, Argument, Fetch};
use super::value::{Value, Variables, is_variable_name};
use super::{Mode, Script, Step};
use crate::error::{Error, Result};
use crate::fiber;
use crate::random::Random;
use crate::run::{Client, Part, Seat, Workload};
use crate::target::{Connection, Dialect, Rows, Statement, Target, Value as Bound};

/// Some scripts as a workload.
pub struct Scripts {
    pub scripts: Vec<Script>,
    pub target: Target,
    pub mode: Mode,
    /// Set in each client before it starts.
    pub variables: Variables,
}

impl Workload for Scripts {
    fn operations(&self) -> Vec<String> {
        self.scripts.iter().map(|script| script.name.clone()).collect()
    }

    fn blocks(&self) -> bool {
        self.target.is_embedded() || self.scripts.iter().any(Script::starts_programs)
    }

    fn can_idle(&self) -> bool {
        self.scripts.iter().all(Script::can_idle)
    }

    fn client(&self, seat: &Seat) -> Result<Box<dyn Client + '_>> {
        if self.scripts.iter().all(|script| script.weight == 0) {
            return Err(Error::usage("the weights of all scripts are 0"));
        }
        // In the order in which pgbench draws the seeds of its clients and of hash functions.
        let mut seeds = Random::new(seat.seed);
        let mut drawn: Vec<u64> = (0..=seat.clients).map(|_| seeds.bits()).collect();
        // The next one is the first thread's, which chooses scripts; a seed of hash functions that is given is not drawn.
        let is_given = self.variables.text("default_seed").is_some();
        drawn.extend((!is_given).then(|| seeds.bits()));
        let chooser = drawn.last().copied().unwrap_or_default();
        let mut variables = self.variables.clone();
        let mut built_in = |name: &str, value: i64| {
            if variables.text(name).is_none() {
                variables.set(name, Value::Int(value));
            }
        };
        built_in("scale", 1);
        built_in("client_id", seat.index as i64);
        built_in("random_seed", seat.seed as i64);
        built_in("default_seed", drawn[seat.clients] as i64);
        let connection = self.target.connect()?;
        Ok(Box::new(ScriptClient {
            workload: self,
            connection,
            variables,
            random: Random::new(drawn[seat.index]),
            choice: match seat.index {
                0 => Random::new(chooser),
                // The clients of a thread share it under pgbench, in the order in which they come to be ready.
                index => Random::part(chooser, index as u64),
            },
            chosen: 0,
            prepared: self.scripts.iter().map(|script| vec![None; script.steps.len()]).collect(),
            times: self.scripts.iter().map(|script| vec![(0, 0); script.steps.len()]).collect(),
            sql: String::new(),
            rows: Rows::of_last_row(),
            is_in_pipeline: false,
        }))
    }
}

struct ScriptClient<'a> {
    workload: &'a Scripts,
    connection: Box<dyn Connection>,
    variables: Variables,
    random: Random,
    /// Of the script; apart from `random`, so that weights do not change what expressions draw.
    choice: Random,
    chosen: usize,
    prepared: Vec<Vec<Option<Statement>>>,
    /// Of each step: how often, and nanoseconds in all.
    times: Vec<Vec<(u64, u64)>>,
    sql: String,
    rows: Rows,
    is_in_pipeline: bool,
}

impl Client for ScriptClient<'_> {
    fn next(&mut self) -> Result<usize> {
        let scripts = &self.workload.scripts;
        if scripts.len() > 1 {
            let total: u64 = scripts.iter().map(|script| script.weight).sum();
            let mut drawn = self.choice.below(total);
            self.chosen = 0;
            while drawn >= scripts[self.chosen].weight {
                drawn -= scripts[self.chosen].weight;
                self.chosen += 1;
            }
        }
        Ok(self.chosen)
    }

    fn perform(&mut self) -> Result<()> {
        let script = &self.workload.scripts[self.chosen];
        // For each \if that is open: is this branch done, and has one of them been?
        let mut conditions: Vec<Branch> = Vec::new();
        let mut begin = Instant::now();
        for (index, step) in script.steps.iter().enumerate() {
            if self.branch(&mut conditions, step, index)? || conditions.iter().any(|branch| !branch.is_on) {
                continue;
            }
            let done = self.step(step, index);
            let end = Instant::now();
            let (count, nanoseconds) = &mut self.times[self.chosen][index];
            *count += 1;
            *nanoseconds += (end - begin).as_nanos() as u64;
            begin = end;
            if let Err(error) = done {
                self.recover(&error)?;
                return Err(error);
            }
        }
        let left_open =
            |what: &str| Err(self.wrong(&script.name, 0, &format!("end of script reached {what}")));
        match (self.is_in_pipeline, self.connection.is_in_transaction()) {
            (true, _) => left_open("with pipeline open"),
            // What it did is not there for others, and locks are kept: nothing that could be measured.
            (_, true) => left_open("without completing the last transaction"),
            (false, false) => Ok(()),
        }
    }

    fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        for (operation, script) in self.workload.scripts.iter().enumerate() {
            for (step, (count, nanoseconds)) in script.steps.iter().zip(&self.times[operation]) {
                let text = step.command.text.clone();
                parts.push(Part { operation, text, count: *count, total_ns: *nanoseconds });
            }
        }
        parts
    }
}

#[derive(Clone, Copy)]
struct Branch {
    is_on: bool,
    was_on: bool,
}

impl ScriptClient<'_> {
    /// True if the step was a condition.
    fn branch(&mut self, open: &mut Vec<Branch>, step: &Step, index: usize) -> Result<bool> {
        let is_outer_on = |open: &[Branch]| open.iter().rev().skip(1).all(|branch| branch.is_on);
        match &step.command.action {
            Action::If(condition) => {
                let is_on = open.iter().all(|branch| branch.is_on) && self.is_true(condition, step, index)?;
                open.push(Branch { is_on, was_on: is_on });
            }
            Action::Elif(condition) => {
                let last = *open.last().expect("conditions were checked when the script was read");
                let is_on = !last.was_on && is_outer_on(open) && self.is_true(condition, step, index)?;
                open.pop();
                open.push(Branch { is_on, was_on: last.was_on || is_on });
            }
            Action::Else => {
                let last = open.pop().expect("conditions were checked when the script was read");
                open.push(Branch { is_on: !last.was_on, was_on: true });
            }
            Action::EndIf => drop(open.pop()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn is_true(&mut self, condition: &Expression, step: &Step, index: usize) -> Result<bool> {
        Ok(self.evaluate(condition, step, index)?.is_true())
    }

    fn evaluate(&mut self, expression: &Expression, step: &Step, index: usize) -> Result<Value> {
        let place = (self.chosen, index + 1);
        let value =
            Scope { variables: &self.variables, random: &mut self.random, place }.evaluate(expression);
        value.map_err(|message| {
            self.wrong(&self.workload.scripts[self.chosen].name, step.command.line, &message)
        })
    }

    fn wrong(&self, script: &str, line: usize, message: &str) -> Error {
        match line {
            0 => Error::usage(format!("{script}: {message}")),
            line => Error::usage(format!("{script}:{line}: {message}")),
        }
    }

    fn step(&mut self, step: &Step, index: usize) -> Result<()> {
        match &step.command.action {
            Action::Sql(sql) => self.sql(step, index, &sql.fetch),
            Action::Set(name, expression) => {
                let value = self.evaluate(expression, step, index)?;
                self.variables.set(name, value);
                Ok(())
            }
            Action::Sleep(amount, unit) => {
                let times = self.sleep_times(amount, step)?;
                fiber::sleep(*unit * times);
                Ok(())
            }
            Action::Shell(variable, words) => self.shell(variable.as_deref(), words, step),
            Action::StartPipeline => {
                if self.workload.mode == Mode::Simple {
                    return Err(
                        self.in_script(step, "cannot use pipeline mode with the simple query protocol")
                    );
                }
                if self.is_in_pipeline {
                    return Err(self.in_script(step, "already in pipeline mode"));
                }
                self.prepare_all()?;
                self.connection.pipeline_start()?;
                self.is_in_pipeline = true;
                Ok(())
            }
            Action::EndPipeline => {
                if !std::mem::take(&mut self.is_in_pipeline) {
                    return Err(self.in_script(step, "not in pipeline mode"));
                }
                self.connection.pipeline_end().map(drop)
            }
            Action::If(_) | Action::Elif(_) | Action::Else | Action::EndIf => Ok(()),
        }
    }

    fn in_script(&self, step: &Step, message: &str) -> Error {
        self.wrong(&self.workload.scripts[self.chosen].name, step.command.line, message)
    }

    fn sql(&mut self, step: &Step, index: usize, fetch: &Fetch) -> Result<()> {
        let is_fetched = *fetch != Fetch::Drop;
        if is_fetched && self.is_in_pipeline {
            return Err(self.in_script(step, "\\gset and \\aset are not allowed in pipeline mode"));
        }
        let query = step.query.as_ref().expect("an SQL command has its query");
        self.rows.keep_last_rows(matches!(fetch, Fetch::Last(_)));
        if self.workload.mode == Mode::Simple {
            query.filled(&self.variables, &mut self.sql);
            match is_fetched {
                true => self.connection.query(&self.sql, &mut self.rows)?,
                false => self.connection.execute(&self.sql)?,
            };
        } else {
            let texts: Vec<Option<String>> = query.names().iter().map(|name| self.parameter(name)).collect();
            let dialect = self.workload.target.dialect();
            let values: Vec<Bound<'_>> = texts.iter().map(|text| bound(dialect, text.as_deref())).collect();
            let rows = is_fetched.then_some(&mut self.rows);
            match self.workload.mode {
                Mode::Prepared => {
                    let statement = match self.prepared[self.chosen][index] {
                        Some(statement) => statement,
                        None => self.connection.prepare(&query.with_parameters(dialect))?,
                    };
                    self.prepared[self.chosen][index] = Some(statement);
                    self.connection.run(statement, &values, rows)?;
                }
                _ => drop(self.connection.run_once(&query.with_parameters(dialect), &values, rows)?),
            }
        }
        self.fetch(step, fetch)
    }

    /// NULL for a variable that is not there, or is null.
    fn parameter(&self, name: &str) -> Option<String> {
        match self.variables.value(name) {
            Ok(Value::Null) => None,
            _ => self.variables.text(name),
        }
    }

    /// Nothing can be prepared within a pipeline.
    fn prepare_all(&mut self) -> Result<()> {
        if self.workload.mode != Mode::Prepared {
            return Ok(());
        }
        let dialect = self.workload.target.dialect();
        for (index, step) in self.workload.scripts[self.chosen].steps.iter().enumerate() {
            let Some(query) = &step.query else { continue };
            if self.prepared[self.chosen][index].is_none() {
                let statement = self.connection.prepare(&query.with_parameters(dialect))?;
                self.prepared[self.chosen][index] = Some(statement);
            }
        }
        Ok(())
    }

    fn fetch(&mut self, step: &Step, fetch: &Fetch) -> Result<()> {
        let rows = self.rows.len();
        let prefix = match fetch {
            Fetch::Drop => return Ok(()),
            Fetch::One(_) if rows != 1 => {
                return Err(self.in_script(step, &format!("\\gset: expected one row, got {rows}")));
            }
            Fetch::One(prefix) | Fetch::Last(prefix) => prefix,
        };
        for (name, value) in self.rows.take_last_rows() {
            let name = format!("{prefix}{name}");
            if !is_variable_name(&name) {
                let command = if matches!(fetch, Fetch::One(_)) { "gset" } else { "aset" };
                return Err(self.in_script(step, &format!("\\{command}: invalid variable name: \"{name}\"")));
            }
            // As pgbench has it, NULL is an empty text.
            self.variables.set_text(&name, &value.unwrap_or_default());
        }
        Ok(())
    }

    fn word(&self, argument: &Argument, step: &Step) -> Result<String> {
        match argument {
            Argument::Text(text) => Ok(text.clone()),
            Argument::Variable(name) => {
                let value = self.variables.text(name);
                value.ok_or_else(|| self.in_script(step, &format!("undefined variable \"{name}\"")))
            }
        }
    }

    /// Who sleeps for less than no time does not sleep.
    fn sleep_times(&self, amount: &Argument, step: &Step) -> Result<u32> {
        let text = self.word(amount, step)?;
        match (leading_int(&text), amount) {
            (Some(times), _) => Ok(times.clamp(0, u32::MAX.into()) as u32),
            (None, Argument::Variable(name)) => {
                let wrong = format!("invalid sleep time \"{text}\" for variable \"{name}\"");
                Err(self.in_script(step, &wrong))
            }
            // A sign alone, which pgbench takes for 0.
            (None, Argument::Text(_)) => Ok(0),
        }
    }

    fn shell(&mut self, variable: Option<&str>, words: &[Argument], step: &Step) -> Result<()> {
        let words: Vec<String> = words.iter().map(|word| self.word(word, step)).collect::<Result<_>>()?;
        let line = words.join(" ");
        let failed = |cause: String| self.in_script(step, &format!("could not run \"{line}\": {cause}"));
        let mut process = Process::new("sh");
        process.args(["-c", &line]);
        let Some(variable) = variable else {
            let status = process.status().map_err(|e| failed(e.to_string()))?;
            return if status.success() { Ok(()) } else { Err(failed(status.to_string())) };
        };
        let output = process.output().map_err(|e| failed(e.to_string()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let number: i64 = text
            .trim()
            .parse()
            .map_err(|_| failed(format!("the output is no integer: \"{}\"", text.trim())))?;
        self.variables.set(variable, Value::Int(number));
        Ok(())
    }

    /// After an error that others had a part in, the connection is made ready for the next script.
    fn recover(&mut self, error: &Error) -> Result<()> {
        if !error.is_retryable() {
            return Ok(());
        }
        if std::mem::take(&mut self.is_in_pipeline) {
            // The pipeline ends with the error that is known already.
            let _ = self.connection.pipeline_end();
        }
        match self.connection.execute("rollback") {
            Err(lost @ Error::Lost(_)) => Err(lost),
            // There may have been no transaction.
            _ => Ok(()),
        }
    }
}

/// Databases with types of values want numbers as numbers.
fn bound(dialect: Dialect, text: Option<&str>) -> Bound<'_> {
    match text {
        None => Bound::Null,
        Some(text) if dialect == Dialect::Postgres => Bound::Text(text),
        Some(text) => match (text.parse(), text.parse()) {
            (Ok(int), _) => Bound::Int(int),
            (_, Ok(float)) => Bound::Float(float),
            _ => Bound::Text(text),
        },
    }
}
