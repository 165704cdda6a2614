//! The original's own checks of its distributions, with its tolerances.

use super::*;

/// Small, with steps of equal values: stands in for a file.
fn points() -> Empirical {
    let curve = [(0, 0.2), (1, 0.5), (2, 0.7), (5, 0.9), (20, 0.99), (100, 1.0)];
    let points = curve.map(|(value, cumulative)| Point { value, cumulative });
    Empirical::new(points.to_vec()).unwrap()
}

fn all(range: Range<i64>) -> Vec<Box<dyn Distribution>> {
    vec![
        Box::new(Zipf::new(range.clone(), 0.9)),
        Box::new(Geometric::new(range.clone(), 0.2)),
        Box::new(Uniform::new(range.clone())),
        Box::new(LogNormal::new(range.clone(), 5000.0, 1.0)),
        Box::new(RankWeights::new(range, &points())),
    ]
}

fn name(distribution: &dyn Distribution) -> String {
    format!("{distribution:?}").chars().take(12).collect()
}

#[test]
fn cdf_is_monotone_from_zero_to_one() {
    let range = 453..26_546_454;
    for distribution in all(range.clone()) {
        let name = name(&*distribution);
        assert_eq!(distribution.cdf(range.start - 1), 0.0, "{name}");
        assert_eq!(distribution.cdf(range.end), 1.0, "{name}");
        assert_eq!((distribution.pdf(range.start - 1), distribution.pdf(range.end)), (0.0, 0.0), "{name}");
        let step = (range.end - range.start) / 50_000;
        let (mut before, mut sum) = (0.0, 0.0);
        for id in range.clone().step_by(step as usize) {
            let (cdf, pdf) = (distribution.cdf(id), distribution.pdf(id));
            assert!(cdf >= before && (0.0..=1.0).contains(&cdf), "{name}: cdf({id}) = {cdf} after {before}");
            assert!((0.0..=1.0).contains(&pdf), "{name}: pdf({id}) = {pdf}");
            before = cdf;
            sum += pdf;
        }
        assert!(sum <= 1.0, "{name}: {sum}");
    }
}

#[test]
fn probabilities_add_up_to_one() {
    let small: Vec<Box<dyn Distribution>> = vec![
        Box::new(Zipf::new(1..50, 0.9)),
        Box::new(Geometric::new(1..50, 0.2)),
        Box::new(Uniform::new(1..50)),
        Box::new(LogNormal::new(1..50, 10.0, 0.5)),
        Box::new(RankWeights::new(1..50, &points())),
    ];
    for distribution in small {
        let sum: f64 = (1..50).map(|id| distribution.pdf(id)).sum();
        assert!((0.95..=1.05).contains(&sum), "{}: {sum}", name(&*distribution));
    }
}

#[test]
fn draws_follow_the_cdf() {
    const DRAWS: usize = 1_000_000;
    const ZIPF_TOLERANCE: f64 = 0.01;
    let range = 100..100_000;
    let tolerances = [ZIPF_TOLERANCE, 0.002, 0.002, 0.05, 0.002];
    for (distribution, tolerance) in all(range.clone()).into_iter().zip(tolerances) {
        let mut random = Random::new(20);
        let mut counts = vec![0u32; range.end as usize];
        for _ in 0..DRAWS {
            let id = distribution.choose(&mut random);
            assert!(range.contains(&id), "{}: {id}", name(&*distribution));
            counts[id as usize] += 1;
        }
        let mut drawn = 0u32;
        for id in range.clone() {
            drawn += counts[id as usize];
            let offset = id - range.start;
            // Exact harmonic numbers cost their length: Zipf's law is compared where the original compares it, the
            // others in 50 000 buckets.
            let checked = match tolerance == ZIPF_TOLERANCE {
                true => offset < 40 || offset % 1_000 == 0,
                false => offset % 2 == 0,
            };
            if checked {
                let (seen, law) = (f64::from(drawn) / DRAWS as f64, distribution.cdf(id));
                let name = name(&*distribution);
                assert!((seen - law).abs() <= tolerance, "{name}: cdf({id}) drawn {seen}, law {law}");
            }
        }
    }
}

#[test]
fn pdf_is_the_step_of_the_cdf() {
    for distribution in all(252_352..6_544_543) {
        for id in (252_353..6_544_542).step_by(31_337) {
            let step = distribution.cdf(id) - distribution.cdf(id - 1);
            let name = name(&*distribution);
            assert!((step - distribution.pdf(id)).abs() <= 1e-4, "{name}: {step} at {id}");
        }
    }
}

#[test]
fn quantiles_are_monotone_and_start_at_the_first_id() {
    for distribution in all(0..1_000) {
        let quantiles: Vec<i64> =
            (0..=8).map(|eighth| distribution.quantile(f64::from(eighth) / 8.0)).collect();
        assert_eq!(quantiles[0], 0, "{}", name(&*distribution));
        assert!(quantiles.is_sorted(), "{}: {quantiles:?}", name(&*distribution));
        assert!(quantiles.iter().all(|id| (0..1_000).contains(id)), "{quantiles:?}");
    }
}

#[test]
fn harmonic_numbers() {
    assert_eq!(harmonic(1, 0.8), 1.0);
    for (n, shape, expected, tolerance) in [
        (10, 1.5, 1.99534, 1e-5),
        (1000, 0.5, 61.8010, 1e-3),
        (1_000_000, 0.7, 207.541, 2e-3),
        (12_345_678, 0.1, 2_679_914.0, 1.0),
    ] {
        assert!((harmonic(n, shape) - expected).abs() <= tolerance, "H({n}, {shape})");
    }
    // As draws have it: exact where the constant of the approximation is too coarse.
    for exponent in (0..=28).step_by(4) {
        for shape in [0.01, 0.1, 0.5, 0.9, 0.99] {
            let (exact, near) = (by_euler(1 << exponent, shape), harmonic_for_draws(1 << exponent, shape));
            assert!((near / exact - 1.0).abs() < 5e-4, "H(2^{exponent}, {shape}): {exact} {near}");
        }
    }
    let (exact, by_euler) = (harmonic(1 << 20, 0.9), by_euler(1 << 20, 0.9));
    assert!((by_euler / exact - 1.0).abs() < 1e-12, "{exact} {by_euler}");
}

/// The harmonic number as exactly as floats have it, by the formula of Euler and Maclaurin behind the first terms: a sum
/// of 2^28 terms would take seconds.
fn by_euler(n: i64, shape: f64) -> f64 {
    const SUMMED: i64 = 1 << 12;
    if n <= SUMMED {
        return harmonic(n, shape);
    }
    let (m, n) = (SUMMED as f64, n as f64);
    let integral = (n.powf(1.0 - shape) - m.powf(1.0 - shape)) / (1.0 - shape);
    let ends = (n.powf(-shape) - m.powf(-shape)) / 2.0;
    let slopes = shape / 12.0 * (m.powf(-shape - 1.0) - n.powf(-shape - 1.0));
    harmonic(SUMMED, shape) + integral + ends + slopes
}

#[test]
fn zipf_equals_the_original() {
    // Size, shape, zeta, P(rank 0), then the quantiles .1 .25 .5 .75 .9 .99 of ids from 1.
    let golden = [
        (100_000, 0.8, 45.5800000, 0.02194, [17, 298, 4661, 27209, 61830, 95500]),
        (100_000, 0.741, 72.8743141, 0.01372, [45, 731, 7996, 34642, 67717, 96343]),
        (100_000, 0.625, 197.885122, 0.00505, [266, 2664, 16132, 46808, 75709, 97380]),
        (100_000, 0.606, 234.908503, 0.00426, [339, 3127, 17529, 48473, 76689, 97500]),
        (1_000_000, 0.8, 74.8246596, 0.01336, [70, 2031, 40370, 258827, 607930, 953517]),
        (1_000_000, 0.741, 134.980169, 0.00741, [276, 6052, 74807, 338666, 672038, 962759]),
        (1_000_000, 0.625, 472.121176, 0.00212, [2358, 25568, 159098, 465910, 755912, 973656]),
        (1_000_000, 0.606, 584.860404, 0.00171, [3090, 30293, 173425, 483000, 765975, 974886]),
        (10_000_000, 0.8, 121.174322, 0.00825, [370, 15693, 367881, 2507167, 6014516, 9525843]),
        (10_000_000, 0.625, 1122.43734, 0.00089, [22387, 251238, 1581668, 4649980, 7554176, 9735973]),
    ];
    for (size, shape, zeta, first, quantiles) in golden {
        let zipf = Zipf::new(1..size + 1, shape);
        assert!((zipf.zeta() / zeta - 1.0).abs() < 1e-8, "{size} {shape}: {}", zipf.zeta());
        assert!((zipf.pdf(1) - first).abs() < 1e-5, "{size} {shape}: {}", zipf.pdf(1));
        let ours = [0.1, 0.25, 0.5, 0.75, 0.9, 0.99].map(|p| zipf.quantile(p));
        assert_eq!(ours, quantiles, "{size} {shape}");
    }
}

#[test]
fn zipf_concentrates_as_the_original() {
    // Of the top 0.1 %, 1 % and 10 % of the ids.
    let golden = [
        (100_000, 0.8, [0.183, 0.344, 0.598]),
        (100_000, 0.741, [0.133, 0.275, 0.533]),
        (100_000, 0.625, [0.067, 0.170, 0.417]),
        (100_000, 0.606, [0.059, 0.157, 0.400]),
        (1_000_000, 0.8, [0.210, 0.365, 0.611]),
        (1_000_000, 0.741, [0.149, 0.288, 0.541]),
        (1_000_000, 0.625, [0.071, 0.175, 0.420]),
        (1_000_000, 0.606, [0.063, 0.161, 0.402]),
        (10_000_000, 0.8, [0.226, 0.378, 0.619]),
        (10_000_000, 0.625, [0.074, 0.177, 0.421]),
    ];
    for (size, shape, shares) in golden {
        let zipf = Zipf::new(0..size, shape);
        let mut random = Random::new(3);
        let mut hits = [0.0; 3];
        for _ in 0..200_000 {
            let rank = zipf.choose(&mut random);
            for (hit, top) in hits.iter_mut().zip([size / 1_000, size / 100, size / 10]) {
                *hit += f64::from(u8::from(rank < top)) / 200_000.0;
            }
        }
        for (hit, share) in hits.into_iter().zip(shares) {
            assert!((hit - share).abs() < 0.005, "{size} {shape}: {hits:?}");
        }
    }
}

#[test]
fn geometric_law_and_draws() {
    let law = Geometric::new(1..1 << 40, 0.3);
    let ids = [1, 2, 3, 7, 10, 15];
    for (id, cdf) in ids.into_iter().zip([0.3, 0.51, 0.657, 0.917646, 0.971752, 0.995252]) {
        assert!((law.cdf(id) - cdf).abs() < 1e-3, "cdf({id})");
    }
    for (id, pdf) in ids.into_iter().zip([0.3, 0.21, 0.147, 0.035, 0.012106, 0.002035]) {
        assert!((law.pdf(id) - pdf).abs() < 1e-3, "pdf({id})");
    }
    let mean = |distribution: &Geometric| {
        let mut random = Random::new(11);
        (0..400_000).map(|_| distribution.choose(&mut random)).sum::<i64>() as f64 / 400_000.0
    };
    assert!((mean(&Geometric::off_by_one(1..128, 0.382)) - 3.6175).abs() < 0.02);
    assert!((mean(&Geometric::new(1..128, 0.382)) - 2.6178).abs() < 0.02);
}

#[test]
fn lognormal_law_and_draws() {
    let law = LogNormal::new(0..1 << 30, 100.0, 1.0);
    for (id, cdf) in [(16, 0.033434), (64, 0.327695), (128, 0.597491), (512, 0.94878), (100, 0.5)] {
        assert!((law.cdf(id) - cdf).abs() < 1e-4, "cdf({id}) = {}", law.cdf(id));
    }
    let golden = [
        // The last is 99.9 %: of links 0.823 % are at the cap.
        (LogNormal::new(0..255, 23.0, 1.0), 36.90, [6, 12, 23, 45, 83, 119, 235, 254], 0.00823),
        (LogNormal::new(0..1_048_576, 168.0, 1.0), 277.0, [47, 86, 168, 330, 605, 871, 1714, 3683], 0.0),
    ];
    for (sizes, mean, quantiles, capped) in golden {
        let mut random = Random::new(5);
        let mut drawn: Vec<i64> = (0..400_000).map(|_| sizes.choose(&mut random)).collect();
        drawn.sort_unstable();
        let ours = drawn.iter().sum::<i64>() as f64 / drawn.len() as f64;
        assert!((ours / mean - 1.0).abs() < 0.01, "mean {ours}, {mean}");
        for (permille, expected) in [100, 250, 500, 750, 900, 950, 990, 999].into_iter().zip(quantiles) {
            let ours = drawn[drawn.len() * permille / 1_000];
            assert!((ours - expected).abs() <= 1 + expected / 50, "{permille} permille: {ours}, {expected}");
        }
        let cap = sizes.range().end - 1;
        let at_cap = drawn.iter().filter(|size| **size == cap).count() as f64 / drawn.len() as f64;
        assert!((at_cap - capped).abs() < 0.0005, "{at_cap} at the cap, {capped}");
    }
}

#[test]
fn search_in_points() {
    let curve = [(0, 0.0), (1, 0.5), (2, 1.0)].map(|(value, cumulative)| Point { value, cumulative });
    let curve = Empirical::new(curve.to_vec()).unwrap();
    for (u, index) in [(0.0, 0), (0.001, 1), (0.4, 1), (0.5, 1), (0.50001, 2), (1.0, 2), (1.33, 3)] {
        assert_eq!(curve.search(u), index, "{u}");
    }
}

#[test]
fn census_counts_every_rank_once() {
    let curve = points();
    for size in [1, 2, 7, 100, 12_345] {
        let mut by_rank = std::collections::BTreeMap::new();
        for rank in 0..size {
            *by_rank.entry(curve.value_of_rank(rank, size)).or_insert(0) += 1;
        }
        assert_eq!(by_rank.into_iter().collect::<Vec<_>>(), curve.census(size).collect::<Vec<_>>(), "{size}");
    }
}
