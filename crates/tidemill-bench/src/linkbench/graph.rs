//! The graph that properties describe: its ids, types and numbers of links.

use super::Result;
use super::access::{class_name, named_law};
use super::builtin_fit::Year;
use super::compat::Compat;
use super::data_file::Distributions;
use super::link_count::{Arithmetic, LinkCounts, Source, Split};
use super::plan::Plan;
use super::properties::Properties;
use std::path::Path;
use std::sync::Arc;

/// Everything about the data that is known before it is generated. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Graph {
    pub counts: Arc<LinkCounts>,
    pub data: Arc<Distributions>,
    pub split: Split,
    /// Above 0, second ids are uniform below it.
    pub random_id2_max: i64,
    /// How far from an id its first link leads; each other one leads one further.
    pub first_offset: i64,
    /// The numbers of links go down with the rank.
    pub is_ranked: bool,
    /// Where they come from, for people.
    pub source: String,
}

/// Link types are numbered on from the first, and an id needs a number of links for each.
const TYPES_MAX: i64 = 1_000;

impl Graph {
    /// Without a data file the built-in fit of that year stands in.
    pub fn new(properties: &Properties, year: Year, compat: Compat) -> Result<Self> {
        let start: i64 = properties.or("startid1", 1)?;
        let end: i64 = properties.required("maxid1")?;
        if start < 1 {
            return Err(properties.wrong("startid1", "ids start at 1 or above".to_owned()));
        }
        if end <= start {
            return Err(properties.wrong("maxid1", format!("{end} is not above startid1, {start}")));
        }
        let types = properties.or("link_type_count", 1)?;
        if !(1..=TYPES_MAX).contains(&types) {
            return Err(
                properties.wrong("link_type_count", format!("{types} is not between 1 and {TYPES_MAX}"))
            );
        }
        let data = Arc::new(match properties.text("data_file") {
            Some(path) => Distributions::read(Path::new(path))?,
            None => Distributions::builtin(year),
        });
        let split = if properties.or("never_change", false)? { Split::Published } else { Split::Even };
        let source = link_source(properties, start..end, &data)?;
        let is_ranked = matches!(source, Source::Real(_));
        let description = match &source {
            Source::Real(data) => data.origin.clone(),
            Source::Law { .. } | Source::Arithmetic { .. } => {
                format!("nlinks_func {}", properties.text("nlinks_func").unwrap_or_default())
            }
        };
        let random_id2_max = properties.or("randomid2max", 0)?;
        if random_id2_max < 0 {
            return Err(properties.wrong("randomid2max", format!("{random_id2_max} is below 0")));
        }
        let graph = Graph {
            counts: Arc::new(LinkCounts::new(start..end, types, source, split)),
            data,
            split,
            random_id2_max,
            first_offset: i64::from(!compat.self_loop),
            is_ranked,
            source: description,
        };
        graph.check_random_ids(properties)?;
        Ok(graph)
    }

    pub fn plan(&self) -> Plan {
        Plan::new(&self.counts, &self.source)
    }

    /// The second ids of one id and type are distinct: there must be enough of them.
    fn check_random_ids(&self, properties: &Properties) -> Result<()> {
        if self.random_id2_max <= 0 {
            return Ok(());
        }
        let census = self.counts.census();
        let most =
            census.last().map_or(0, |(links, _)| self.split.links_of_type(*links, self.counts.types(), 0));
        if most * 2 > self.random_id2_max {
            let message =
                format!("is too small for {most} distinct links of one id and type: at least twice as much");
            return Err(properties.wrong("randomid2max", message));
        }
        Ok(())
    }
}

/// What `nlinks_func` may be besides a law.
const RULES: &str = "REAL, CONST, RECIPROCAL, MULTIPLES, PERFECT_SQUARES, EXPONENTIAL";

fn link_source(
    properties: &Properties,
    ids: std::ops::Range<i64>,
    data: &Arc<Distributions>,
) -> Result<Source> {
    let function: String = properties.required("nlinks_func")?;
    let rule = match class_name(&function).as_str() {
        "real" | "realdistribution" => return Ok(Source::Real(Arc::clone(data))),
        "const" => Arithmetic::Constant,
        "reciprocal" => Arithmetic::Reciprocal,
        "multiples" => Arithmetic::Multiples,
        "perfect_squares" => Arithmetic::PerfectSquares,
        "exponential" => Arithmetic::Exponential,
        _ => {
            let scale = match properties.optional::<f64>("nlinks_mean")? {
                Some(mean) => mean * (ids.end - ids.start) as f64,
                None => 1.0,
            };
            let law = named_law("nlinks_func", "nlinks_", properties, ids, RULES)?;
            return Ok(Source::Law { law, scale });
        }
    };
    let parameter = properties.required("nlinks_config")?;
    let default: i64 = properties.required("nlinks_default")?;
    if default < 0 {
        return Err(properties.wrong("nlinks_default", "a number of links is not negative".to_owned()));
    }
    Ok(Source::Arithmetic { rule, parameter, default })
}
