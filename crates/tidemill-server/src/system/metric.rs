//! `tidemill.metrics`: the figures that Prometheus gets, as rows.

use serde_json::{Map, Value as Json};
use tidemill_sql::text::write_jsonb;
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::{Result, SqlError};

use super::{Rows, Snapshot, SystemRelation, TIDEMILL};
use crate::metrics::{self, Sample};

const METRICS: &[(&str, Type)] = &[
    ("name", Type::new(Scalar::Text)),
    ("type", Type::new(Scalar::Text)),
    ("labels", Type::new(Scalar::Jsonb)),
    ("value", Type::new(Scalar::Float8)),
    ("help", Type::new(Scalar::Text)),
];

pub(super) fn relations() -> Vec<SystemRelation> {
    vec![SystemRelation::new(TIDEMILL, "metrics", METRICS, fill)]
}

fn fill(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for metric in metrics::collect(&snapshot.server, &snapshot.relations, &snapshot.servers) {
        for sample in &metric.samples {
            rows.add([
                ("name", metric.name.into()),
                ("type", metric.kind.as_str().into()),
                ("labels", labels(sample)?.into()),
                ("value", sample.value.into()),
                ("help", metric.help.into()),
            ])?;
        }
    }
    Ok(())
}

/// An object, as jsonb has it.
fn labels(sample: &Sample) -> Result<String> {
    let pairs = sample.labels.iter().map(|(name, value)| ((*name).to_string(), Json::from(value.as_str())));
    let mut text = Vec::new();
    write_jsonb(&Json::from(pairs.collect::<Map<_, _>>()).to_string(), &mut text)?;
    String::from_utf8(text).map_err(|error| SqlError::internal(error.to_string()))
}
