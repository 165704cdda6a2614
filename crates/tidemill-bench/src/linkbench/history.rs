//! Long lists that a requester has read the first part of, so that it can come back for the next.

use super::random::Random;
use std::collections::HashMap;

/// Where to go on: the time of the last link that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub id1: i64,
    pub link_type: i64,
    pub time: i64,
}

/// One entry an id and type; a new one takes the place of any when all are taken.
#[derive(Debug)]
pub struct History {
    entries: Vec<Entry>,
    places: HashMap<(i64, i64), usize>,
    /// The original never forgets the key of an entry that it removed, so that the list cannot come back.
    keeps_keys: bool,
}

const ENTRIES_MAX: usize = 2_048;

impl History {
    pub fn new(keeps_keys: bool) -> Self {
        History { entries: Vec::new(), places: HashMap::new(), keeps_keys }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn any(&self, random: &mut Random) -> Option<Entry> {
        self.entries.get(random.below(self.entries.len() as i64) as usize).copied()
    }

    /// A list came back full: it has more.
    pub fn add(&mut self, random: &mut Random, entry: Entry) {
        let key = (entry.id1, entry.link_type);
        if let Some(&place) = self.places.get(&key) {
            match self.entries.get_mut(place).filter(|there| (there.id1, there.link_type) == key) {
                Some(there) => *there = entry,
                // A key that was kept without its entry.
                None => return,
            }
            return;
        }
        if self.entries.len() < ENTRIES_MAX {
            self.places.insert(key, self.entries.len());
            self.entries.push(entry);
            return;
        }
        let place = random.below(ENTRIES_MAX as i64) as usize;
        let gone = std::mem::replace(&mut self.entries[place], entry);
        self.places.remove(&(gone.id1, gone.link_type));
        self.places.insert(key, place);
    }

    /// A list is read to its end; the last entry fills the gap.
    pub fn remove(&mut self, id1: i64, link_type: i64) {
        let Some(&place) = self.places.get(&(id1, link_type)) else { return };
        if self.entries.get(place).is_none_or(|there| (there.id1, there.link_type) != (id1, link_type)) {
            return;
        }
        self.entries.swap_remove(place);
        if let Some(moved) = self.entries.get(place) {
            self.places.insert((moved.id1, moved.link_type), place);
        }
        if !self.keeps_keys {
            self.places.remove(&(id1, link_type));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id1: i64) -> Entry {
        Entry { id1, link_type: 1, time: id1 * 10 }
    }

    #[test]
    fn entries_are_unique_and_bounded() {
        let (mut history, mut random) = (History::new(false), Random::new(1));
        for id1 in 0..5_000 {
            history.add(&mut random, entry(id1));
            history.add(&mut random, Entry { time: 7, ..entry(id1) });
        }
        assert_eq!((history.entries.len(), history.places.len()), (ENTRIES_MAX, ENTRIES_MAX));
        for (place, there) in history.entries.iter().enumerate() {
            assert_eq!(history.places[&(there.id1, 1)], place);
            assert_eq!(there.time, 7);
        }
    }

    #[test]
    fn removed_lists_come_back_unless_as_the_original() {
        for (keeps_keys, left) in [(false, 2), (true, 1)] {
            let (mut history, mut random) = (History::new(keeps_keys), Random::new(1));
            history.add(&mut random, entry(1));
            history.add(&mut random, entry(2));
            history.remove(1, 1);
            history.remove(9, 1);
            assert_eq!(history.any(&mut random), Some(entry(2)));
            history.add(&mut random, entry(1));
            assert_eq!(history.entries.len(), left, "{keeps_keys}");
        }
    }
}
