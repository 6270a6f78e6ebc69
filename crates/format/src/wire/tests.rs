use super::*;
use crate::FormatError;

fn varint_bytes(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    Writer::new(&mut out).varint(value);
    out
}

#[test]
fn varints_have_one_form_each() {
    let mut edges = vec![0, u64::MAX];
    for bit in 1..64 {
        edges.extend([(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
    }
    for value in edges {
        let bytes = varint_bytes(value);
        assert_eq!(bytes.len(), varint_len(value), "{value}");
        let mut r = Reader::new("test", &bytes);
        assert_eq!(r.varint().unwrap(), value);
        r.finish().unwrap();

        let mut overlong = bytes.clone();
        *overlong.last_mut().unwrap() |= 0x80;
        overlong.push(0);
        assert!(
            Reader::new("test", &overlong).varint().is_err(),
            "overlong {value}"
        );
        assert!(
            Reader::new("test", &bytes[..bytes.len() - 1]).varint().is_err(),
            "cut off {value}"
        );
    }
    assert!(Reader::new("test", &[0xff; 10]).varint().is_err());
    let beyond = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
    assert!(Reader::new("test", &beyond).varint().is_err());
}

#[test]
fn counts_beyond_the_input_are_refused_before_anything_is_reserved() {
    let mut bytes = varint_bytes(1 << 40);
    bytes.extend([0; 100]);
    assert!(Reader::new("test", &bytes).count(1).is_err());
    let mut bytes = varint_bytes(51);
    bytes.extend([0; 100]);
    assert_eq!(Reader::new("test", &bytes).count(1).unwrap(), 51);
    assert!(Reader::new("test", &bytes).count(2).is_err());
}

#[test]
fn errors_say_where() {
    let mut r = Reader::new("test", &[1, 2, 3]);
    r.u16().unwrap();
    let why = "the bytes end too early";
    assert_eq!(
        r.u16(),
        Err(FormatError::Malformed {
            what: "test",
            offset: 2,
            why
        })
    );
    assert!(r.finish().is_err(), "a byte is left over");
}

#[test]
fn flags_and_reserved_bytes_are_strict() {
    assert!(!Reader::new("test", &[0]).flag().unwrap());
    assert!(Reader::new("test", &[1]).flag().unwrap());
    assert!(Reader::new("test", &[2]).flag().is_err());
    assert!(Reader::new("test", &[0, 0]).reserved::<2>().is_ok());
    assert!(Reader::new("test", &[0, 1]).reserved::<2>().is_err());
}
