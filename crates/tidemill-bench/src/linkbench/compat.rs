//! The original's known flaws: fixed, unless asked for.

use super::{Error, Result};

/// Which flaws to reproduce, so that numbers compare with the original's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compat {
    /// Link writes take the uncorrelated law and blend of link reads.
    pub write_uncorr: bool,
    /// MULTIGET never asks for the least number of ids, and for one more than meant.
    pub multiget: bool,
    /// The length of the motif is never read: always 512 bytes.
    pub motif_length: bool,
    /// A list that once left the history never comes back.
    pub history: bool,
    /// An upsert of a link that is there counts it again and keeps its old data.
    pub upsert: bool,
    /// Adding a node sends the whole row back.
    pub returning: bool,
    /// Deadlocks are failures; only serialisation failures are tried again.
    pub deadlock: bool,
    /// Every statement waits for the answer to the one before, and so does COMMIT.
    pub round_trips: bool,
    /// Access modes leave their range, round down or stick to one id.
    pub access: bool,
    /// The first link of every id leads to the id itself.
    pub self_loop: bool,
    /// Nodes that were added are never touched again, and have no links.
    pub growth: bool,
    /// The links of a node that is deleted stay.
    pub delete_node: bool,
    /// All links of an id are one loader's, however many.
    pub super_node: bool,
    /// A requester has one connection for single statements, and one for transactions.
    pub connections: bool,
    /// GET_NODE chooses its id while its time runs.
    pub timed_choice: bool,
    /// One failed request ends the run, whatever `max_failed_requests` says, unless there is `never_change`.
    pub one_failure: bool,
    /// The stream of figures has durations in ms under a header that says µs, and no DELETE_LINK.
    pub csv_stream: bool,
}

/// Names as on the command line, with the flag of each.
const FLAWS: [(&str, fn(&mut Compat) -> &mut bool); 17] = [
    ("write-uncorr", |compat| &mut compat.write_uncorr),
    ("multiget", |compat| &mut compat.multiget),
    ("motif-length", |compat| &mut compat.motif_length),
    ("history", |compat| &mut compat.history),
    ("upsert", |compat| &mut compat.upsert),
    ("returning", |compat| &mut compat.returning),
    ("deadlock", |compat| &mut compat.deadlock),
    ("round-trips", |compat| &mut compat.round_trips),
    ("access", |compat| &mut compat.access),
    ("self-loop", |compat| &mut compat.self_loop),
    ("growth", |compat| &mut compat.growth),
    ("delete-node", |compat| &mut compat.delete_node),
    ("super-node", |compat| &mut compat.super_node),
    ("connections", |compat| &mut compat.connections),
    ("timed-choice", |compat| &mut compat.timed_choice),
    ("one-failure", |compat| &mut compat.one_failure),
    ("csvstream", |compat| &mut compat.csv_stream),
];

impl Compat {
    pub fn none() -> Self {
        Compat::default()
    }

    pub fn all() -> Self {
        let mut compat = Compat::default();
        for (_, flag) in FLAWS {
            *flag(&mut compat) = true;
        }
        compat
    }

    /// From a comma-separated list of names, or `all`.
    pub fn parse(list: &str) -> Result<Self> {
        if list == "all" {
            return Ok(Compat::all());
        }
        let mut compat = Compat::default();
        for name in list.split(',').map(str::trim) {
            let Some((_, flag)) = FLAWS.iter().find(|(known, _)| *known == name) else {
                let names = FLAWS.map(|(name, _)| name).join(", ");
                return Err(Error::at(
                    "--compat",
                    format!("\"{name}\" is not known; there are all, {names}"),
                ));
            };
            *flag(&mut compat) = true;
        }
        Ok(compat)
    }

    /// The names of what is reproduced, for reports.
    pub fn names(mut self) -> Vec<&'static str> {
        FLAWS.into_iter().filter(|(_, flag)| *flag(&mut self)).map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_names() {
        assert_eq!(Compat::parse("multiget, upsert").unwrap().names(), ["multiget", "upsert"]);
        assert_eq!(Compat::parse("all").unwrap(), Compat::all());
        assert!(Compat::parse("multi").unwrap_err().to_string().contains("there are all, write-uncorr"));
    }
}
