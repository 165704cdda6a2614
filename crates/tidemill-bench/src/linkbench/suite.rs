//! LinkBench among the suites: prepared, run and validated like the others.

use super::load::{LoadPlan, Loaded, load};
use super::oracle::check_reads;
use super::origin;
use super::request::Requests;
use super::settings::{Settings, Sources};
use super::shard::Shards;
use super::validate::validate;
use crate::error::{Error, Result};
use crate::run::Workload;
use crate::suite::{Check, Context, Parameter, Suite};
use crate::target::Target;
use clap::ValueEnum;
use std::sync::Arc;

/// The suite. Clients, rate and time of a run are the runner's; everything else is set by parameters.
pub struct LinkBench {
    parameters: Vec<Parameter>,
}

impl Default for LinkBench {
    fn default() -> Self {
        let parameter = |name: &str, default: &str, help: &str| Parameter {
            name: name.to_owned(),
            default: default.to_owned(),
            help: help.to_owned(),
        };
        LinkBench {
            parameters: vec![
                parameter("preset", "fb2017", "fb2011, fb2017 or fb2017-never-change"),
                parameter("nodes", "100000", "nodes of the graph; the largest alone has four million links"),
                parameter("config", "", "properties file of the original benchmark"),
                parameter("data_file", "", "file of empirical distributions; a built-in fit stands in"),
                parameter("define", "", "properties, KEY=VALUE with commas between"),
                parameter("compat", "", "flaws of the original to reproduce: all, or a list with + between"),
                Parameter::data_seed(),
            ],
        }
    }
}

impl LinkBench {
    fn settings(&self, context: &Context) -> Result<Settings> {
        let text =
            |name: &str| context.text(name).map(|text| Some(text.trim()).filter(|text| !text.is_empty()));
        let preset = match text("preset")? {
            Some(name) => Some(super::preset::Preset::from_str(name, true).map_err(|_| {
                Error::usage(format!(
                    "\"{name}\" is not a preset; there are fb2011, fb2017 and fb2017-never-change"
                ))
            })?),
            None => None,
        };
        let sources = Sources {
            preset,
            nodes: Some(context.number("nodes")?),
            config: text("config")?.map(Into::into),
            data_file: text("data_file")?.map(Into::into),
            define: text("define")?.map_or(Vec::new(), |list| list.split(',').map(str::to_owned).collect()),
            compat: text("compat")?.map(|list| list.replace('+', ",")),
        };
        Ok(sources.settings()?)
    }

    fn with_shards(&self, context: &Context) -> Result<(Settings, Shards)> {
        let settings = self.settings(context)?;
        let shards = Shards::new(&settings.properties, context.target.dialect())?;
        Ok((settings, shards))
    }
}

pub(super) const NEEDS: &str = "keys, upserts and DELETE";

impl Suite for LinkBench {
    fn name(&self) -> &str {
        "linkbench"
    }

    fn summary(&self) -> &str {
        "a social graph: nodes, links and their counts (Facebook's LinkBench)"
    }

    fn needs(&self) -> Option<&'static str> {
        Some(NEEDS)
    }

    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    fn prepare(&self, context: &Context) -> Result<()> {
        let (settings, shards) = self.with_shards(context)?;
        drop_tables(&context.target, &shards)?;
        fill(&context.target, &settings, &shards, context.data_seed()?, &|line| eprintln!("{line}"))
            .map(|_| ())
    }

    fn workload(&self, context: &Context) -> Result<Arc<dyn Workload>> {
        let (settings, shards) = self.with_shards(context)?;
        Ok(Arc::new(Requests::new(&context.target, &settings, &shards)?))
    }

    fn validate(&self, context: &Context, _: bool) -> Result<Vec<Check>> {
        let (settings, shards) = self.with_shards(context)?;
        // Earlier runs have changed the graph: its totals are those of the plan right after the load only.
        let mut checks = validate(context.target.connect()?.as_mut(), &settings, &shards, false)?;
        checks.extend(check_reads(&context.target, &settings, &shards, None)?);
        Ok(checks)
    }
}

/// Removes the tables of an earlier load.
pub fn drop_tables(target: &Target, shards: &Shards) -> Result<()> {
    shards.schemas().iter().try_for_each(|schema| execute(target, &schema.drop_tables()))
}

/// Makes the tables, fills them, and builds their indexes, one shard after the other.
pub fn fill(
    target: &Target,
    settings: &Settings,
    shards: &Shards,
    seed: u64,
    report: &(dyn Fn(&str) + Sync),
) -> Result<Loaded> {
    let plan = LoadPlan::new(settings, target.dialect(), seed)?;
    let mut all = Loaded::default();
    for schema in shards.schemas() {
        execute(target, &schema.create_tables())?;
        all.add(&load(target, settings, schema, &plan, report)?);
        report("building indexes");
        execute(target, &schema.restart_nodes(settings.graph.counts.ids().end))?;
        execute(target, &schema.finish())?;
        execute(target, &origin::write(schema, settings))?;
    }
    Ok(all)
}

fn execute(target: &Target, statements: &[String]) -> Result<()> {
    let mut connection = target.connect()?;
    statements.iter().try_for_each(|statement| connection.execute(statement).map(|_| ()))
}
