//! The operations and how often each is chosen.

use super::Result;
use super::properties::Properties;
use super::random::Random;
use serde::Serialize;

/// In the order of the original's report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Operation {
    AddNode,
    UpdateNode,
    DeleteNode,
    GetNode,
    AddLink,
    DeleteLink,
    UpdateLink,
    CountLink,
    MultigetLink,
    GetLinksList,
}

impl Operation {
    #[cfg(test)]
    pub const ALL: [Operation; 10] = [
        Operation::AddNode,
        Operation::UpdateNode,
        Operation::DeleteNode,
        Operation::GetNode,
        Operation::AddLink,
        Operation::DeleteLink,
        Operation::UpdateLink,
        Operation::CountLink,
        Operation::MultigetLink,
        Operation::GetLinksList,
    ];

    pub const NAMES: [&'static str; 10] = [
        "ADD_NODE",
        "UPDATE_NODE",
        "DELETE_NODE",
        "GET_NODE",
        "ADD_LINK",
        "DELETE_LINK",
        "UPDATE_LINK",
        "COUNT_LINK",
        "MULTIGET_LINK",
        "GET_LINKS_LIST",
    ];

    pub fn index(self) -> usize {
        self as usize
    }

    #[cfg(test)]
    pub fn name(self) -> &'static str {
        Self::NAMES[self.index()]
    }
}

/// The order in which shares are added up, with the property of each; node operations may be left out.
const SHARES: [(Operation, &str, bool); 10] = [
    (Operation::AddLink, "addlink", true),
    (Operation::DeleteLink, "deletelink", true),
    (Operation::UpdateLink, "updatelink", true),
    (Operation::CountLink, "countlink", true),
    (Operation::MultigetLink, "getlink", true),
    (Operation::GetLinksList, "getlinklist", true),
    (Operation::AddNode, "addnode", false),
    (Operation::UpdateNode, "updatenode", false),
    (Operation::DeleteNode, "deletenode", false),
    (Operation::GetNode, "getnode", false),
];

/// The shares of the operations.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    cumulative: [(f64, Operation); 10],
}

impl Mix {
    pub fn new(properties: &Properties) -> Result<Self> {
        let mut sum = 0.0;
        let mut cumulative = [(0.0, Operation::GetNode); 10];
        for (slot, (operation, key, required)) in cumulative.iter_mut().zip(SHARES) {
            let percent: f64 = if required { properties.required(key)? } else { properties.or(key, 0.0)? };
            if !(0.0..=100.0).contains(&percent) {
                return Err(properties.wrong(key, format!("{percent} is not a percentage")));
            }
            sum += percent;
            *slot = (sum, operation);
        }
        if (sum - 100.0).abs() > 1e-5 {
            return Err(
                properties.wrong("getnode", format!("the shares of all operations add up to {sum}, not 100"))
            );
        }
        Ok(Mix { cumulative })
    }

    /// In percent.
    #[cfg(test)]
    pub fn share(&self, operation: Operation) -> f64 {
        let index = self.cumulative.iter().position(|&(_, of)| of == operation).unwrap_or(0);
        self.cumulative[index].0 - if index == 0 { 0.0 } else { self.cumulative[index - 1].0 }
    }

    pub fn choose(&self, random: &mut Random) -> Operation {
        let draw = random.unit() * 100.0;
        let found = self.cumulative.iter().find(|(up_to, _)| draw <= *up_to);
        // Rounding may leave the sum a hair below 100.
        found.unwrap_or(&self.cumulative[9]).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linkbench::preset::Preset;

    #[test]
    fn draws_are_within_three_sigma_of_the_published_shares() {
        const DRAWS: u32 = 1_000_000;
        for preset in [Preset::Fb2011, Preset::Fb2017, Preset::Fb2017NeverChange] {
            let mix = Mix::new(&preset.properties()).unwrap();
            let mut random = Random::new(96);
            let mut counts = [0u32; 10];
            for _ in 0..DRAWS {
                counts[mix.choose(&mut random).index()] += 1;
            }
            for operation in Operation::ALL {
                let p = mix.share(operation) / 100.0;
                let sigma = (f64::from(DRAWS) * p * (1.0 - p)).sqrt();
                let off = f64::from(counts[operation.index()]) - f64::from(DRAWS) * p;
                assert!(off.abs() <= 3.0 * sigma, "{} {off} {sigma}", operation.name());
            }
        }
    }

    #[test]
    fn the_published_counts_of_96_million_requests_fit_2011() {
        let mix = Mix::new(&Preset::Fb2011.properties()).unwrap();
        let published =
            [2471774, 7073914, 971421, 12414612, 8631075, 2870975, 7694028, 4690047, 504147, 48678007];
        for (operation, count) in Operation::ALL.into_iter().zip(published) {
            let p = mix.share(operation) / 100.0;
            let sigma = (96e6 * p * (1.0 - p)).sqrt();
            assert!((f64::from(count) - 96e6 * p).abs() < 4.0 * sigma, "{}", operation.name());
        }
    }

    #[test]
    fn shares_must_add_up() {
        let mut properties = Preset::Fb2017.properties();
        properties.define("getnode=50").unwrap();
        let message = Mix::new(&properties).unwrap_err().to_string();
        assert!(
            message
                .starts_with("property \"getnode\" (-D getnode=50): the shares of all operations add up to")
        );
    }
}
