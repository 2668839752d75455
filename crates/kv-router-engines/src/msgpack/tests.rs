//! The reader against the writer, and against bytes that no writer makes.

use proptest::prelude::*;

use super::*;

fn written(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut Writer::new(&mut out));
    out
}

#[derive(Clone, Debug)]
enum Value {
    Nil,
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Str(String),
    Bin(Vec<u8>),
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
}

impl Value {
    fn write(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Nil => writer.nil(),
            Self::Unsigned(value) => writer.unsigned(*value),
            Self::Signed(value) => writer.signed(*value),
            Self::Float(value) => writer.f64(*value),
            Self::Str(value) => writer.str(value),
            Self::Bin(value) => writer.bin(value),
            Self::Array(values) => {
                writer.array(values.len());
                values.iter().for_each(|value| value.write(writer));
            }
            Self::Map(pairs) => {
                writer.map(pairs.len());
                pairs.iter().for_each(|(key, value)| {
                    key.write(writer);
                    value.write(writer);
                });
            }
        }
    }

    fn check(&self, reader: &mut Reader<'_>) {
        match self {
            Self::Nil => assert_eq!(reader.nil(), Ok(true)),
            Self::Unsigned(value) => {
                assert_eq!(reader.int(), Ok(Some(Int { bits: *value, negative: false })));
            }
            Self::Signed(value) => {
                let int = Int { bits: value.cast_unsigned(), negative: *value < 0 };
                assert_eq!(reader.int(), Ok(Some(int)));
            }
            Self::Float(value) => assert_eq!(reader.number(), Ok(Some(*value))),
            Self::Str(value) => assert_eq!(reader.str(), Ok(Some(value.as_bytes()))),
            Self::Bin(value) => assert_eq!(reader.bin(), Ok(Some(value.as_slice()))),
            Self::Array(values) => {
                assert_eq!(reader.array(), Ok(Some(values.len())));
                values.iter().for_each(|value| value.check(reader));
            }
            Self::Map(pairs) => {
                assert_eq!(reader.map(), Ok(Some(pairs.len())));
                pairs.iter().for_each(|(key, value)| {
                    key.check(reader);
                    value.check(reader);
                });
            }
        }
    }
}

/// Lengths around every limit of a form.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![0..40usize, 250..260usize, Just(65_535), Just(65_536)]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Nil),
        any::<u64>().prop_map(Value::Unsigned),
        (0..64u32, any::<u64>()).prop_map(|(shift, bits)| Value::Unsigned(bits >> shift)),
        (0..64u32, any::<i64>()).prop_map(|(shift, bits)| Value::Signed(bits >> shift)),
        (-1e300..1e300f64).prop_map(Value::Float),
        length().prop_map(|length| Value::Str("x".repeat(length))),
        length().prop_map(|length| Value::Bin(vec![7; length])),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Value::Array),
            prop::collection::vec((inner.clone(), inner), 0..18).prop_map(Value::Map),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_is_written_is_read(value in value()) {
        let bytes = written(|writer| value.write(writer));
        let mut reader = Reader::new(&bytes);
        value.check(&mut reader);
        prop_assert_eq!(reader.left(), 0);

        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(reader.skip(), Ok(()));
        prop_assert_eq!(reader.left(), 0);
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(reader.skip_shallow::<32>(), Ok(true));
        prop_assert_eq!(reader.left(), 0);
    }

    #[test]
    fn many_tokens_at_once_are_the_same_as_one_by_one(tokens in prop::collection::vec(0..100_000u64, 0..40)) {
        let bytes = written(|writer| tokens.iter().for_each(|&token| writer.unsigned(token)));
        let mut out = vec![0; tokens.len() + 1];
        let mut reader = Reader::new(&bytes);
        let filled = reader.smalls(&mut out);
        let rest: Vec<u32> = std::iter::from_fn(|| reader.small().ok().flatten()).collect();
        let all: Vec<u64> = out[..filled].iter().chain(&rest).map(|&token| u64::from(token)).collect();
        prop_assert_eq!(all, tokens);
    }

    #[test]
    fn a_cut_is_noticed(value in value(), at in any::<prop::sample::Index>()) {
        let bytes = written(|writer| value.write(writer));
        let cut = &bytes[..at.index(bytes.len())];
        prop_assert!(Reader::new(cut).skip().is_err());
        prop_assert!(Reader::new(cut).skip_shallow::<32>().is_err());
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let skipped = Reader::new(&bytes).skip();
        let shallow = Reader::new(&bytes).skip_shallow::<32>();
        prop_assert_eq!(skipped.is_ok(), shallow == Ok(true), "32 levels hold whatever 64 bytes nest");
        let mut reader = Reader::new(&bytes);
        while let Ok(kind) = reader.kind() {
            let moved = match kind {
                Kind::Nil => reader.nil().is_ok(),
                Kind::Int => reader.int().is_ok(),
                Kind::Float => reader.number().is_ok(),
                Kind::Str => reader.str().is_ok(),
                Kind::Bin => reader.bin().is_ok(),
                Kind::Array => reader.array().is_ok(),
                Kind::Map => reader.map().is_ok(),
                Kind::Bool | Kind::Ext => reader.skip().is_ok(),
            };
            if !moved {
                break;
            }
        }
    }
}

#[test]
fn a_typed_read_does_not_move_on_another_type() {
    let bytes = written(|writer| writer.str("token"));
    let mut reader = Reader::new(&bytes);
    assert_eq!(reader.int(), Ok(None));
    assert_eq!(reader.small(), Ok(None));
    assert_eq!(reader.array(), Ok(None));
    assert_eq!(reader.nil(), Ok(false));
    assert_eq!(reader.at(), 0);
    for wide in [written(|writer| writer.unsigned(1 << 32)), written(|writer| writer.signed(-1))] {
        let mut reader = Reader::new(&wide);
        assert_eq!(reader.small(), Ok(None));
        assert_eq!(reader.at(), 0);
    }
}

#[test]
fn lengths_are_not_believed() {
    for bomb in
        [&[0xdd, 0xff, 0xff, 0xff, 0xff, 0][..], &[0xdf, 5, 0, 0, 0, 0], &[0xc6, 5, 0, 0, 0], &[0x92, 0]]
    {
        assert!(matches!(Reader::new(bomb).skip(), Err(Broken::Truncated { .. })), "{bomb:?}");
        assert!(Reader::new(bomb).skip_shallow::<4>().is_err());
    }
    assert_eq!(Reader::new(&[0xc1]).skip(), Err(Broken::Reserved { at: 0 }));
}

#[test]
fn nesting_is_counted_only_where_it_is_asked_for() {
    let bomb = [vec![0x91; 100_000], vec![0]].concat();
    assert_eq!(Reader::new(&bomb).skip(), Ok(()));
    let mut reader = Reader::new(&bomb);
    assert_eq!(reader.skip_shallow::<32>(), Ok(false));
    assert_eq!(reader.at(), 0);
    let just = [vec![0x91; 32], vec![0]].concat();
    assert_eq!(Reader::new(&just).skip_shallow::<32>(), Ok(true));
}
