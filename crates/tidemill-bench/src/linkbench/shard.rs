//! The schemas that hold the graph (`dbcount`): each has all of it, and each request asks one of them (`dbload`).

use super::Result;
use super::properties::Properties;
use super::random::Random;
use super::schema::Schema;
use crate::target::Dialect;

#[derive(Debug, Clone)]
pub struct Shards {
    schemas: Vec<Schema>,
    /// Up to which percentage of the requests each is asked; the last is 100.
    upto: Vec<f64>,
}

const SHARDS_MAX: usize = 100;
/// How far percentages may be from 100 in all.
const SUM_TOLERANCE: f64 = 1e-5;

impl Shards {
    pub fn new(properties: &Properties, dialect: Dialect) -> Result<Self> {
        let count: usize = properties.or("dbcount", 1)?;
        if !(1..=SHARDS_MAX).contains(&count) {
            let message = format!("{count} is not between 1 and {SHARDS_MAX}");
            return Err(properties.wrong("dbcount", message));
        }
        if count > 1 && dialect == Dialect::Sqlite {
            let message = "SQLite has one database a file: only 1 works".to_owned();
            return Err(properties.wrong("dbcount", message));
        }
        let schemas = (0..count).map(|index| Schema::of_shard(properties, dialect, index, count));
        Ok(Shards { schemas: schemas.collect::<Result<_>>()?, upto: upto(properties, count)? })
    }

    pub fn schemas(&self) -> &[Schema] {
        &self.schemas
    }

    /// What is set and changes nothing, because the tables are in the target's own database.
    pub fn without_effect(&self, properties: &Properties) -> Option<&'static str> {
        let is_set = properties.contains("dbprefix");
        let is_named = self.schemas.iter().any(|schema| schema.namespace().is_some());
        (is_set && !is_named).then_some("dbprefix")
    }

    /// Which one a request asks. Of a single one no number is drawn.
    pub fn choose(&self, random: &mut Random) -> usize {
        if self.schemas.len() == 1 {
            return 0;
        }
        let drawn = random.unit() * 100.0;
        self.upto.iter().position(|upto| drawn <= *upto).unwrap_or(self.schemas.len() - 1)
    }
}

fn upto(properties: &Properties, count: usize) -> Result<Vec<f64>> {
    let listed = properties.text("dbload").map(str::trim).filter(|list| !list.is_empty());
    let shares = match listed {
        None => vec![100.0 / count as f64; count],
        Some(list) => {
            let share = |text: &str| text.trim().parse().ok().filter(|share: &f64| *share >= 0.0);
            let shares: Option<Vec<f64>> = list.split(',').map(share).collect();
            shares
                .ok_or_else(|| properties.wrong("dbload", format!("\"{list}\" is no list of percentages")))?
        }
    };
    let sum: f64 = shares.iter().sum();
    if shares.len() != count || (sum - 100.0).abs() > SUM_TOLERANCE {
        let message =
            format!("{} percentages that make {sum}: there must be {count} that make 100", shares.len());
        return Err(properties.wrong("dbload", message));
    }
    let mut upto: Vec<f64> = shares
        .iter()
        .scan(0.0, |sum, share| {
            *sum += share;
            Some(*sum)
        })
        .collect();
    upto.iter_mut().last().into_iter().for_each(|last| *last = 100.0);
    Ok(upto)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shards(definitions: &[&str], dialect: Dialect) -> Result<Shards> {
        let mut properties = Properties::default();
        definitions.iter().for_each(|definition| properties.define(definition).unwrap());
        Shards::new(&properties, dialect)
    }

    #[test]
    fn requests_go_where_dbload_says() {
        let shards = shards(&["dbcount=3", "dbload=20, 0, 80"], Dialect::Postgres).unwrap();
        let mut random = Random::part(1, 0);
        let mut asked = [0; 3];
        (0..10_000).for_each(|_| asked[shards.choose(&mut random)] += 1);
        assert!((1_850..2_150).contains(&asked[0]) && asked[1] == 0, "{asked:?}");
        let tables: Vec<String> = shards.schemas().iter().map(Schema::links).collect();
        assert_eq!(tables, ["linkdb0.linktable", "linkdb1.linktable", "linkdb2.linktable"]);
    }

    #[test]
    fn each_database_has_its_way_of_several() {
        let tables = |definition: &str, dialect| {
            shards(&[definition], dialect).unwrap().schemas().iter().map(Schema::nodes).collect::<Vec<_>>()
        };
        assert_eq!(tables("dbcount=1", Dialect::MySql), ["nodetable"]);
        assert_eq!(tables("dbcount=2", Dialect::MySql), ["linkdb0.nodetable", "linkdb1.nodetable"]);
        let without_effect = |definition: &str, dialect| {
            let mut properties = Properties::default();
            [definition, "dbprefix=foo"].iter().for_each(|definition| properties.define(definition).unwrap());
            Shards::new(&properties, dialect).unwrap().without_effect(&properties)
        };
        assert_eq!(without_effect("dbcount=1", Dialect::MySql), Some("dbprefix"));
        assert_eq!(without_effect("dbcount=1", Dialect::Sqlite), Some("dbprefix"));
        assert_eq!(without_effect("dbcount=2", Dialect::MySql), None);
        assert_eq!(without_effect("dbcount=1", Dialect::Postgres), None);
        let message = |definitions: &[&str], dialect| shards(definitions, dialect).unwrap_err().to_string();
        assert!(message(&["dbcount=2"], Dialect::Sqlite).contains("one database a file"));
        assert!(message(&["dbcount=0"], Dialect::Postgres).contains("0 is not between 1 and 100"));
        assert!(
            message(&["dbcount=2", "dbload=50"], Dialect::Postgres).contains("1 percentages that make 50")
        );
        assert!(message(&["dbcount=2", "dbload=50,x"], Dialect::Postgres).contains("no list of percentages"));
    }
}
