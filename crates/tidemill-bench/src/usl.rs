//! Gunther's universal scalability law: how throughput grows with clients, and what holds it back.
//!
//! `X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1))`: sigma is what only one can do at a time, kappa what each has
//! to agree about with each other. Divided through, `N / X` is linear in `N - 1` and `N (N - 1)`.

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usl {
    /// Of one client, a second.
    pub lambda: f64,
    pub sigma: f64,
    pub kappa: f64,
}

/// Three figures from fewer points would fit anything.
const POINTS_LEAST: usize = 4;

impl Usl {
    /// By least squares of the relative errors; neither sigma nor kappa is negative.
    pub fn fit(points: &[(f64, f64)]) -> Option<Usl> {
        let points: Vec<(f64, f64)> = points.iter().copied().filter(|(n, x)| *n >= 1.0 && *x > 0.0).collect();
        if points.len() < POINTS_LEAST {
            return None;
        }
        // The terms that are there: all of them, then without the one that came out negative.
        let fits = [[true, true], [true, false], [false, true], [false, false]];
        fits.into_iter().find_map(|terms| {
            let [a, b, c] = solve(&points, terms)?;
            (a > 0.0 && b >= 0.0 && c >= 0.0).then(|| Usl { lambda: 1.0 / a, sigma: b / a, kappa: c / a })
        })
    }

    pub fn rate(&self, clients: f64) -> f64 {
        self.lambda * clients / (1.0 + self.sigma * (clients - 1.0) + self.kappa * clients * (clients - 1.0))
    }

    /// Beyond it, more clients get less done; none when that never comes.
    pub fn best_clients(&self) -> Option<f64> {
        (self.kappa > 0.0).then(|| ((1.0 - self.sigma).max(0.0) / self.kappa).sqrt().max(1.0))
    }
}

/// Weighted normal equations, eliminated; a term that is not there has coefficient 0.
fn solve(points: &[(f64, f64)], terms: [bool; 2]) -> Option<[f64; 3]> {
    let mut matrix = [[0.0; 4]; 3];
    for (n, x) in points {
        let y = n / x;
        let row = [1.0, if terms[0] { n - 1.0 } else { 0.0 }, if terms[1] { n * (n - 1.0) } else { 0.0 }, y];
        for i in 0..3 {
            for j in 0..4 {
                matrix[i][j] += row[i] * row[j] / (y * y);
            }
        }
    }
    for (i, is_there) in [(1, terms[0]), (2, terms[1])] {
        if !is_there {
            matrix[i] = [0.0; 4];
            matrix[i][i] = 1.0;
        }
    }
    for i in 0..3 {
        let pivot = (i..3).max_by(|a, b| matrix[*a][i].abs().total_cmp(&matrix[*b][i].abs()))?;
        matrix.swap(i, pivot);
        if matrix[i][i].abs() < 1e-12 {
            return None;
        }
        for k in (0..3).filter(|k| *k != i) {
            let factor = matrix[k][i] / matrix[i][i];
            let eliminated = matrix[i];
            matrix[k].iter_mut().zip(eliminated).for_each(|(value, other)| *value -= factor * other);
        }
    }
    Some([0, 1, 2].map(|i| matrix[i][3] / matrix[i][i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_made_the_points_is_found() {
        for (sigma, kappa) in [(0.05, 0.001), (0.2, 0.0), (0.0, 0.01), (0.0, 0.0)] {
            let truth = Usl { lambda: 1000.0, sigma, kappa };
            let points: Vec<_> = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0].map(|n| (n, truth.rate(n))).into();
            let found = Usl::fit(&points).unwrap();
            assert!((found.lambda - 1000.0).abs() < 1.0, "{found:?}");
            assert!((found.sigma - sigma).abs() < 1e-3 && (found.kappa - kappa).abs() < 1e-4, "{found:?}");
        }
        assert_eq!(Usl::fit(&[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]), None);
        assert_eq!(Usl { lambda: 1.0, sigma: 0.0, kappa: 0.01 }.best_clients(), Some(10.0));
    }
}
