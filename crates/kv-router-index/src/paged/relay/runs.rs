//! Numbers that come one by one, as runs.

use crate::paged::id::{BlockId, BlockRun};

/// Runs of numbers, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Runs(Vec<Run>);

/// Numbers that came one after the other, up or down.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u32,
    len: u32,
    falls: bool,
}

impl Run {
    fn end(self) -> u64 {
        u64::from(self.first) + u64::from(self.len)
    }
}

impl Runs {
    #[inline]
    pub(super) fn push(&mut self, id: BlockId) {
        let id = id.get();
        if let Some(run) = self.0.last_mut() {
            if run.end() == u64::from(id) && (run.len == 1 || !run.falls) {
                (run.len, run.falls) = (run.len + 1, false);
                return;
            }
            if id.checked_add(1) == Some(run.first) && (run.len == 1 || run.falls) {
                (run.first, run.len, run.falls) = (id, run.len + 1, true);
                return;
            }
        }
        self.0.push(Run { first: id, len: 1, falls: false });
    }

    /// The numbers in the order in which they came.
    pub(super) fn in_order(self) -> Vec<BlockRun> {
        let single = |id| BlockRun::new(BlockId::new(id), 1);
        if self.0.iter().all(|run| !run.falls) {
            return self.0.into_iter().map(|run| BlockRun::new(BlockId::new(run.first), run.len)).collect();
        }
        let mut runs = Vec::new();
        for run in self.0 {
            if run.falls {
                runs.extend((0..run.len).rev().map(|at| single(run.first + at)));
            } else {
                runs.push(BlockRun::new(BlockId::new(run.first), run.len));
            }
        }
        runs
    }

    /// The numbers as a set: the fewest runs, from the lowest up. No number has come twice.
    pub(super) fn merged(mut self) -> Vec<BlockRun> {
        self.0.sort_unstable_by_key(|run| run.first);
        self.0.dedup_by(|run, before| {
            let continues = before.end() == u64::from(run.first);
            if continues {
                before.len += run.len;
            }
            continues
        });
        self.0.into_iter().map(|run| BlockRun::new(BlockId::new(run.first), run.len)).collect()
    }
}
