//! Messages of ZeroMQ.

use kv_router_zmq::{Endpoint, soak};

use crate::input::{Choices, framed};
use crate::memory::within;

/// The longest frame that is taken.
const LIMIT: usize = 64;

/// Some frames, taken for a live message and for a replayed one, and compared with what docs say of both.
pub(super) fn message(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let mut frames = Vec::new();
    for _ in 0..choices.below(7) {
        frames.push(choices.bytes());
    }
    let fits = frames.iter().all(|frame| frame.len() <= LIMIT);
    // Of the frames behind the fourth nothing is kept.
    let (live, replayed) =
        within(bytes.len(), 8, || (soak::live(&frames, LIMIT).ok(), soak::replayed(&frames, LIMIT).ok()));
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).ok();
    let expected = match frames[..] {
        [_, sequence, payload] if fits && !payload.is_empty() => {
            number(sequence).map(|sequence| (sequence, payload.to_vec()))
        }
        _ => None,
    };
    assert_eq!(live, expected);
    let expected = match frames[..] {
        [[], sequence, payload] | [[], _, sequence, payload] if fits => match (number(sequence), payload) {
            (Some(u64::MAX), []) => Some(None),
            (None, _) | (_, []) => None,
            (Some(sequence), _) => Some(Some((sequence, payload.to_vec()))),
        },
        _ => None,
    };
    assert_eq!(replayed, expected);
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(endpoint) = Endpoint::new(text)
    {
        assert_eq!(endpoint.as_str(), text);
        assert!(text.len() <= 512 && (text.starts_with("tcp://") || text.starts_with("ipc://")));
    }
}

pub(super) fn message_seeds() -> Vec<Vec<u8>> {
    let message = |frames: &[&[u8]]| {
        let framed: Vec<u8> = frames.iter().flat_map(|frame| framed(frame)).collect();
        [&[frames.len() as u8][..], &framed].concat()
    };
    let one = 1_u64.to_be_bytes();
    vec![
        message(&[b"kv-events", &one, b"payload"]),
        message(&[b"", &one, b"payload"]),
        message(&[b"", b"kv-events", &one, b"payload"]),
        message(&[b"", &[0xff; 8], b""]),
        message(&[b"", b"", &[0xff; 8], b""]),
        message(&[b"", b"", &[0xff; 8], b"", b""]),
        b"tcp://127.0.0.1:5557".to_vec(),
        b"ipc:///run/engine.sock".to_vec(),
        b"tcp://*:*".to_vec(),
    ]
}
