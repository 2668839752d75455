//! CRC-32 (IEEE 802.3, reflected, as in zlib and gzip): tells a damaged frame from a whole one.
//!
//! It finds every error that lies within 32 bits, and all but one in 2^32 of the others. It is no signature.

/// `TABLES[k][b]` is the remainder of byte `b` followed by `k` zero bytes.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0u32; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            remainder = if remainder & 1 == 1 { (remainder >> 1) ^ 0xEDB8_8320 } else { remainder >> 1 };
            bit += 1;
        }
        tables[0][byte] = remainder;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < 8 {
        let mut byte = 0;
        while byte < 256 {
            let shorter = tables[zeros - 1][byte];
            tables[zeros][byte] = (shorter >> 8) ^ tables[0][(shorter & 0xFF) as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

/// CRC-32 (IEEE 802.3, as in zlib) of `parts`, one after the other: the checksum of frames, for others that write some.
pub fn crc32(parts: [&[u8]; 2]) -> u32 {
    !parts.into_iter().fold(!0, update)
}

/// Eight bytes a step: one at a time is too slow for a dump.
fn update(mut crc: u32, bytes: &[u8]) -> u32 {
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        let [a, b, c, d] = (crc ^ u32::from_le_bytes([word[0], word[1], word[2], word[3]])).to_le_bytes();
        crc = TABLES[7][usize::from(a)]
            ^ TABLES[6][usize::from(b)]
            ^ TABLES[5][usize::from(c)]
            ^ TABLES[4][usize::from(d)]
            ^ TABLES[3][usize::from(word[4])]
            ^ TABLES[2][usize::from(word[5])]
            ^ TABLES[1][usize::from(word[6])]
            ^ TABLES[0][usize::from(word[7])];
    }
    for &byte in tail {
        crc = (crc >> 8) ^ TABLES[0][((crc ^ u32::from(byte)) & 0xFF) as usize];
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::crc32;

    #[test]
    fn agrees_with_the_published_check_value() {
        assert_eq!(crc32([b"123456789", b""]), 0xCBF4_3926);
        assert_eq!(crc32([b"", b""]), 0);
    }

    #[test]
    fn does_not_care_where_the_bytes_are_cut() {
        let bytes: Vec<u8> = (0..100u8).collect();
        for cut in 0..=bytes.len() {
            assert_eq!(crc32([&bytes[..cut], &bytes[cut..]]), crc32([&bytes, b""]));
        }
    }
}
