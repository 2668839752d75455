//! Makes room in a full pair of buckets by moving entries to their other buckets.
//!
//! A breadth-first search finds a shortest chain of moves before anything moves. So a search that gives up has
//! changed nothing, the moves are few, and the same table always does the same: replicas that apply the same
//! changes stay equal to the byte. A bucket may be reached twice, but a shortest chain visits none twice: what leads
//! on from the second visit led on from the first, and that was looked at earlier.

use super::bucket::LANES;
use super::table::{Slot, Table};
use super::tag::{Tag, other_home};

/// The most buckets that one search looks at. At a load of 95 % one in six or so buckets has a free slot, so
/// a handful is the rule.
pub(super) const SEARCHED_BUCKETS: usize = 128;

/// A full bucket that was reached.
#[derive(Clone, Copy, Default)]
struct Reached {
    bucket: usize,
    /// The entry, in the bucket of the node `from`, that would move here; unused in the two first nodes.
    from: u16,
    lane: u8,
    /// Where that entry's home here is.
    home: u32,
}

/// Frees a slot for `tag`, both of whose buckets are full: the home to use and the slot.
pub(super) fn make_room(table: &mut Table, tag: Tag) -> Option<(u32, Slot)> {
    let geometry = table.geometry();
    let mut reached = [Reached::default(); SEARCHED_BUCKETS];
    let mut found = 2;
    for (node, home) in reached.iter_mut().zip(tag.homes()) {
        *node = Reached { bucket: geometry.bucket_of(home), home, ..Reached::default() };
    }

    let mut next = 0;
    while next < found {
        for lane in 0..LANES {
            let slot = Slot { bucket: reached[next].bucket, lane };
            let home = other_home(table.home(slot), table.fingerprint(slot));
            if let Some(free) = table.free_slot(home) {
                table.move_entry(slot, home, free);
                return Some(pull(table, &reached, next, slot));
            }
            if found < SEARCHED_BUCKETS {
                let bucket = geometry.bucket_of(home);
                reached[found] = Reached { bucket, from: next as u16, lane: lane as u8, home };
                found += 1;
            }
        }
        next += 1;
    }
    None
}

/// Moves the free slot `free` in the bucket of `node` back along the chain to a bucket of the tag.
fn pull(table: &mut Table, reached: &[Reached], mut node: usize, mut free: Slot) -> (u32, Slot) {
    // The nodes 0 and 1 are the buckets of the tag itself.
    while node > 1 {
        let Reached { from, lane, home, .. } = reached[node];
        node = usize::from(from);
        let slot = Slot { bucket: reached[node].bucket, lane: usize::from(lane) };
        table.move_entry(slot, home, free);
        free = slot;
    }
    (reached[node].home, free)
}
