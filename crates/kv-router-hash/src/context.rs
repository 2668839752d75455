//! What besides its tokens decides who may share a block: the adapter and the cache salt.

use std::error::Error;
use std::fmt;

/// The adapter and the cache salt that a request runs under: blocks under different ones never agree.
///
/// Nothing is copied and nothing is remembered: a context is two borrowed names, and every call hashes the one it
/// is given.
///
/// ```
/// use kv_router_hash::HashContext;
///
/// let context = HashContext::NONE.with_adapter("sql-expert")?.with_salt("tenant-a")?;
/// assert_eq!(context.adapter(), Some("sql-expert"));
/// assert_eq!(HashContext::NONE.with_adapter("")?, HashContext::NONE);
/// # Ok::<(), kv_router_hash::ContextError>(())
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct HashContext<'a> {
    /// Empty when there is none. Never longer than [`HashContext::MAX_NAME_BYTES`].
    adapter: &'a str,
    /// Empty when there is none. Never longer than [`HashContext::MAX_NAME_BYTES`].
    salt: &'a str,
}

impl<'a> HashContext<'a> {
    /// The base model without a salt.
    pub const NONE: HashContext<'static> = HashContext { adapter: "", salt: "" };

    /// The longest adapter name and the longest salt accepted, in bytes. Section tags of the
    /// [byte layout](crate#byte-layout) are larger than this, so that no name length reads as a tag.
    pub const MAX_NAME_BYTES: usize = 4_096;

    /// The same context under a LoRA adapter; the empty name is the base model.
    ///
    /// # Errors
    ///
    /// [`ContextError::AdapterTooLong`].
    pub const fn with_adapter(self, name: &'a str) -> Result<Self, ContextError> {
        if name.len() > Self::MAX_NAME_BYTES {
            return Err(ContextError::AdapterTooLong { bytes: name.len() });
        }
        Ok(Self { adapter: name, ..self })
    }

    /// The same context under a cache salt, or the namespace of a tenant; the empty salt is none.
    ///
    /// # Errors
    ///
    /// [`ContextError::SaltTooLong`].
    pub const fn with_salt(self, salt: &'a str) -> Result<Self, ContextError> {
        if salt.len() > Self::MAX_NAME_BYTES {
            return Err(ContextError::SaltTooLong { bytes: salt.len() });
        }
        Ok(Self { salt, ..self })
    }

    /// The adapter's name, unless it is the base model.
    pub const fn adapter(&self) -> Option<&'a str> {
        if self.adapter.is_empty() { None } else { Some(self.adapter) }
    }

    /// The cache salt, if there is one.
    pub const fn salt(&self) -> Option<&'a str> {
        if self.salt.is_empty() { None } else { Some(self.salt) }
    }

    /// Whether this is the base model without a salt.
    pub const fn is_none(&self) -> bool {
        self.adapter.is_empty() && self.salt.is_empty()
    }
}

/// Shows how long the salt is, not what it is: tenants rely on nobody else knowing theirs.
impl fmt::Debug for HashContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashContext")
            .field("adapter", &self.adapter())
            .field("salt_bytes", &self.salt.len())
            .finish()
    }
}

/// A name that [`HashContext`] refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContextError {
    /// The adapter name is longer than [`HashContext::MAX_NAME_BYTES`].
    AdapterTooLong {
        /// Its length, in bytes.
        bytes: usize,
    },
    /// The cache salt is longer than [`HashContext::MAX_NAME_BYTES`].
    SaltTooLong {
        /// Its length, in bytes.
        bytes: usize,
    },
}

impl fmt::Display for ContextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = HashContext::MAX_NAME_BYTES;
        match self {
            Self::AdapterTooLong { bytes } => {
                write!(f, "adapter name of {bytes} bytes is over the limit of {limit}: refuse the request")
            }
            Self::SaltTooLong { bytes } => {
                write!(f, "cache salt of {bytes} bytes is over the limit of {limit}: use a digest of it")
            }
        }
    }
}

impl Error for ContextError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_the_field() {
        let longest = "x".repeat(HashContext::MAX_NAME_BYTES);
        let too_long = "x".repeat(HashContext::MAX_NAME_BYTES + 1);
        assert!(HashContext::NONE.with_adapter(&longest).is_ok());
        assert!(HashContext::NONE.with_salt(&longest).is_ok());
        assert_eq!(
            HashContext::NONE.with_adapter(&too_long),
            Err(ContextError::AdapterTooLong { bytes: 4_097 })
        );
        let error = HashContext::NONE.with_salt(&too_long).unwrap_err();
        assert_eq!(error, ContextError::SaltTooLong { bytes: 4_097 });
        assert!(error.to_string().starts_with("cache salt of 4097 bytes"), "{error}");
    }

    #[test]
    fn debug_keeps_the_salt_secret() {
        let context = HashContext::NONE.with_adapter("sql").unwrap().with_salt("hunter2").unwrap();
        let debug = format!("{context:?}");
        assert!(debug.contains("sql") && debug.contains('7') && !debug.contains("hunter2"), "{debug}");
    }
}
