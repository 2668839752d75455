//! Frames and dumps of `kv-router-transport`.

use kv_router_transport::{BatchCodec, DumpReader, DumpRecord, DumpWriter};

use crate::memory::within;
use crate::{seal, seeds};

/// One frame, as it is and with its checksum put right. What is read is written as it was, to the byte.
pub(super) fn batch(bytes: &[u8]) {
    let codec = BatchCodec::default();
    for frame in [bytes, &seal::frame(bytes)] {
        let Ok(batch) = within(frame.len(), 3, || codec.decode(frame)) else { continue };
        let mut written = Vec::new();
        match codec.encode(&batch, &mut written) {
            Ok(()) => assert_eq!(written, frame),
            Err(error) => panic!("what was read cannot be written: {error}"),
        }
    }
}

/// A dump: memory for one frame and one record, however long it is; what was read to its end is read again as it was.
pub(super) fn dump(bytes: &[u8]) {
    for dump in [bytes, &seal::dump(bytes)] {
        let Ok(mut reader) = within(dump.len(), 3, || DumpReader::new(dump)) else { continue };
        let fingerprint = reader.fingerprint();
        let (mut records, mut watermarks) = (Vec::new(), 0_u64);
        let whole = loop {
            match within(dump.len(), 4, || reader.next()) {
                Some(Ok(record)) => {
                    watermarks += u64::from(matches!(record, DumpRecord::Watermark { .. }));
                    records.push(record);
                }
                Some(Err(_)) => break false,
                None => break true,
            }
        };
        assert!(reader.next().is_none(), "nothing comes behind the end, or an error");
        if !whole {
            continue;
        }
        let behind = reader.into_inner().len();
        let totals = [(records.len() as u64 - watermarks).to_le_bytes(), watermarks.to_le_bytes()].concat();
        assert!(dump[..dump.len() - behind].ends_with(&totals), "the end counts otherwise");
        let written = match write(fingerprint, &records) {
            Ok(written) => written,
            Err(error) => panic!("what was read cannot be written: {error}"),
        };
        let reader = match DumpReader::new(&written[..]) {
            Ok(reader) => reader,
            Err(error) => panic!("what was written cannot be read: {error}"),
        };
        assert_eq!(reader.fingerprint(), fingerprint);
        let again: Vec<_> = reader.map_while(Result::ok).collect();
        assert_eq!(again, records);
    }
}

/// Writes a dump.
pub(super) fn write(
    fingerprint: kv_router_transport::DumpFingerprint,
    records: &[DumpRecord],
) -> Result<Vec<u8>, kv_router_transport::DumpWriteError> {
    let mut writer = DumpWriter::new(Vec::new(), fingerprint)?;
    for record in records {
        match record {
            DumpRecord::Event { from, event } => writer.event(*from, event)?,
            DumpRecord::Watermark { from, watermark } => writer.watermark(*from, *watermark)?,
            DumpRecord::Note { from, bytes } => writer.note(*from, bytes)?,
        }
    }
    writer.finish()
}

pub(super) fn batch_seeds() -> Vec<Vec<u8>> {
    vec![seeds::example("batch")]
}

pub(super) fn dump_seeds() -> Vec<Vec<u8>> {
    vec![seeds::example("dump")]
}
