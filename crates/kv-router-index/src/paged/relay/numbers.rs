//! Which numbers are free, and which of them to give out next.

/// Numbers of one line: as many as a cache line of the router's array has.
const LINE: usize = 16;
/// Numbers beyond twice those in use that may lie idle before lines are filled up.
const IDLE: usize = 4096;
/// Runs of empty lines that are looked at for one that is long enough.
const LOOKS: usize = 32;

/// The numbers below a limit: 1.25 bits each, as far as they were ever needed.
#[derive(Debug)]
pub(super) struct Numbers {
    /// A bit for each number in use, and for each that does not exist.
    lines: Vec<u16>,
    /// Lines with none in use.
    empty: Bits,
    /// Lines with one that is free.
    open: Bits,
    in_use: usize,
    limit: usize,
    /// Where to look next.
    cursor: usize,
}

impl Numbers {
    pub(super) fn new(limit: usize) -> Self {
        let (lines, empty, open) = (Vec::new(), Bits::default(), Bits::default());
        Self { lines, empty, open, in_use: 0, limit, cursor: 0 }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes allocated.
    pub(super) fn bytes(&self) -> usize {
        self.lines.capacity() * 2 + self.empty.bytes() + self.open.bytes()
    }

    /// A free number, the first of `left` that will be needed: the one after `before`, or else where there is room for
    /// the others.
    #[inline]
    pub(super) fn take(&mut self, before: Option<u32>, left: usize) -> Option<u32> {
        if let Some(before) = before {
            let next = before as usize + 1;
            if next == self.lines.len() * LINE {
                self.grow();
            }
            if self.lines.get(next / LINE).is_some_and(|line| line >> (next % LINE) & 1 == 0) {
                self.set(next);
                return Some(next as u32);
            }
        }
        let line = self.find(left.div_ceil(LINE))?;
        let id = line * LINE + self.lines[line].trailing_ones() as usize;
        self.cursor = line + 1;
        self.set(id);
        Some(id as u32)
    }

    /// A line to go on at, if possible the first of so many empty ones.
    #[cold]
    fn find(&mut self, want: usize) -> Option<usize> {
        let longest = self.empty.longest(self.cursor, want);
        if let Some((line, _)) = longest.filter(|&(_, len)| len >= want) {
            return Some(line);
        }
        if (self.lines.len() + want) * LINE <= 2 * self.in_use + IDLE && self.grow() {
            return Some(self.lines.len() - 1);
        }
        let line = longest.map(|(line, _)| line).or_else(|| self.open.next_or_first(self.cursor));
        line.or_else(|| self.grow().then(|| self.lines.len() - 1))
    }

    /// Adds a line, unless that is beyond the limit.
    fn grow(&mut self) -> bool {
        let from = self.lines.len() * LINE;
        if from >= self.limit {
            return false;
        }
        let line = self.lines.len();
        let missing = (from + LINE).saturating_sub(self.limit);
        self.lines.push(if missing == 0 { 0 } else { u16::MAX << (LINE - missing) });
        self.empty.set(line, missing == 0);
        self.open.set(line, true);
        true
    }

    fn set(&mut self, id: usize) {
        let line = &mut self.lines[id / LINE];
        if *line == 0 {
            self.empty.set(id / LINE, false);
        }
        *line |= 1 << (id % LINE);
        if *line == u16::MAX {
            self.open.set(id / LINE, false);
        }
        self.in_use += 1;
    }

    /// Takes a number back.
    pub(super) fn free(&mut self, id: u32) {
        let id = id as usize;
        let line = &mut self.lines[id / LINE];
        debug_assert!(*line >> (id % LINE) & 1 != 0, "a number is given out before it comes back");
        if *line == u16::MAX {
            self.open.set(id / LINE, true);
        }
        *line &= !(1 << (id % LINE));
        if *line == 0 {
            self.empty.set(id / LINE, true);
        }
        self.in_use -= 1;
    }

    /// Numbers in use.
    pub(super) fn used(&self) -> impl Iterator<Item = u32> {
        let limit = self.limit;
        let bits = |(at, &line): (usize, &u16)| {
            (0..LINE).filter(move |bit| line >> bit & 1 != 0).map(move |bit| at * LINE + bit)
        };
        self.lines.iter().enumerate().flat_map(bits).filter(move |&id| id < limit).map(|id| id as u32)
    }
}

/// A set of lines.
#[derive(Debug, Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn bytes(&self) -> usize {
        self.0.capacity() * 8
    }

    fn set(&mut self, at: usize, value: bool) {
        if self.0.len() <= at / 64 {
            self.0.resize(at / 64 + 1, 0);
        }
        let bit = 1 << (at % 64);
        if value { self.0[at / 64] |= bit } else { self.0[at / 64] &= !bit }
    }

    /// The first from `from` on that is in the set, or, with `invert`, that is not.
    fn next(&self, from: usize, invert: u64) -> Option<usize> {
        let mut word = (self.0.get(from / 64)? ^ invert) & u64::MAX << (from % 64);
        let mut at = from / 64;
        while word == 0 {
            at += 1;
            word = self.0.get(at)? ^ invert;
        }
        Some(at * 64 + word.trailing_zeros() as usize)
    }

    fn next_or_first(&self, from: usize) -> Option<usize> {
        self.next(from, 0).or_else(|| self.next(0, 0))
    }

    /// The first run of at least `want`, looking from `from` on and then from the beginning; the longest of those that
    /// were looked at if there is none.
    fn longest(&self, from: usize, want: usize) -> Option<(usize, usize)> {
        let mut best: Option<(usize, usize)> = None;
        let (mut at, mut has_turned) = (from, false);
        for _ in 0..LOOKS {
            let Some(first) = self.next(at, 0) else {
                if has_turned {
                    break;
                }
                (at, has_turned) = (0, true);
                continue;
            };
            let end = self.next(first, u64::MAX).unwrap_or(self.0.len() * 64);
            if best.is_none_or(|(_, len)| len < end - first) {
                best = Some((first, end - first));
            }
            if end - first >= want {
                break;
            }
            at = end;
        }
        best
    }
}

#[cfg(test)]
mod tests;
