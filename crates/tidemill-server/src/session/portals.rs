//! The portals of a session by name. Nearly all statements go through the one without a name.

use std::collections::HashMap;

use super::extended::Portal;

#[derive(Default)]
pub(super) struct Portals {
    unnamed: Option<Portal>,
    named: HashMap<String, Portal>,
}

impl Portals {
    pub(super) fn len(&self) -> usize {
        self.named.len() + usize::from(self.unnamed.is_some())
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Portal> {
        if name.is_empty() { self.unnamed.as_ref() } else { self.named.get(name) }
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Portal> {
        if name.is_empty() { self.unnamed.as_mut() } else { self.named.get_mut(name) }
    }

    pub(super) fn insert(&mut self, name: &str, portal: Portal) {
        if name.is_empty() {
            self.unnamed = Some(portal);
        } else {
            self.named.insert(name.to_owned(), portal);
        }
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Portal> {
        if name.is_empty() { self.unnamed.take() } else { self.named.remove(name) }
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Portal) -> bool) {
        if self.unnamed.as_ref().is_some_and(|portal| !keep(portal)) {
            self.unnamed = None;
        }
        self.named.retain(|_, portal| keep(portal));
    }

    pub(super) fn clear(&mut self) {
        self.retain(|_| false);
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Portal> {
        self.named.values_mut().chain(&mut self.unnamed)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Portal)> {
        let named = self.named.iter().map(|(name, portal)| (name.as_str(), portal));
        named.chain(self.unnamed.iter().map(|portal| ("", portal)))
    }
}
