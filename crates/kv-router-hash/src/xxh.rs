//! XXH3-64 under the one seed that the field uses.

use xxhash_rust::const_xxh3::const_custom_default_secret;
use xxhash_rust::xxh3::{SecretInput, xxh3_64_with_secret_input, xxh3_64_with_seed};

/// Changing it makes every hash of every deployed router and publisher disagree.
const SEED: u64 = 1337;

/// The longest input, in bytes, that XXH3 hashes with the seed itself; longer ones use a secret derived from it.
const LAST_SEEDED: usize = 240;

/// The secret that XXH3 derives from [`SEED`] anew at every call, derived once instead: for blocks of 64 tokens
/// that derivation is more than a third of the time.
static SECRET: SecretInput<[u8; 192]> = SecretInput::new(const_custom_default_secret(SEED));

/// XXH3-64 of `bytes` under the seed 1337.
#[inline(always)]
pub(crate) fn xxh3(bytes: &[u8]) -> u64 {
    if bytes.len() > LAST_SEEDED {
        xxh3_64_with_secret_input(bytes, &SECRET)
    } else {
        xxh3_64_with_seed(bytes, SEED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_precomputed_secret_changes_no_value() {
        let bytes: Vec<u8> = (0..3_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for length in 0..bytes.len() {
            let input = &bytes[..length];
            assert_eq!(xxh3(input), xxh3_64_with_seed(input, SEED), "{length} bytes");
        }
    }
}
