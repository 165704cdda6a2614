//! The bytes of links and nodes: sizes, and contents that compress like real ones.

use super::compat::Compat;
use super::distribution::{Distribution, LogNormal};
use super::properties::Properties;
use super::random::Random;
use super::{Error, Result};

/// Makes the data of links or of nodes. A worker owns its generators.
#[derive(Debug, Clone)]
pub struct Payload {
    sizes: LogNormal,
    contents: Motif,
}

/// What data is made for; each has a generator with settings of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    LinkAdd,
    LinkUpdate,
    NodeAdd,
    NodeUpdate,
}

/// Sizes are below these, whatever the median.
const LINK_SIZE_END: i64 = 255;
const NODE_SIZE_END: i64 = 1_048_576;

impl Payload {
    /// The seed decides the motif.
    pub fn new(properties: &Properties, purpose: Purpose, compat: Compat, seed: u64) -> Result<Self> {
        let (prefix, size_key, end) = match purpose {
            Purpose::LinkAdd => ("link_add_datagen", "link_datasize", LINK_SIZE_END),
            Purpose::LinkUpdate => ("link_up_datagen", "link_datasize", LINK_SIZE_END),
            Purpose::NodeAdd => ("node_add_datagen", "node_datasize", NODE_SIZE_END),
            Purpose::NodeUpdate => ("node_up_datagen", "node_datasize", NODE_SIZE_END),
        };
        let median: f64 = properties.required(size_key)?;
        if !(median > 0.0 && median < end as f64) {
            return Err(properties.wrong(size_key, format!("{median} is not above 0 and below {end}")));
        }
        let contents =
            Motif::from_properties(properties, prefix, compat, &mut Random::part(seed, purpose as u64))?;
        Ok(Payload { sizes: LogNormal::new(0..end, median, 1.0), contents })
    }

    /// Replaces what is in `buffer`.
    pub fn generate(&self, random: &mut Random, buffer: &mut Vec<u8>) {
        let size = self.sizes.choose(random) as usize;
        buffer.clear();
        buffer.resize(size, 0);
        self.contents.fill(random, buffer);
    }
}

/// Bytes that repeat themselves: chunks are fresh, or copies out of one short motif.
#[derive(Debug, Clone)]
struct Motif {
    low: u8,
    high: u8,
    uniqueness: f64,
    motif: Vec<u8>,
}

const CHUNK_MAX: usize = 128;
const MOTIF_LENGTH_DEFAULT: usize = 512;
const MOTIF_LENGTH_MAX: usize = 1 << 20;

impl Motif {
    fn from_properties(
        properties: &Properties,
        prefix: &str,
        compat: Compat,
        random: &mut Random,
    ) -> Result<Self> {
        let key = |name: &str| format!("{prefix}_{name}");
        let class = properties.text(prefix).unwrap_or("Motif");
        let uniqueness = match super::access::class_name(class).as_str() {
            "motifdatagenerator" | "motif" => properties.required(&key("uniqueness"))?,
            "uniformdatagenerator" | "uniform" => 1.0,
            _ => return Err(unknown_generator(properties, prefix, class)),
        };
        if !(0.0..=1.0).contains(&uniqueness) {
            return Err(properties.wrong(&key("uniqueness"), format!("{uniqueness} is not between 0 and 1")));
        }
        let motif_length = if compat.motif_length {
            MOTIF_LENGTH_DEFAULT
        } else {
            properties.or(&key("motif_length"), MOTIF_LENGTH_DEFAULT)?
        };
        if !(1..=MOTIF_LENGTH_MAX).contains(&motif_length) {
            let message = format!("{motif_length} is not between 1 and {MOTIF_LENGTH_MAX}");
            return Err(properties.wrong(&key("motif_length"), message));
        }
        let low = properties.required(&key("startbyte"))?;
        let high = properties.required(&key("endbyte"))?;
        if low > high {
            return Err(properties.wrong(&key("endbyte"), format!("{high} is below the first byte, {low}")));
        }
        let mut motif = vec![0; motif_length];
        random.fill(&mut motif, low, high);
        Ok(Motif { low, high, uniqueness, motif })
    }

    fn fill(&self, random: &mut Random, target: &mut [u8]) {
        for chunk in target.chunks_mut(CHUNK_MAX.min(self.motif.len())) {
            if random.chance(self.uniqueness) {
                random.fill(chunk, self.low, self.high);
            } else {
                let offset = random.below((self.motif.len() - chunk.len() + 1) as i64) as usize;
                chunk.copy_from_slice(&self.motif[offset..offset + chunk.len()]);
            }
        }
    }
}

fn unknown_generator(properties: &Properties, prefix: &str, class: &str) -> Error {
    properties.wrong(prefix, format!("\"{class}\" is not a data generator; there are Motif and Uniform"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linkbench::preset::Preset;

    #[test]
    fn contents_compress_as_the_original() {
        let properties = Preset::Fb2017.properties();
        for (purpose, ratio, low, high) in
            [(Purpose::LinkAdd, 0.239, 32, 100), (Purpose::NodeAdd, 0.610, 50, 220)]
        {
            let payload = Payload::new(&properties, purpose, Compat::all(), 1).unwrap();
            let mut random = Random::new(8);
            let (mut rows, mut row) = (Vec::new(), Vec::new());
            while rows.len() < 2_000_000 {
                payload.generate(&mut random, &mut row);
                rows.extend_from_slice(&row);
            }
            assert!(rows.iter().all(|byte| (low..=high).contains(byte)));
            let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
            std::io::Write::write_all(&mut deflate, &rows).unwrap();
            let ours = deflate.finish().unwrap().len() as f64 / rows.len() as f64;
            assert!((ours - ratio).abs() <= 0.02, "{purpose:?} {ours}, {ratio}");
        }
    }

    #[test]
    fn settings_are_checked() {
        let message = |definition: &str| {
            let mut properties = Preset::Fb2017.properties();
            properties.define(definition).unwrap();
            Payload::new(&properties, Purpose::LinkAdd, Compat::none(), 1).unwrap_err().to_string()
        };
        assert!(message("link_add_datagen=Zeros").contains("there are Motif and Uniform"));
        assert!(message("link_add_datagen_startbyte=300").contains("\"300\" is not a whole number in range"));
        assert!(message("link_add_datagen_endbyte=3").contains("3 is below the first byte, 32"));
        assert!(message("link_datasize=1000").contains("1000 is not above 0 and below 255"));
    }
}
