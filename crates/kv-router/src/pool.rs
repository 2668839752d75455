//! Buffers that decisions reuse, so that one allocates nothing in steady state.

use parking_lot::Mutex;

/// A bounded stack of idle buffers. More threads than buffers only means that a few are made anew.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    idle: Mutex<Vec<T>>,
    most: usize,
}

impl<T> Pool<T> {
    pub(crate) fn new(most: usize) -> Self {
        Self { idle: Mutex::new(Vec::new()), most }
    }

    /// Lends a buffer to `work`. The lock is held for the push and the pop only.
    pub(crate) fn with<R>(&self, make: impl FnOnce() -> T, work: impl FnOnce(&mut T) -> R) -> R {
        let idle = self.idle.lock().pop();
        let mut buffer = idle.unwrap_or_else(make);
        let result = work(&mut buffer);
        let mut idle = self.idle.lock();
        if idle.len() < self.most {
            idle.push(buffer);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_and_stay_bounded() {
        let pool: Pool<Vec<u8>> = Pool::new(1);
        pool.with(Vec::new, |outer| {
            outer.push(1);
            pool.with(Vec::new, |inner| inner.push(2));
        });
        assert_eq!(pool.idle.lock().len(), 1);
        // The inner one came back first; the outer one found no room.
        pool.with(|| unreachable!("one is idle"), |buffer| assert_eq!(*buffer, [2]));
    }
}
