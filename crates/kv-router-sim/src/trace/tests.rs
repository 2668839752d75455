//! The reader against good, broken and hostile bytes.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

const GOOD: &str = r#"{"timestamp": 5, "input_length": 600, "output_length": 3, "hash_ids": [7, 8]}"#;

#[track_caller]
fn read(text: &str) -> Trace {
    Trace::read(text.as_bytes()).unwrap()
}

#[track_caller]
fn refused(text: &str, line: u64, fault: LineFault) {
    match Trace::read(text.as_bytes()) {
        Err(TraceError::Line { line: found_line, fault: found }) => {
            assert_eq!((found_line, found), (line, fault))
        }
        other => panic!("expected {fault:?} in line {line}, got {other:?}"),
    }
}

/// The good line with `from` replaced by `to`.
fn broken(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from));
    GOOD.replace(from, to)
}

fn gzip(text: &str) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap()
}

#[test]
fn a_line_becomes_a_record() {
    let trace = read(GOOD);
    let [record] = trace.records() else { panic!("{trace:?}") };
    assert_eq!((record.timestamp_ms, record.output_tokens, record.prompt.token_count()), (5, 3, 600));
    assert_eq!(record.prompt.piece_ids(), [7, 8]);
    assert_eq!(trace.skipped(), 0);
}

#[test]
fn gzip_is_told_by_its_first_bytes_and_may_have_several_members() {
    let text = format!("{GOOD}\n\n{GOOD}\n");
    assert_eq!(Trace::read(&gzip(&text)[..]).unwrap(), read(&text));
    let twice = [gzip(&text), gzip(&text)].concat();
    assert_eq!(Trace::read(&twice[..]).unwrap().records().len(), 4);
}

#[test]
fn a_broken_line_names_itself_and_its_field() {
    let good_then = |bad: &str| format!("{GOOD}\n{bad}\n{GOOD}\n");
    for (name, field) in [
        ("timestamp", Field::Timestamp),
        ("input_length", Field::InputLength),
        ("output_length", Field::OutputLength),
        ("hash_ids", Field::HashIds),
    ] {
        refused(&good_then(&broken(name, "other")), 2, LineFault::Missing { field });
    }
    refused(&broken(": 5,", ": \"5\","), 1, LineFault::WrongType { field: Field::Timestamp });
    refused(&broken(": 5,", ": -5,"), 1, LineFault::WrongType { field: Field::Timestamp });
    refused(&broken("600", "600.5"), 1, LineFault::WrongType { field: Field::InputLength });
    refused(&broken("[7, 8]", "7"), 1, LineFault::WrongType { field: Field::HashIds });
    refused(&broken("[7, 8]", "[7, null]"), 1, LineFault::WrongType { field: Field::HashIds });
    let wide = u64::from(u32::MAX);
    refused(&broken("600", "0"), 1, LineFault::OutOfRange { field: Field::InputLength, min: 1, max: wide });
    refused(
        &broken("600", "5000000000"),
        1,
        LineFault::OutOfRange { field: Field::InputLength, min: 1, max: wide },
    );
    refused(
        &broken(": 3", ": 0"),
        1,
        LineFault::OutOfRange { field: Field::OutputLength, min: 1, max: 1 << 24 },
    );
    refused(&broken("[7, 8]", "[7]"), 1, LineFault::Coverage { needed: 2, found: 1 });
    refused(&broken("[7, 8]", "[]"), 1, LineFault::Coverage { needed: 2, found: 0 });
    refused(&broken("600", "512"), 1, LineFault::Coverage { needed: 1, found: 2 });
    refused(&good_then(&broken(": 5", ": 4")), 2, LineFault::Unsorted { previous_ms: 5, found_ms: 4 });
    refused(&good_then("[1, 2]"), 2, LineFault::NotAnObject { column: 0 });
    refused("{\"timestamp\": 5,", 1, LineFault::NotAnObject { column: 16 });
    refused("\u{fffd}", 1, LineFault::NotAnObject { column: 1 });
}

#[test]
fn messages_carry_line_and_field() {
    let error = Trace::read(format!("{GOOD}\n{}", broken("600", "0")).as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "trace line 2: `input_length` is outside 1..=4294967295");
    let TraceError::Line { fault, .. } = error else { panic!() };
    assert_eq!(fault.field(), Some(Field::InputLength));
}

#[test]
fn broken_lines_are_skipped_up_to_the_allowance() {
    let text = format!("nonsense\n{GOOD}\n{}\n{GOOD}\n", broken("600", "0"));
    let options = ReadOptions { max_skipped: 2, ..ReadOptions::default() };
    let trace = Trace::read_with(text.as_bytes(), options).unwrap();
    assert_eq!((trace.records().len(), trace.skipped()), (2, 2));

    let options = ReadOptions { max_skipped: 1, ..options };
    let error = Trace::read_with(text.as_bytes(), options).unwrap_err();
    assert!(matches!(error, TraceError::Line { line: 3, .. }), "{error:?}");
}

#[test]
fn a_line_may_be_as_long_as_the_limit_and_no_longer() {
    let options = ReadOptions { max_line_bytes: GOOD.len(), max_skipped: 1, ..ReadOptions::default() };
    let strict = ReadOptions { max_skipped: 0, ..options };
    for end in ["", "\n"] {
        let text = format!("{GOOD}{end}");
        assert_eq!(Trace::read_with(text.as_bytes(), strict).unwrap().records().len(), 1);
    }
    let text = format!("{GOOD}\n{GOOD} {}\n{GOOD}\n", " ".repeat(10_000));
    let error = Trace::read_with(text.as_bytes(), strict).unwrap_err();
    let fault = LineFault::TooLong { limit: GOOD.len() };
    assert!(matches!(error, TraceError::Line { line: 2, fault: found } if found == fault), "{error:?}");
    let trace = Trace::read_with(text.as_bytes(), options).unwrap();
    assert_eq!((trace.records().len(), trace.skipped()), (2, 1));
}

#[test]
fn an_endless_line_is_never_kept() {
    // 64 MiB of one line against a limit of 64 bytes: the buffer stays at the limit.
    let endless = io::repeat(b'x').take(64 << 20);
    let options = ReadOptions { max_line_bytes: 64, ..ReadOptions::default() };
    let error = Trace::read_with(endless, options).unwrap_err();
    assert!(
        matches!(error, TraceError::Line { line: 1, fault: LineFault::TooLong { limit: 64 } }),
        "{error:?}"
    );
}

#[test]
fn nothing_to_replay_is_an_error() {
    assert!(matches!(Trace::read(&b""[..]), Err(TraceError::Empty)));
    assert!(matches!(Trace::read(&b"\n \n"[..]), Err(TraceError::Empty)));
    assert!(matches!(Trace::read(&b"{"[..]), Err(TraceError::Line { line: 1, .. })));
}

#[test]
fn too_many_requests() {
    let options = ReadOptions { max_requests: 2, ..ReadOptions::default() };
    let text = format!("{GOOD}\n{GOOD}\n\n");
    assert!(Trace::read_with(text.as_bytes(), options).is_ok());
    let error = Trace::read_with(format!("{text}{GOOD}").as_bytes(), options).unwrap_err();
    assert!(matches!(error, TraceError::TooManyRequests { limit: 2 }), "{error:?}");
}

#[test]
fn a_damaged_archive_is_a_read_error() {
    let mut packed = gzip(&format!("{GOOD}\n").repeat(100));
    packed.truncate(packed.len() - 9);
    let error = Trace::read(&packed[..]).unwrap_err();
    assert!(matches!(error, TraceError::Read { .. }), "{error:?}");
}

#[test]
fn the_sample_is_whole() {
    let trace = Trace::sample().unwrap();
    assert_eq!((trace.records().len(), trace.span_ms()), (6_000, 1_872_000));
}

#[test]
fn records_make_a_trace_when_they_are_in_order() {
    let record = |timestamp_ms| TraceRecord {
        timestamp_ms,
        prompt: Prompt::new(vec![1], 64).unwrap(),
        output_tokens: 1,
    };
    let trace = Trace::from_records(vec![record(3), record(3), record(9)]).unwrap();
    assert_eq!((trace.records().len(), trace.span_ms()), (3, 6));
    assert!(matches!(Trace::from_records(vec![]), Err(TraceError::Empty)));
    let fault = LineFault::Unsorted { previous_ms: 9, found_ms: 3 };
    let unsorted = Trace::from_records(vec![record(1), record(9), record(3)]);
    assert!(matches!(unsorted, Err(TraceError::Line { line: 3, fault: found }) if found == fault));
}
