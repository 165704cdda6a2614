//! The noise floor: how far two runs of the same are apart on this machine, as an A/A run tells.

use crate::result::ResultFile;
use crate::stats::{Estimate, Figure, Seconds};

/// For each figure, the change that two runs of the same may show, as a share: the far end of the interval of what they
/// did show. None without an A/A run, or where it was too short to tell.
pub fn floors(result: &ResultFile, figures: &[Figure]) -> Vec<Option<f64>> {
    let far_end = |ratio: Estimate| {
        let (low, high) = ratio.interval?;
        let floor = (low - 1.0).abs().max((high - 1.0).abs());
        floor.is_finite().then_some(floor)
    };
    match ratios(result, figures) {
        Some(ratios) => ratios.into_iter().map(far_end).collect(),
        None => vec![None; figures.len()],
    }
}

/// The figures in which the two differ beyond chance, and by how much, as a share: the machine was not quiet.
pub fn differences(result: &ResultFile, figures: &[Figure]) -> Vec<(Figure, f64)> {
    let ratios = ratios(result, figures).unwrap_or_default();
    let told = figures.iter().copied().zip(ratios).filter_map(|(figure, ratio)| {
        let (low, high) = ratio.interval?;
        (!(low..=high).contains(&1.0)).then_some((figure, ratio.value - 1.0))
    });
    told.collect()
}

fn ratios(result: &ResultFile, figures: &[Figure]) -> Option<Vec<Estimate>> {
    let has_both = !result.repeats.is_empty() && !result.again.is_empty();
    has_both.then(|| Seconds::of(&result.again).ratios(&Seconds::of(&result.repeats), figures))
}
