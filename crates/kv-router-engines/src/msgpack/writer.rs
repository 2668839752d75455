//! Appends values to a vector, each in its shortest form, as the engines' own encoder does.

/// Where values are appended.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    pub(crate) fn nil(&mut self) {
        self.out.push(0xc0);
    }

    pub(crate) fn f64(&mut self, value: f64) {
        self.out.push(0xcb);
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn unsigned(&mut self, value: u64) {
        if value < 0x80 {
            self.out.push(value as u8);
        } else if let Ok(value) = u8::try_from(value) {
            self.out.extend_from_slice(&[0xcc, value]);
        } else if let Ok(value) = u16::try_from(value) {
            self.head(0xcd, &value.to_be_bytes());
        } else if let Ok(value) = u32::try_from(value) {
            self.head(0xce, &value.to_be_bytes());
        } else {
            self.head(0xcf, &value.to_be_bytes());
        }
    }

    pub(crate) fn signed(&mut self, value: i64) {
        if let Ok(value) = u64::try_from(value) {
            self.unsigned(value);
        } else if value >= -32 {
            self.out.push((value as i8).cast_unsigned());
        } else if let Ok(value) = i8::try_from(value) {
            self.head(0xd0, &value.to_be_bytes());
        } else if let Ok(value) = i16::try_from(value) {
            self.head(0xd1, &value.to_be_bytes());
        } else if let Ok(value) = i32::try_from(value) {
            self.head(0xd2, &value.to_be_bytes());
        } else {
            self.head(0xd3, &value.to_be_bytes());
        }
    }

    pub(crate) fn str(&mut self, value: &str) {
        match value.len() {
            length @ 0..=31 => self.out.push(0xa0 | length as u8),
            length @ 32..=0xff => self.out.extend_from_slice(&[0xd9, length as u8]),
            length @ 0x100..=0xffff => self.head(0xda, &(length as u16).to_be_bytes()),
            length => self.head(0xdb, &declared(length)),
        }
        self.out.extend_from_slice(value.as_bytes());
    }

    pub(crate) fn bin(&mut self, value: &[u8]) {
        match value.len() {
            length @ 0..=0xff => self.out.extend_from_slice(&[0xc4, length as u8]),
            length @ 0x100..=0xffff => self.head(0xc5, &(length as u16).to_be_bytes()),
            length => self.head(0xc6, &declared(length)),
        }
        self.out.extend_from_slice(value);
    }

    /// Starts an array of `length` values.
    pub(crate) fn array(&mut self, length: usize) {
        match length {
            0..=15 => self.out.push(0x90 | length as u8),
            16..=0xffff => self.head(0xdc, &(length as u16).to_be_bytes()),
            _ => self.head(0xdd, &declared(length)),
        }
    }

    /// Starts a map of `length` pairs.
    pub(crate) fn map(&mut self, length: usize) {
        match length {
            0..=15 => self.out.push(0x80 | length as u8),
            16..=0xffff => self.head(0xde, &(length as u16).to_be_bytes()),
            _ => self.head(0xdf, &declared(length)),
        }
    }

    /// Appends a value that is MessagePack already.
    pub(crate) fn raw(&mut self, value: &[u8]) {
        self.out.extend_from_slice(value);
    }

    fn head(&mut self, marker: u8, value: &[u8]) {
        self.out.push(marker);
        self.out.extend_from_slice(value);
    }
}

/// A length in 32 bits, which is all that the format has: 4 GiB in one value is beyond every limit here.
fn declared(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()
}
