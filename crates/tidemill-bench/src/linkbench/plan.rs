//! The exact totals of a graph, without a database.

use super::link_count::LinkCounts;
use serde::Serialize;

/// What a load will write.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    pub nodes: i64,
    pub links: i64,
    /// Rows of the count table: pairs of id and type with at least one link.
    pub counts: i64,
    pub links_per_node: f64,
    /// The ids with the most links, most first.
    pub largest: Vec<Largest>,
    /// Links of the top 1 % of the ids, as a share of all.
    pub top_percent_share: f64,
    /// Links an id, at the median, the 99th and the 99.9th percentile.
    pub links_p50: i64,
    pub links_p99: i64,
    pub links_p999: i64,
    /// Where the numbers of links come from: a file, the built-in fit, or a rule.
    pub source: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Largest {
    pub id: i64,
    pub links: i64,
}

/// How many of the largest ids a plan names.
const LARGEST: i64 = 5;

impl Plan {
    pub fn new(counts: &LinkCounts, source: &str) -> Self {
        let ids = counts.ids();
        let nodes = ids.end - ids.start;
        let census: Vec<Step> = counts.census().into_iter().map(|step| Step::new(counts, step)).collect();
        let links: i64 = census.iter().map(|step| step.links * step.ids).sum();
        let mut plan = Plan {
            nodes,
            links,
            counts: census.iter().map(|step| step.pairs * step.ids).sum(),
            links_per_node: links as f64 / nodes.max(1) as f64,
            largest: Vec::new(),
            top_percent_share: links_of_top(&census, nodes / 100) as f64 / links.max(1) as f64,
            links_p50: links_at(&census, nodes / 2),
            links_p99: links_at(&census, nodes / 100),
            links_p999: links_at(&census, nodes / 1000),
            source: source.to_owned(),
        };
        plan.largest = (0..LARGEST.min(nodes)).map(|rank| plan.largest(counts, rank)).collect();
        plan
    }

    fn largest(&self, counts: &LinkCounts, rank: i64) -> Largest {
        let id = counts.id_of_rank(rank);
        Largest { id, links: (0..counts.types()).map(|index| counts.links(id, index)).sum() }
    }
}

/// Ids that have the same number of links.
struct Step {
    ids: i64,
    links: i64,
    pairs: i64,
}

impl Step {
    fn new(counts: &LinkCounts, (links, ids): (i64, i64)) -> Self {
        let (links, pairs) = counts.after_split(links);
        Step { ids, links, pairs }
    }
}

/// The links of the id that has `rank` ids above it.
fn links_at(census: &[Step], rank: i64) -> i64 {
    let mut above = 0;
    for step in census.iter().rev() {
        above += step.ids;
        if above > rank {
            return step.links;
        }
    }
    0
}

fn links_of_top(census: &[Step], mut ids: i64) -> i64 {
    let mut links = 0;
    for step in census.iter().rev() {
        let taken = step.ids.min(ids);
        links += taken * step.links;
        ids -= taken;
    }
    links
}

impl std::fmt::Display for Plan {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(out, "nodes           {}", self.nodes)?;
        writeln!(out, "links           {} ({:.4} a node)", self.links, self.links_per_node)?;
        writeln!(out, "count rows      {}", self.counts)?;
        let quantiles = (self.links_p50, self.links_p99, self.links_p999);
        writeln!(out, "links an id     p50 {}, p99 {}, p99.9 {}", quantiles.0, quantiles.1, quantiles.2)?;
        let share = self.top_percent_share * 100.0;
        writeln!(out, "top 1 % of ids  {share:.1} % of the links")?;
        for Largest { id, links } in &self.largest {
            writeln!(out, "large id        {id}: {links} links")?;
        }
        write!(out, "source          {}", self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linkbench::builtin_fit::Year;
    use crate::linkbench::data_file::Distributions;
    use crate::linkbench::link_count::{Source, Split};
    use crate::linkbench::shared_data;
    use std::sync::Arc;

    fn plan(data: &Arc<Distributions>, nodes: i64, split: Split) -> Plan {
        let counts = LinkCounts::new(1..nodes + 1, 2, Source::Real(Arc::clone(data)), split);
        Plan::new(&counts, &data.origin)
    }

    #[test]
    fn totals_equal_the_original() {
        let (Some(old), Some(new)) = (shared_data("Distribution_2011.dat"), shared_data("Distribution.dat"))
        else {
            return;
        };
        let (old, new) = (Arc::new(old), Arc::new(new));
        let golden = [
            (&old, 100_000_000, Split::Published, 437_452_202),
            (&new, 10_000_000, Split::Published, 44_118_052),
            (&new, 10_000, Split::Even, 4_218_514),
            (&new, 10_000, Split::Published, 4_213_515),
            (&old, 10_000, Split::Published, 995_140),
            (&new, 100_000, Split::Even, 4_597_662),
            (&new, 100_000, Split::Published, 4_547_655),
            (&old, 100_000, Split::Published, 1_368_899),
        ];
        for (data, nodes, split, links) in golden {
            assert_eq!(plan(data, nodes, split).links, links, "{} {nodes} {split:?}", data.origin);
        }
        assert!((new.nlinks.mean() - 3.85264).abs() < 1e-4 && (old.nlinks.mean() - 4.09729).abs() < 1e-4);
    }

    #[test]
    fn large_ids_equal_the_original() {
        let Some(new) = shared_data("Distribution.dat") else { return };
        let new = Arc::new(new);
        let large = |nodes| plan(&new, nodes, Split::Even).largest;
        assert_eq!(large(100_000)[0], Largest { id: 14_337, links: 4_181_356 });
        assert_eq!(
            large(100_000)[1..].iter().map(|l| l.links).collect::<Vec<_>>(),
            [15_996, 10_058, 7_490, 6_050]
        );
        let million: Vec<_> = large(1_000_000).into_iter().map(|l| l.links).collect();
        assert_eq!(million, [4_181_356, 76_220, 50_092, 38_048, 31_066]);
        let first = [(10_000, 5_121), (1_000_000, 389_121), (10_000_000, 355_329)];
        for (nodes, id) in first {
            assert_eq!(large(nodes)[0].id, id, "{nodes}");
        }
        let plan = plan(&new, 100_000, Split::Even);
        assert_eq!((plan.links_p99, plan.links_p999), (22, 300));
        assert!((plan.top_percent_share - 0.952).abs() < 0.001, "{}", plan.top_percent_share);
    }

    #[test]
    fn the_builtin_fit_is_within_half_a_percent() {
        for (year, file) in [(Year::Y2011, "Distribution_2011.dat"), (Year::Y2017, "Distribution.dat")] {
            let Some(data) = shared_data(file) else { return };
            let (data, fit) = (Arc::new(data), Arc::new(Distributions::builtin(year)));
            for split in [Split::Published, Split::Even] {
                for nodes in
                    [10_000, 54_321, 100_000, 1_000_000, 3_210_987, 10_000_000, 100_000_000, 1_000_000_000]
                {
                    let (exact, near) = (plan(&data, nodes, split).links, plan(&fit, nodes, split).links);
                    let error = near as f64 / exact as f64 - 1.0;
                    assert!(error.abs() < 0.005, "{year:?} {split:?} {nodes}: {exact} {near} {error}");
                }
            }
        }
    }

    #[test]
    fn generated_numbers_follow_the_file() {
        let Some(data) = shared_data("Distribution.dat") else { return };
        for size in [1_000_001, 6_420_188, 10_000_000] {
            let (mut ids, mut square, mut steps) = (0, 0.0, 0);
            for (value, count) in data.nlinks.census(size) {
                ids += count;
                let share =
                    data.nlinks.points().iter().find(|point| point.value == value).unwrap().cumulative;
                square += (ids as f64 / size as f64 - share).powi(2);
                steps += 1;
            }
            assert!(square / f64::from(steps) < 1e-4, "{size}");
        }
    }
}
