//! From a page to the rank's record of it.

use super::record::Record;
use super::table::{Home, Table};

/// Bits of a record's number.
const RECORD: u32 = 23;

/// The table: record numbers, verified by the page that the record names.
#[derive(Debug)]
pub(super) struct PageMap(Table);

impl Default for PageMap {
    fn default() -> Self {
        Self(Table::new(RECORD))
    }
}

impl PageMap {
    /// Bytes allocated.
    pub(super) fn bytes(&self) -> usize {
        self.0.bytes()
    }

    #[inline]
    fn home(&self, page: u32) -> Home {
        let wide = u64::from(page).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0.home(wide ^ wide >> 32)
    }

    /// The record of a page.
    #[inline]
    pub(super) fn get(&self, page: u32, records: &[Record]) -> Option<u32> {
        let found =
            self.0.find(self.home(page), |record| (records[record as usize].page == page).then_some(record));
        found.map(|(_, record)| record)
    }

    /// Adds a page that is not in. All others are in `records`; that one may be.
    pub(super) fn insert(&mut self, page: u32, record: u32, records: &[Record]) {
        if let Some(buckets) = self.0.wants_growth(1) {
            self.rewrite(buckets, records, record);
        }
        self.0.insert(self.home(page), record);
    }

    /// Takes a page out.
    pub(super) fn remove(&mut self, page: u32, record: u32, records: &[Record]) {
        let known = self.0.remove(self.home(page), record);
        debug_assert!(known, "the page of a record is in the table");
        if let Some(buckets) = self.0.wants_shrinking() {
            self.rewrite(buckets, records, record);
        }
    }

    #[cold]
    fn rewrite(&mut self, buckets: usize, records: &[Record], but: u32) {
        self.0.reset(buckets, RECORD);
        for (at, record) in (0..).zip(records) {
            if record.page != super::words::ROOT && at != but {
                self.0.insert(self.home(record.page), at);
            }
        }
    }
}
