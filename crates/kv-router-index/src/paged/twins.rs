//! Second names of one rank for a block that it holds already: a table that is expected to be empty.

use kv_router_types::TierSet;
use rustc_hash::FxHashMap;

use super::names::Place;

/// The further names of one rank. The first name of a place is in its record, not here.
#[derive(Debug, Default)]
pub(super) struct Twins {
    by_name: FxHashMap<u64, (Place, TierSet)>,
    by_place: FxHashMap<Place, Vec<u64>>,
}

impl Twins {
    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn get(&self, name: u64) -> Option<(Place, TierSet)> {
        self.by_name.get(&name).copied()
    }

    /// Adds a name, or changes its tiers. A name does not change its place without [`remove`](Self::remove).
    pub(super) fn set(&mut self, name: u64, place: Place, tiers: TierSet) {
        if self.by_name.insert(name, (place, tiers)).is_none() {
            self.by_place.entry(place).or_default().push(name);
        }
    }

    pub(super) fn remove(&mut self, name: u64) {
        let Some((place, _)) = self.by_name.remove(&name) else { return };
        if let Some(names) = self.by_place.get_mut(&place) {
            names.retain(|&other| other != name);
            if names.is_empty() {
                self.by_place.remove(&place);
            }
        }
        if self.by_name.is_empty() {
            *self = Self::default();
        }
    }

    /// Takes out one name of the place.
    pub(super) fn take_at(&mut self, place: Place) -> Option<(u64, TierSet)> {
        let name = *self.by_place.get(&place)?.last()?;
        let (_, tiers) = self.get(name)?;
        self.remove(name);
        Some((name, tiers))
    }

    /// All tiers in which the further names of a place have copies.
    pub(super) fn tiers_at(&self, place: Place) -> TierSet {
        let names = self.by_place.get(&place).into_iter().flatten();
        names.filter_map(|&name| self.get(name)).flat_map(|(_, tiers)| tiers.iter()).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Place, TierSet)> {
        self.by_name.iter().map(|(&name, &(place, tiers))| (name, place, tiers))
    }
}
