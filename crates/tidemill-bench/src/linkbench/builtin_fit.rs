//! A compact fit of the empirical distributions, for when no data file is given.

use super::data_file::Distributions;
use super::distribution::{Empirical, Point};

/// Knots of a curve: a value, and the share of ids that have more than it. Between knots the curve is a straight line
/// in logarithms (of value + 1, so that 0 is allowed); the last knot is the largest value.
type Knots = &'static [(i64, f64)];

/// Above this a value of the expanded curve is this much larger than the one before.
const GROWTH: f64 = 1.001;

/// Which year's data the fit follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Year {
    Y2011,
    Y2017,
}

impl Distributions {
    /// Stands in for the file of that year: total numbers of links come out within 0.5 %.
    pub fn builtin(year: Year) -> Self {
        let [nlinks, link_reads, link_writes, node_reads, node_writes] = match year {
            Year::Y2011 => {
                [NLINKS_2011, LINK_NREADS_2011, LINK_NWRITES_2011, NODE_NREADS_2011, NODE_NWRITES_2011]
            }
            Year::Y2017 => {
                [NLINKS_2017, LINK_NREADS_2017, LINK_NWRITES_2017, NODE_NREADS_2017, NODE_NWRITES_2017]
            }
        }
        .map(expand);
        let origin = match year {
            Year::Y2011 => "built-in fit of the 2011 distributions (totals within 0.5 %)",
            Year::Y2017 => "built-in fit of the 2017 distributions (totals within 0.5 %)",
        };
        Distributions { nlinks, link_reads, link_writes, node_reads, node_writes, origin: origin.to_owned() }
    }
}

/// The curve point by point, as a file would have it.
fn expand(knots: Knots) -> Empirical {
    let mut points = Vec::new();
    for pair in knots.windows(2) {
        let [(low, share_low), (high, share_high)] = pair else { continue };
        let width = ((high + 1) as f64).ln() - ((low + 1) as f64).ln();
        // Nothing is known between the last two: no id is above the largest value.
        let slope =
            if *share_high > 0.0 { (share_high.ln() - share_low.ln()) / width } else { f64::NEG_INFINITY };
        let mut value = *low;
        while value < *high {
            let distance = ((value + 1) as f64).ln() - ((low + 1) as f64).ln();
            let share = if value == *low { *share_low } else { share_low * (slope * distance).exp() };
            if share <= 0.0 {
                break;
            }
            points.push(Point { value, cumulative: 1.0 - share });
            value = (value + 1).max((value as f64 * GROWTH) as i64);
        }
    }
    let largest = knots.last().map_or(0, |knot| knot.0);
    points.push(Point { value: largest, cumulative: 1.0 });
    Empirical::new(points).expect("knots are in order")
}

#[rustfmt::skip]
const NLINKS_2011: &[(i64, f64)] = &[
    (0, 0.5466839), (2, 0.1304194), (6, 0.03277472), (17, 0.008201193), (22, 0.006057507),
    (30, 0.00443061), (54, 0.002612637), (71, 0.002117322), (100, 0.001686388), (166, 0.001266732),
    (503, 0.0007232855), (807, 0.0005605589), (1239, 0.0004315492), (1736, 0.000341439),
    (2286, 0.0002744663), (3604, 0.000179282), (5135, 0.0001217955), (7444, 7.64062e-05),
    (11490, 3.98609e-05), (19498, 1.5436e-05), (36137, 4.129e-06), (88467, 4.676e-07), (113698, 3.029e-07),
    (124055, 2.371e-07), (137869, 2.107e-07), (150078, 1.778e-07), (155990, 1.745e-07),
    (159914, 1.548e-07), (170429, 1.482e-07), (181268, 1.317e-07), (185608, 1.087e-07),
    (195286, 1.021e-07), (204366, 8.23e-08), (235153, 6.26e-08), (248486, 4.61e-08), (272454, 4.28e-08),
    (292270, 3.29e-08), (297564, 2.63e-08), (313962, 2.3e-08), (315801, 1.98e-08), (407190, 1.65e-08),
    (485372, 6.6e-09), (906857, 3.3e-09), (961963, 0.0),
];

#[rustfmt::skip]
const LINK_NREADS_2011: &[(i64, f64)] = &[
    (0, 0.0442536), (6, 0.01033241), (40, 0.001721776), (437, 0.0002801195), (897, 0.0001276124),
    (1870, 2.8007e-05), (6428, 2.635e-07), (12685, 4.28e-08), (15894, 3.29e-08), (26308, 6.6e-09),
    (80370, 3.3e-09), (95718, 0.0),
];

#[rustfmt::skip]
const LINK_NWRITES_2011: &[(i64, f64)] = &[
    (0, 0.03246369), (1, 0.01126047), (10, 0.001426589), (31, 0.0005488637), (248, 0.0001417937),
    (936, 3.298e-05), (8035, 8.201e-07), (13544, 2.635e-07), (27926, 1.054e-07), (36234, 4.94e-08),
    (42235, 4.61e-08), (68456, 9.9e-09), (72509, 3.3e-09), (75879, 0.0),
];

#[rustfmt::skip]
const NODE_NREADS_2011: &[(i64, f64)] = &[
    (0, 0.0479725), (3, 0.01203801), (10, 0.0009389595), (20, 0.0003671244), (78, 8.06321e-05),
    (207, 1.86604e-05), (1340, 4.545e-07), (4422, 7.25e-08), (5464, 3.29e-08), (8107, 1.65e-08),
    (11165, 3.3e-09), (23831, 0.0),
];

#[rustfmt::skip]
const NODE_NWRITES_2011: &[(i64, f64)] = &[
    (0, 0.04777171), (1, 0.0141676), (2, 0.004636142), (6, 0.001419584), (26, 0.0003799357),
    (135, 9.87359e-05), (382, 2.41999e-05), (751, 5.5988e-06), (1427, 8.464e-07), (4695, 6.6e-09),
    (8490, 3.3e-09), (25125, 0.0),
];

#[rustfmt::skip]
const NLINKS_2017: &[(i64, f64)] = &[
    (1, 0.2025299), (3, 0.05564477), (6, 0.03069004), (9, 0.02209659), (10, 0.01901405), (49, 0.004976666),
    (63, 0.003823313), (106, 0.002401169), (787, 0.0004348783), (1035, 0.0003331688), (2000, 0.0001582662),
    (5266, 4.805872e-05), (9595, 2.148074e-05), (15898, 1.007684e-05), (59265, 1.579824e-06),
    (80708, 9.05118e-07), (134793, 3.96657e-07), (139800, 3.90824e-07), (218724, 2.0319e-07),
    (236888, 1.91523e-07), (261520, 1.59441e-07), (279307, 1.53608e-07), (317867, 1.33191e-07),
    (332120, 1.31247e-07), (359663, 1.18608e-07), (384104, 1.17636e-07), (424092, 1.04026e-07),
    (478152, 9.4304e-08), (489470, 8.4582e-08), (527196, 7.8748e-08), (562700, 7.6804e-08),
    (606070, 7.5832e-08), (667405, 6.9026e-08), (746203, 6.8054e-08), (774674, 6.7082e-08),
    (804976, 6.3193e-08), (850734, 6.2221e-08), (960197, 5.0555e-08), (1152277, 4.2777e-08),
    (1224873, 3.4999e-08), (1411842, 3.1111e-08), (1646184, 1.4583e-08), (1775140, 1.3611e-08),
    (1812731, 9.722e-09), (2466371, 8.75e-09), (2939693, 6.806e-09), (2955867, 5.833e-09),
    (3258789, 4.861e-09), (3527636, 2.917e-09), (3879477, 9.72e-10), (4181357, 0.0),
];

#[rustfmt::skip]
const LINK_NREADS_2017: &[(i64, f64)] = &[
    (0, 0.006133965), (8, 0.0007009228), (22, 0.0001775281), (72, 5.404876e-05), (129, 3.4928e-05),
    (215, 1.743757e-05), (614, 3.600982e-06), (5512, 7.5307e-08), (11885, 2.5706e-08), (19382, 1.4844e-08),
    (27604, 1.1948e-08), (59928, 2.172e-09), (105826, 1.448e-09), (116943, 3.620001e-10), (150782, 0.0),
];

#[rustfmt::skip]
const LINK_NWRITES_2017: &[(i64, f64)] = &[
    (0, 0.001889104), (9, 0.0002637029), (259, 6.319639e-06), (5067, 4.0912e-08), (11552, 8.327e-09),
    (16589, 2.534e-09), (21437, 2.172e-09), (28404, 1.086e-09), (41780, 7.24e-10), (44469, 3.620001e-10),
    (84506, 0.0),
];

#[rustfmt::skip]
const NODE_NREADS_2017: &[(i64, f64)] = &[
    (0, 0.02098808), (1, 0.01676741), (2, 0.003784801), (7, 0.0002987106), (17, 1.387207e-05),
    (50, 9.703e-08), (182, 1.1586e-08), (240, 1.0137e-08), (270, 7.603e-09), (338, 7.241e-09),
    (423, 4.345e-09), (643, 3.983e-09), (991, 1.086e-09), (1396, 7.24e-10), (1597, 3.620001e-10),
    (2195, 0.0),
];

#[rustfmt::skip]
const NODE_NWRITES_2017: &[(i64, f64)] = &[
    (0, 0.003162807), (1, 0.001954572), (5, 0.0001277317), (100, 2.106064e-06), (1374, 9.775e-09),
    (2173, 5.431e-09), (2282, 3.621e-09), (4127, 1.448e-09), (4260, 1.086e-09), (5561, 7.24e-10),
    (12079, 3.620001e-10), (17234, 0.0),
];
