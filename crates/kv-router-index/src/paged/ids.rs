//! From a block's number to its place: one rank's array, in chunks that come and go with what they hold.

use std::iter;

use super::id::BlockRun;
use super::names::Place;
use super::sizes::ID_CHUNK as CHUNK;
use super::words::PAGE_BLOCKS;

/// No place: an index keeps fewer records than that would take.
const NONE: u32 = u32::MAX;

/// Places by number. Four bytes a number, in chunks that somebody holds something of.
#[derive(Debug, Default)]
pub(super) struct Ids {
    chunks: Vec<Chunk>,
    /// The last chunk that became empty: a rank at the edge of one would allocate for every event.
    spare: Option<Places>,
    len: usize,
}

type Places = Box<[u32; CHUNK]>;

/// A chunk; how many of it are in use stands beside the way to it, which every event reads anyway.
#[derive(Debug, Default)]
struct Chunk {
    places: Option<Places>,
    used: u32,
}

/// The parts of a run that lie in one chunk each: chunk, first of it, how many.
#[inline]
fn pieces(first: u32, len: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let (mut at, end) = (first as usize, first as usize + len);
    iter::from_fn(move || {
        let from = at % CHUNK;
        let count = (end - at).min(CHUNK - from);
        at += count;
        (count > 0).then(|| ((at - count) / CHUNK, from, count))
    })
}

impl Ids {
    /// Numbers in use.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes allocated.
    pub(super) fn bytes(&self) -> usize {
        let chunks = self.chunks.iter().filter(|chunk| chunk.places.is_some()).count();
        (chunks + usize::from(self.spare.is_some())) * CHUNK * 4 + self.chunks.capacity() * size_of::<Chunk>()
    }

    #[inline]
    fn chunk(&self, at: usize) -> Option<&[u32; CHUNK]> {
        self.chunks.get(at)?.places.as_deref()
    }

    /// Where a number is.
    #[inline]
    pub(super) fn get(&self, id: u64) -> Option<Place> {
        let id = usize::try_from(id).ok()?;
        let word = self.chunk(id / CHUNK)?[id % CHUNK];
        (word != NONE).then(|| Place::from_word(word))
    }

    /// How many numbers of a run are in use.
    #[inline]
    pub(super) fn used(&self, run: BlockRun) -> usize {
        let pieces = pieces(run.first().get(), run.len() as usize);
        let used = pieces.map(|(at, from, count)| {
            let places = self.chunk(at).map_or(&[][..], |places| &places[from..from + count]);
            places.iter().filter(|&&word| word != NONE).count()
        });
        used.sum()
    }

    /// Gives `count` free numbers from `first` on the places from `place` on, in one record.
    #[inline]
    pub(super) fn set_run(&mut self, first: u32, place: Place, count: usize) {
        let mut word = place.to_word();
        for (at, from, count) in pieces(first, count) {
            let (places, used) = self.ensure(at);
            debug_assert!(places[from..from + count].iter().all(|&word| word == NONE));
            for (to, word) in places[from..from + count].iter_mut().zip(word..) {
                *to = word;
            }
            *used += count as u32;
            word += count as u32;
        }
        self.len += count;
    }

    #[inline]
    fn ensure(&mut self, at: usize) -> (&mut [u32; CHUNK], &mut u32) {
        if self.chunks.len() <= at {
            self.chunks.resize_with(at + 1, Chunk::default);
        }
        let (spare, Chunk { places, used }) = (&mut self.spare, &mut self.chunks[at]);
        (places.get_or_insert_with(|| spare.take().unwrap_or_else(|| Box::new([NONE; CHUNK]))), used)
    }

    /// Frees `count` numbers from `first` on, all of them in use.
    #[inline]
    pub(super) fn free_run(&mut self, first: u32, count: usize) {
        for (at, from, count) in pieces(first, count) {
            let Some(chunk) = self.chunks.get_mut(at) else { break };
            let Some(places) = &mut chunk.places else { continue };
            debug_assert!(places[from..from + count].iter().all(|&word| word != NONE));
            places[from..from + count].fill(NONE);
            chunk.used -= count as u32;
            if chunk.used == 0 {
                self.spare = chunk.places.take();
            }
        }
        self.len -= count;
    }

    /// Of the numbers from `first` on, at most `most` and at least one: how many in a row are at places in a row of one
    /// record, and the first place; without one, how many in a row are free.
    #[inline]
    pub(super) fn stretch(&self, first: u32, most: usize) -> (Option<Place>, usize) {
        let (at, from) = (first as usize / CHUNK, first as usize % CHUNK);
        let most = most.min(CHUNK - from);
        let Some(chunk) = self.chunk(at) else { return (None, most) };
        let places = &chunk[from..from + most];
        if places[0] == NONE {
            return (None, places.iter().take_while(|&&word| word == NONE).count());
        }
        let place = Place::from_word(places[0]);
        let in_page = places.iter().take(PAGE_BLOCKS - place.offset());
        let count = in_page.zip(places[0]..).take_while(|(word, wanted)| *word == wanted).count();
        (Some(place), count)
    }

    /// Every number with its place.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Place)> {
        let chunks = self.chunks.iter().enumerate();
        chunks.filter_map(|(at, chunk)| Some((at, chunk.places.as_ref()?))).flat_map(|(at, places)| {
            let places = (at * CHUNK..).zip(places.iter());
            places.filter(|(_, word)| **word != NONE).map(|(id, &word)| (id as u64, Place::from_word(word)))
        })
    }
}

#[cfg(test)]
mod tests;
