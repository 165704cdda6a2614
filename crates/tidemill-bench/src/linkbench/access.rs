//! Which id an operation touches.

use super::Result;
use super::compat::Compat;
use super::data_file::Distributions;
use super::distribution::{Distribution, Empirical, Geometric, LogNormal, RankWeights, Uniform, Zipf};
use super::permutation::{LINKS, LINKS_UNCORRELATED, NODES, Permutation, Shuffle};
use super::properties::Properties;
use super::random::Random;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// How ids are chosen for one use. Shared by all requesters.
#[derive(Debug, Clone)]
pub struct Access {
    ids: Range<i64>,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    /// A rank by law, spread over the ids.
    Law {
        law: Arc<dyn Distribution>,
        permutation: Arc<Permutation>,
    },
    /// The original's way with the published curve: every point has its own counter that walks over the ids.
    Cycles {
        weights: Arc<[f64]>,
        counters: Arc<[AtomicI64]>,
    },
    /// One after the other, from the id before.
    RoundRobin,
    Reciprocal {
        clamp: bool,
    },
    Multiple {
        step: i64,
        /// Up to a multiple is what is meant.
        rounds_up: bool,
    },
    Power {
        base: f64,
    },
    PerfectPower {
        exponent: f64,
    },
}

/// A use, with its prefix in the properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    LinkReads,
    LinkReadsUncorrelated,
    LinkWrites,
    LinkWritesUncorrelated,
    NodeReads,
    NodeUpdates,
    NodeDeletes,
}

impl Use {
    fn prefix(self) -> &'static str {
        match self {
            Use::LinkReads => "read_",
            Use::LinkReadsUncorrelated => "read_uncorr_",
            Use::LinkWrites => "write_",
            Use::LinkWritesUncorrelated => "write_uncorr_",
            Use::NodeReads => "node_read_",
            Use::NodeUpdates => "node_update_",
            Use::NodeDeletes => "node_delete_",
        }
    }

    fn shuffle(self) -> Shuffle {
        match self {
            Use::LinkReads | Use::LinkWrites => LINKS,
            Use::LinkReadsUncorrelated | Use::LinkWritesUncorrelated => LINKS_UNCORRELATED,
            Use::NodeReads | Use::NodeUpdates | Use::NodeDeletes => NODES,
        }
    }

    fn section(self, data: &Distributions) -> &Empirical {
        match self {
            Use::LinkReads | Use::LinkReadsUncorrelated => &data.link_reads,
            Use::LinkWrites | Use::LinkWritesUncorrelated => &data.link_writes,
            Use::NodeReads => &data.node_reads,
            Use::NodeUpdates | Use::NodeDeletes => &data.node_writes,
        }
    }
}

impl Access {
    pub fn new(
        properties: &Properties,
        of: Use,
        ids: Range<i64>,
        data: &Distributions,
        compat: Compat,
    ) -> Result<Self> {
        let function_key = format!("{}function", of.prefix());
        let config_key = format!("{}config", of.prefix());
        let function: String = properties.required(&function_key)?;
        let law = |law: Arc<dyn Distribution>| Kind::Law {
            law,
            permutation: Arc::new(Permutation::new(of.shuffle(), ids.end - ids.start)),
        };
        let kind = match class_name(&function).as_str() {
            "real" | "realdistribution" if compat.access => Kind::cycles(of.section(data), ids.start),
            "real" | "realdistribution" => law(Arc::new(RankWeights::new(ids.clone(), of.section(data)))),
            "round_robin" => Kind::RoundRobin,
            "reciprocal" => Kind::Reciprocal { clamp: !compat.access },
            "multiple" => {
                let step = properties.required::<i64>(&config_key)?.max(1);
                Kind::Multiple { step, rounds_up: !compat.access }
            }
            "power" => Kind::Power { base: properties.required::<f64>(&config_key)?.max(1.0 + 1e-9) },
            "perfect_power" => {
                Kind::PerfectPower { exponent: properties.required::<f64>(&config_key)?.max(1.0) }
            }
            _ => law(named_law(&function_key, of.prefix(), properties, ids.clone(), MODES)?),
        };
        Ok(Access { ids, kind })
    }

    /// The next id; `before` is the id that this use had before.
    pub fn choose(&self, random: &mut Random, before: i64) -> i64 {
        let Range { start, end } = self.ids;
        let last = (end - 1).max(start);
        let uniform = |random: &mut Random| start + random.below(end - start);
        match &self.kind {
            Kind::Law { law, permutation } => start + permutation.permute(law.choose(random) - start),
            Kind::Cycles { weights, counters } => {
                let target = random.unit() * weights.last().copied().unwrap_or(0.0);
                let index = weights.partition_point(|&weight| weight < target).min(counters.len() - 1);
                start + counters[index].fetch_add(1, Ordering::Relaxed).rem_euclid((end - start).max(1))
            }
            Kind::RoundRobin if before < start || before >= last => start,
            Kind::RoundRobin => before + 1,
            Kind::Reciprocal { clamp } => {
                let draw = ((end - start) as f64 / uniform(random).max(1) as f64).ceil() as i64;
                draw.clamp(start, if *clamp { last } else { end })
            }
            Kind::Multiple { step, rounds_up } => {
                let drawn = uniform(random) + if *rounds_up { step - 1 } else { 0 };
                (step * (drawn / step)).clamp(start, last)
            }
            Kind::Power { base } => {
                let exponent = ((uniform(random).max(1) as f64).ln() / base.ln()).ceil();
                (base.powf(exponent) as i64).clamp(start, last)
            }
            Kind::PerfectPower { exponent } => {
                let root = (uniform(random) as f64).powf(1.0 / exponent).ceil();
                (root.powf(*exponent) as i64).clamp(start, last)
            }
        }
    }
}

impl Kind {
    fn cycles(curve: &Empirical, start: i64) -> Kind {
        let mut sum = 0.0;
        let weights = curve.points().iter().map(|point| {
            sum += 1.0 - point.cumulative;
            sum
        });
        let weights: Arc<[f64]> = weights.collect();
        let counters = weights.iter().map(|_| AtomicI64::new(start)).collect();
        Kind::Cycles { weights, counters }
    }
}

/// What a function may be besides a law.
const MODES: &str = "REAL, ROUND_ROBIN, RECIPROCAL, MULTIPLE, POWER, PERFECT_POWER";

/// The law that a property names: a short name, or the original's class. `others` is what the property may name as well.
pub fn named_law(
    key: &str,
    prefix: &str,
    properties: &Properties,
    range: Range<i64>,
    others: &str,
) -> Result<Arc<dyn Distribution>> {
    let name: String = properties.required(key)?;
    let number = |suffix: &str| properties.required::<f64>(&format!("{prefix}{suffix}"));
    Ok(match class_name(&name).trim_end_matches("distribution") {
        "zipf" => {
            let shape = number("shape")?;
            // The draw divides by 1 - shape.
            if !(shape > 0.0 && shape != 1.0) {
                return Err(
                    properties.wrong(&format!("{prefix}shape"), "must be above 0 and not 1".to_owned())
                );
            }
            Arc::new(Zipf::new(range, shape))
        }
        "uniform" => Arc::new(Uniform::new(range)),
        "geometric" => {
            let prob = number("prob")?;
            check_probability(properties, &format!("{prefix}prob"), prob)?;
            Arc::new(Geometric::new(range, prob))
        }
        "lognormal" => Arc::new(LogNormal::new(range, number("median")?, number("sigma")?)),
        _ => {
            let known = format!("Zipf, Uniform, Geometric, LogNormal, {others}");
            let message = format!("\"{name}\" is not a known function; there are {known}");
            return Err(properties.wrong(key, message));
        }
    })
}

pub fn check_probability(properties: &Properties, key: &str, probability: f64) -> Result<()> {
    if probability > 0.0 && probability < 1.0 {
        return Ok(());
    }
    Err(properties.wrong(key, format!("{probability} is not between 0 and 1")))
}

/// The last part of a Java class name, in lower case: the original names its classes in full.
pub fn class_name(class: &str) -> String {
    class.rsplit('.').next().unwrap_or(class).trim().to_ascii_lowercase()
}

/// Link ids: mostly by a law that ignores out-degrees, else by one that goes with them.
#[derive(Debug, Clone)]
pub struct LinkAccess {
    correlated: Access,
    uncorrelated: Option<(f64, Access)>,
}

impl LinkAccess {
    pub fn reads(
        properties: &Properties,
        ids: &Range<i64>,
        data: &Distributions,
        compat: Compat,
    ) -> Result<Self> {
        Self::new(properties, (Use::LinkReads, Use::LinkReadsUncorrelated), ids, data, compat)
    }

    pub fn writes(
        properties: &Properties,
        ids: &Range<i64>,
        data: &Distributions,
        compat: Compat,
    ) -> Result<Self> {
        if compat.write_uncorr {
            return Self::new(properties, (Use::LinkWrites, Use::LinkReadsUncorrelated), ids, data, compat);
        }
        let mut properties = properties.clone();
        if !properties.contains("write_uncorr_function") {
            // The original's file leaves it out, because nothing reads it there.
            let function: String = properties.required("write_function")?;
            properties.set("write_uncorr_function", &function, "write_function");
        }
        Self::new(&properties, (Use::LinkWrites, Use::LinkWritesUncorrelated), ids, data, compat)
    }

    fn new(
        properties: &Properties,
        (correlated, uncorrelated): (Use, Use),
        ids: &Range<i64>,
        data: &Distributions,
        compat: Compat,
    ) -> Result<Self> {
        let access = |of| Access::new(properties, of, ids.clone(), data, compat);
        let blend_key = format!("{}blend", uncorrelated.prefix());
        let blend = properties.or(&blend_key, 0.0)? / 100.0;
        if !(0.0..=1.0).contains(&blend) {
            return Err(properties.wrong(&blend_key, "is not a percentage".to_owned()));
        }
        let uncorrelated = if blend > 0.0 { Some((blend, access(uncorrelated)?)) } else { None };
        Ok(LinkAccess { correlated: access(correlated)?, uncorrelated })
    }

    pub fn choose(&self, random: &mut Random, before: i64) -> i64 {
        match &self.uncorrelated {
            Some((blend, access)) if random.chance(*blend) => access.choose(random, before),
            _ => self.correlated.choose(random, before),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linkbench::builtin_fit::Year;

    fn access(function: &str, config: &str, ids: Range<i64>, compat: Compat) -> Access {
        let mut properties = Properties::default();
        for definition in [format!("read_function={function}"), format!("read_config={config}")] {
            properties.define(&definition).unwrap();
        }
        properties.define("read_shape=0.8").unwrap();
        let data = Distributions::builtin(Year::Y2017);
        Access::new(&properties, Use::LinkReads, ids, &data, compat).unwrap()
    }

    #[test]
    fn every_mode_stays_in_range() {
        for function in ["ROUND_ROBIN", "RECIPROCAL", "MULTIPLE", "POWER", "PERFECT_POWER", "REAL", "Zipf"] {
            for ids in [123..12_345, 100..200] {
                let access = access(function, "3", ids.clone(), Compat::none());
                let (mut random, mut id) = (Random::new(1), 0);
                for _ in 0..10_000 {
                    id = access.choose(&mut random, id);
                    assert!(ids.contains(&id), "{function} {id}");
                }
            }
        }
    }

    #[test]
    fn round_robin_wraps() {
        let access = access("ROUND_ROBIN", "0", 5..8, Compat::none());
        let mut id = 0;
        let ids: Vec<i64> = (0..5)
            .map(|_| {
                id = access.choose(&mut Random::new(1), id);
                id
            })
            .collect();
        assert_eq!(ids, [5, 6, 7, 5, 6]);
    }

    #[test]
    fn reciprocal_leaves_its_range_as_the_original() {
        let compat = access("RECIPROCAL", "0", 1..11, Compat::all());
        let mut random = Random::new(2);
        let most = (0..1_000).map(|_| compat.choose(&mut random, 0)).max().unwrap();
        assert_eq!(most, 10);
        let wide = access("RECIPROCAL", "0", 0..10, Compat::all());
        assert_eq!((0..1_000).map(|_| wide.choose(&mut random, 0)).max(), Some(10));
    }

    #[test]
    fn multiples_are_rounded_up_unless_as_the_original() {
        for (compat, ids) in [(Compat::none(), 105..106), (Compat::all(), 100..101)] {
            let multiple = access("MULTIPLE", "5", 100..106, compat);
            let mut random = Random::new(1);
            let drawn: std::collections::BTreeSet<i64> =
                (0..1_000).map(|_| multiple.choose(&mut random, 0)).collect();
            assert_eq!(drawn, [100, 105].into(), "{compat:?}");
            let hits = (0..6_000).filter(|_| ids.contains(&multiple.choose(&mut random, 0))).count();
            // Five of six draws.
            assert!((4_700..5_300).contains(&hits), "{compat:?} {hits}");
        }
    }

    #[test]
    fn zipf_is_permuted() {
        let access =
            access("com.facebook.LinkBench.distributions.ZipfDistribution", "0", 1..100_001, Compat::none());
        let mut random = Random::new(3);
        let mut hits = 0;
        for _ in 0..100_000 {
            hits += i32::from(access.choose(&mut random, 0) == 14_337);
        }
        // Rank 0 is drawn with probability 0.02194, and lies where the permutation puts it.
        assert!((2_000..2_400).contains(&hits), "{hits}");
    }

    #[test]
    fn writes_take_the_blend_of_reads_as_the_original() {
        let mut properties = Properties::default();
        for definition in [
            "write_function=Zipf",
            "write_shape=0.8",
            "write_uncorr_blend=100",
            "write_uncorr_function=Uniform",
            "read_uncorr_blend=0",
        ] {
            properties.define(definition).unwrap();
        }
        let data = Distributions::builtin(Year::Y2017);
        let hottest = |compat| {
            let writes = LinkAccess::writes(&properties, &(1..100_001), &data, compat).unwrap();
            let mut random = Random::new(9);
            (0..10_000).filter(|_| writes.choose(&mut random, 0) == 14_337).count()
        };
        assert!(hottest(Compat::none()) < 5);
        assert!(hottest(Compat::all()) > 150);
    }

    #[test]
    fn unknown_functions_are_named() {
        let mut properties = Properties::default();
        properties.define("read_function=Zipff").unwrap();
        let data = Distributions::builtin(Year::Y2011);
        let error = Access::new(&properties, Use::LinkReads, 1..10, &data, Compat::none()).unwrap_err();
        assert!(error.to_string().contains("\"Zipff\" is not a known function; there are Zipf, Uniform"));
    }
}
