//! Prometheus's text format: a line a figure, and what each name means.
//!
//! <https://prometheus.io/docs/instrumenting/exposition_formats>

use super::{Metric, Sample};

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric without figures is left out.
pub fn write(metrics: &[Metric]) -> String {
    let mut text = String::new();
    for metric in metrics.iter().filter(|metric| !metric.samples.is_empty()) {
        let Metric { name, kind, help, samples } = metric;
        text.push_str(&format!("# HELP {name} {}\n# TYPE {name} {}\n", escape(help, false), kind.as_str()));
        samples.iter().for_each(|sample| write_sample(&mut text, name, sample));
    }
    text
}

fn write_sample(text: &mut String, name: &str, sample: &Sample) {
    text.push_str(name);
    for (i, (label, value)) in sample.labels.iter().enumerate() {
        text.push_str(if i == 0 { "{" } else { "," });
        text.push_str(&format!("{label}=\"{}\"", escape(value, true)));
    }
    text.push_str(if sample.labels.is_empty() { " " } else { "} " });
    text.push_str(&format!("{}\n", sample.value));
}

/// Line feeds and backslashes, and in the value of a label quotes, are written with a backslash.
fn escape(text: &str, is_label: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if is_label { text.replace('"', "\\\"") } else { text }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    #[test]
    fn names_are_escaped_and_empty_metrics_left_out() {
        let sample = |labels: &[(&'static str, &str)], value| {
            let labels = labels.iter().map(|(name, value)| (*name, value.to_string())).collect();
            Sample { labels, value }
        };
        let metric = |name, kind, samples| Metric { name, kind, help: "a \\ \"b\"\nc", samples };
        let text = write(&[
            metric("none", Kind::Gauge, vec![]),
            metric("plain_total", Kind::Counter, vec![sample(&[], 1.5e18)]),
            metric(
                "some",
                Kind::Gauge,
                vec![
                    sample(&[("a", "x\"\\\ny"), ("b", "grün, {}")], 0.000_25),
                    sample(&[("a", "")], 1_700_000_000.123_456),
                ],
            ),
        ]);
        let expected = r#"# HELP plain_total a \\ "b"\nc
# TYPE plain_total counter
plain_total 1500000000000000000
# HELP some a \\ "b"\nc
# TYPE some gauge
some{a="x\"\\\ny",b="grün, {}"} 0.00025
some{a=""} 1700000000.123456
"#;
        assert_eq!(text, expected);
    }
}
