//! Whether a run was steady.

use super::{Figure, INTERVALS_LEAST, Second, Seconds};

/// A third of a run has so many intervals then that their spread is known.
pub const STEADY_SECONDS_LEAST: usize = 3 * INTERVALS_LEAST;
/// A smaller change of the mean response within a run is not worth a warning.
const DRIFT_LEAST: f64 = 0.1;

impl Seconds {
    /// Whether it is long enough for [`Seconds::drift`].
    pub fn can_drift(&self) -> bool {
        self.seconds.len() >= STEADY_SECONDS_LEAST
    }

    /// How the last third's mean response differs from the first third's, as a share, if that is more than chance.
    pub fn drift(&self) -> Option<f64> {
        let n = self.seconds.len();
        let third = n / 3;
        if !self.can_drift() {
            return None;
        }
        let part = |seconds: &[Second]| Seconds { whole: None, seconds: seconds.to_vec(), ..*self };
        let ratio =
            part(&self.seconds[n - third..]).ratios(&part(&self.seconds[..third]), &[Figure::Mean])[0];
        let (low, high) = ratio.interval?;
        let is_chance = (low..=high).contains(&1.0) || (ratio.value - 1.0).abs() < DRIFT_LEAST;
        (!is_chance).then_some(ratio.value - 1.0)
    }
}
