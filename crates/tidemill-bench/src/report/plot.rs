//! Line plots as SVG: no script, no font, no network.

use std::fmt::Write;

const WIDTH: f64 = 760.0;
/// At least: with many series their names need more.
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 64.0;
/// The least and the most room for the names of series; of a longer name the end is shown, which tells files apart.
const RIGHT: f64 = 130.0;
const RIGHT_MAX: f64 = 300.0;
/// Of the names' letters, at most, and of their lines.
const LETTER: f64 = 7.0;
const LINE: f64 = 14.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 40.0;
/// Distinguishable without red against green.
const COLORS: [&str; 10] = [
    "#0b6fa4", "#e07b00", "#6a3d9a", "#444444", "#c2185b", "#00897b", "#8d6e63", "#b8a000", "#5c9bd5",
    "#9e9e9e",
];

pub struct Plot {
    pub title: String,
    pub x_label: &'static str,
    pub y_label: &'static str,
    pub is_y_logarithmic: bool,
    /// Where the x axis has marks, and what they say; none: at round numbers.
    pub x_marks: Vec<(f64, String)>,
    pub series: Vec<Series>,
}

pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// From values to a stretch of the page.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    is_logarithmic: bool,
}

impl Scale {
    fn at(&self, value: f64) -> f64 {
        let map = |v: f64| if self.is_logarithmic { v.max(f64::MIN_POSITIVE).log10() } else { v };
        let (low, high) = (map(self.low), map(self.high));
        self.from + (map(value) - low) / (high - low) * (self.to - self.from)
    }

    fn marks(&self) -> Vec<f64> {
        if self.is_logarithmic {
            let exponents = self.low.log10().ceil() as i32..=self.high.log10().floor() as i32;
            return exponents.map(|exponent| 10f64.powi(exponent)).collect();
        }
        let step = round_step((self.high - self.low) / 5.0);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|i| i as f64 * step).collect()
    }
}

/// 1, 2 or 5 times a power of ten.
fn round_step(about: f64) -> f64 {
    let power = 10f64.powf(about.max(f64::MIN_POSITIVE).log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= about).unwrap_or(10.0);
    factor * power
}

impl Plot {
    /// Empty when there is nothing to draw.
    pub fn svg(&self) -> String {
        let points =
            || self.series.iter().flat_map(|series| &series.points).filter(|(x, y)| self.is_drawn(*x, *y));
        if points().count() < 2 {
            return String::new();
        }
        let bounds = |of: fn(&(f64, f64)) -> f64| {
            points().map(of).fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)))
        };
        let (x, y) = (self.x_scale(bounds(|p| p.0)), self.y_scale(bounds(|p| p.1)));
        let (right, height) = (self.right(), self.height());
        let letters_max = ((right - 16.0) / LETTER) as usize;
        let mut svg = format!(
            "<figure><svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\"><title>{0}</title><text x=\"{LEFT}\" y=\"16\" class=\"title\">{0}</text>",
            escaped(&self.title)
        );
        self.axes(&mut svg, &x, &y);
        for (i, series) in self.series.iter().enumerate() {
            let color = COLORS[i % COLORS.len()];
            let drawn = series.points.iter().filter(|(x, y)| self.is_drawn(*x, *y));
            let line: String = drawn.map(|(px, py)| format!("{:.1},{:.1} ", x.at(*px), y.at(*py))).collect();
            let _ = write!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"1.5\"/>",
                line.trim()
            );
            let place = TOP + LINE * (i as f64 + 1.0);
            let _ = write!(
                svg,
                "<text x=\"{:.0}\" y=\"{place:.0}\" style=\"fill:{color}\">{}</text>",
                WIDTH - right + 10.0,
                escaped(&end_of(&series.name, letters_max))
            );
        }
        svg + "</svg></figure>\n"
    }

    fn right(&self) -> f64 {
        let longest = self.series.iter().map(|series| series.name.chars().count()).max().unwrap_or(0);
        (longest as f64 * LETTER + 16.0).clamp(RIGHT, RIGHT_MAX)
    }

    fn height(&self) -> f64 {
        (TOP + LINE * (self.series.len() as f64 + 1.0)).max(HEIGHT)
    }

    fn is_drawn(&self, x: f64, y: f64) -> bool {
        x.is_finite() && y.is_finite() && (!self.is_y_logarithmic || y > 0.0)
    }

    fn x_scale(&self, (low, high): (f64, f64)) -> Scale {
        let high = if high > low { high } else { low + 1.0 };
        Scale { low, high, from: LEFT, to: WIDTH - self.right(), is_logarithmic: false }
    }

    fn y_scale(&self, (low, high): (f64, f64)) -> Scale {
        let (low, high) = match self.is_y_logarithmic {
            // Whole decades, so that there are marks.
            true => (10f64.powf(low.log10().floor()), 10f64.powf(high.log10().floor() + 1.0)),
            false => (0.0, if high > 0.0 { high * 1.05 } else { 1.0 }),
        };
        Scale { low, high, from: self.height() - BOTTOM, to: TOP, is_logarithmic: self.is_y_logarithmic }
    }

    fn axes(&self, svg: &mut String, x: &Scale, y: &Scale) {
        let (right, height) = (self.right(), self.height());
        for value in y.marks() {
            let at = y.at(value);
            let _ = write!(
                svg,
                "<path d=\"M{LEFT} {at:.1}H{:.1}\" class=\"grid\"/><text x=\"{:.1}\" y=\"{:.1}\" class=\"end\">{}</text>",
                WIDTH - right,
                LEFT - 6.0,
                at + 4.0,
                short(value)
            );
        }
        let given = self.x_marks.iter().filter(|(value, _)| (x.low..=x.high).contains(value)).cloned();
        let round = || x.marks().into_iter().map(|value| (value, short(value)));
        let marks: Vec<(f64, String)> =
            if self.x_marks.is_empty() { round().collect() } else { given.collect() };
        for (value, text) in marks {
            let at = x.at(value);
            let _ = write!(
                svg,
                "<path d=\"M{at:.1} {:.1}v5\" class=\"axis\"/><text x=\"{at:.1}\" y=\"{:.1}\" class=\"middle\">{}</text>",
                height - BOTTOM,
                height - BOTTOM + 18.0,
                escaped(&text)
            );
        }
        let _ = write!(
            svg,
            "<path d=\"M{LEFT} {TOP}V{:.1}H{:.1}\" class=\"axis\" fill=\"none\"/><text x=\"{:.1}\" y=\"{:.1}\" class=\"middle\">{}</text>\
             <text transform=\"translate(14 {:.1}) rotate(-90)\" class=\"middle\">{}</text>",
            height - BOTTOM,
            WIDTH - right,
            (LEFT + WIDTH - right) / 2.0,
            height - 6.0,
            escaped(self.x_label),
            (TOP + height - BOTTOM) / 2.0,
            escaped(self.y_label)
        );
    }
}

/// The last letters of a name that is too long.
fn end_of(name: &str, letters_max: usize) -> String {
    let letters = name.chars().count();
    if letters <= letters_max {
        return name.to_owned();
    }
    "…".chars().chain(name.chars().skip(letters + 1 - letters_max)).collect()
}

/// A number on an axis.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1e6 => format!("{}M", trimmed(value / 1e6)),
        v if v >= 1e4 => format!("{}k", trimmed(value / 1e3)),
        _ => trimmed(value),
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_within() {
        let scale = Scale { low: 0.0, high: 37.0, from: 0.0, to: 100.0, is_logarithmic: false };
        assert_eq!(scale.marks(), [0.0, 10.0, 20.0, 30.0]);
        let scale = Scale { low: 0.01, high: 100.0, from: 100.0, to: 0.0, is_logarithmic: true };
        assert_eq!(scale.marks().len(), 5);
        assert_eq!((scale.at(0.01).round(), scale.at(1.0).round()), (100.0, 50.0));
        assert_eq!((short(0.001), short(25_000.0), short(3.0)), ("0.001".into(), "25k".into(), "3".into()));
    }

    #[test]
    fn names_have_room() {
        let plot = |names: &[&str]| Plot {
            title: String::new(),
            x_label: "s",
            y_label: "ms",
            is_y_logarithmic: false,
            x_marks: Vec::new(),
            series: names
                .iter()
                .map(|name| Series { name: (*name).to_owned(), points: vec![(0.0, 1.0), (1.0, 2.0)] })
                .collect(),
        };
        let two = plot(&["2: join small aggregate", "2: join small aggregate limit"]).svg();
        assert!(two.contains(">2: join small aggregate<") && two.contains(">2: join small aggregate limit<"));
        let names: Vec<String> = (0..30).map(|i| format!("{}{i}", "/folder".repeat(10))).collect();
        let many = plot(&names.iter().map(String::as_str).collect::<Vec<_>>()).svg();
        assert!(many.contains("viewBox=\"0 0 760 462\"") && many.contains("y=\"448\""), "{many}");
        assert!(many.contains(">…er/folder/folder/folder/folder/folder29<"), "{many}");
    }

    #[test]
    fn what_cannot_be_drawn_is_left_out() {
        let plot = |points| Plot {
            title: "<x>".to_owned(),
            x_label: "s",
            y_label: "ms",
            is_y_logarithmic: true,
            x_marks: Vec::new(),
            series: vec![Series { name: "a".to_owned(), points }],
        };
        assert_eq!(plot(vec![(1.0, 0.0), (2.0, f64::NAN)]).svg(), "");
        let svg = plot(vec![(1.0, 1.0), (2.0, 0.0), (3.0, 10.0)]).svg();
        assert!(svg.contains("&lt;x&gt;") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
