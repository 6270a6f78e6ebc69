//! The list of ways to damage an object (docs/testing.md, "Damage").

use std::ops::Range;

use format::config::CONFIG_MAGIC;
use format::container::{
    CONTAINER_MAGIC, ContainerTail, FOOTER_BYTES, HEADER_BYTES, REGION_ROW_BYTES, TailParse,
};
use format::frame::{DIGEST_BYTES, FRAME_HEADER_BYTES, FRAME_MAGIC, TAG_BYTES};
use types::ObjectName;

use super::{Objects, is_long};

/// One way to damage one object.
#[derive(Debug, Clone)]
pub(crate) enum Way {
    /// One bit of the byte at this place is inverted. The field is named for people.
    Flip { at: usize, bit: u8, field: String },
    /// The object ends here.
    Truncate { len: usize },
    /// Bytes follow the object's end.
    Extend,
    /// These bytes are zeros.
    Zeros { range: Range<usize>, field: String },
    /// The object does not exist.
    Delete,
    /// The two objects have each other's bytes.
    Swap { with: ObjectName },
    /// The newer object has an older object's bytes.
    Older { from: ObjectName },
}

impl Way {
    /// Damages the object.
    pub(crate) fn apply(&self, objects: &mut Objects, former: &Objects, name: &ObjectName) {
        let bytes = objects.entry(name.clone()).or_default();
        match self {
            Self::Flip { at, bit, .. } => bytes[*at] ^= 1 << bit,
            Self::Truncate { len } => bytes.truncate(*len),
            Self::Extend => bytes.extend_from_slice(b"more"),
            Self::Zeros { range, .. } => bytes[range.clone()].fill(0),
            Self::Delete => _ = objects.remove(name),
            Self::Swap { with } => {
                let ours = objects[name].clone();
                let theirs = objects.insert(with.clone(), ours).unwrap();
                objects.insert(name.clone(), theirs);
            }
            Self::Older { from } => {
                let older = objects.get(from).or_else(|| former.get(from)).unwrap().clone();
                objects.insert(name.clone(), older);
            }
        }
    }
}

/// The fields of an object, by name, as in docs/format.md.
pub(crate) fn fields(bytes: &[u8]) -> Vec<(String, Range<usize>)> {
    if bytes.starts_with(&FRAME_MAGIC) {
        frame_fields(bytes.len())
    } else if bytes.starts_with(&CONTAINER_MAGIC) {
        container_fields(bytes)
    } else if bytes.starts_with(&CONFIG_MAGIC) {
        config_fields(bytes.len())
    } else {
        // A part of an index run: rebuildable bytes, cut into sixteenths.
        let step = (bytes.len() / 16).max(1);
        (0..bytes.len())
            .step_by(step)
            .map(|at| (format!("byte {at}"), at..(at + step).min(bytes.len())))
            .collect()
    }
}

fn laid_out(fields: &[(&str, usize)], mut at: usize, prefix: &str) -> Vec<(String, Range<usize>)> {
    let mut out = Vec::new();
    for (name, len) in fields {
        out.push((format!("{prefix}{name}"), at..at + len));
        at += len;
    }
    out
}

fn frame_fields(len: usize) -> Vec<(String, Range<usize>)> {
    let sealed = len - FRAME_HEADER_BYTES - TAG_BYTES - DIGEST_BYTES;
    let fields = [
        ("magic", 8),
        ("version", 2),
        ("kind", 2),
        ("reserved", 4),
        ("salt", 32),
        ("ciphertext", sealed),
        ("tag", TAG_BYTES),
        ("digest", DIGEST_BYTES),
    ];
    laid_out(&fields, 0, "")
}

fn config_fields(len: usize) -> Vec<(String, Range<usize>)> {
    let mut fields = laid_out(
        &[
            ("magic", 8),
            ("version", 2),
            ("reserved", 2),
            ("features to read", 8),
            ("features to write", 8),
            ("store", 16),
        ],
        0,
        "",
    );
    // Key slots, the salt of the settings, sealed settings: they have no fixed length, and are cut
    // into sixteenths.
    let (from, to) = (44, len - DIGEST_BYTES);
    let step = ((to - from) / 16).max(1);
    for at in (from..to).step_by(step) {
        fields.push((format!("slots and settings at {at}"), at..(at + step).min(to)));
    }
    fields.push(("digest".into(), to..len));
    fields
}

const HEADER: [(&str, usize); 9] = [
    ("magic", 8),
    ("version", 2),
    ("kind", 1),
    ("reserved", 1),
    ("generation", 4),
    ("store", 16),
    ("session and kind", 5),
    ("sequence", 3),
    ("salt", 32),
];

fn container_fields(bytes: &[u8]) -> Vec<(String, Range<usize>)> {
    let Ok(TailParse::Whole(tail)) = ContainerTail::parse(bytes, bytes.len() as u64) else {
        panic!("a container of the fixture is whole");
    };
    let place = |offset: u64| usize::try_from(offset).unwrap();
    let mut fields = laid_out(&HEADER, 0, "header ");
    assert_eq!(fields.last().unwrap().1.end, HEADER_BYTES);
    let last = tail.rows.len() - 1;
    for (number, row) in tail.rows.iter().enumerate() {
        if is_long() || number == 0 || number == last {
            let at = place(row.offset);
            fields.push((format!("region {number}"), at..at + row.stored_len as usize));
        }
    }
    let catalog = place(tail.footer.catalog_offset);
    let rows = catalog + tail.footer.catalog_stored_len as usize;
    fields.push(("catalog".into(), catalog..rows));
    for number in [0, last] {
        let row = [
            ("offset", 8),
            ("length", 4),
            ("first entry", 4),
            ("entries", 4),
            ("codec", 1),
            ("reserved", 3),
            ("digest", 16),
        ];
        fields.extend(laid_out(
            &row,
            rows + number * REGION_ROW_BYTES,
            &format!("row {number} "),
        ));
        if last == 0 {
            break;
        }
    }
    let footer = bytes.len() - FOOTER_BYTES;
    fields.extend(laid_out(&HEADER, footer, "footer header "));
    let rest = [
        ("offset of the rows", 8),
        ("offset of the catalog", 8),
        ("length of the catalog", 4),
        ("number of rows", 4),
        ("number of entries", 4),
        ("version", 2),
        ("reserved", 2),
        ("digest of the catalog", 16),
        ("magic", 8),
        ("digest", 16),
    ];
    fields.extend(laid_out(&rest, footer + HEADER_BYTES, "footer "));
    assert_eq!(fields.last().unwrap().1.end, bytes.len());
    fields
}

/// All ways that need only the object. Sampled: the ends of each field; with `ONEFOLD_TEST_LONG=1`
/// every byte of it, or 64 bytes of a long one.
pub(crate) fn of_itself(bytes: &[u8]) -> Vec<Way> {
    let fields = fields(bytes);
    let mut ways = vec![Way::Delete, Way::Extend, Way::Truncate { len: bytes.len() - 1 }];
    ways.push(Way::Zeros {
        range: 0..bytes.len(),
        field: "all".into(),
    });
    for (field, range) in fields {
        let step = if is_long() {
            (range.len() / 64).max(1)
        } else {
            range.len()
        };
        let places = range.clone().step_by(step).chain([range.end - 1]);
        for (number, at) in places.enumerate() {
            if number > 0 && at == range.start {
                continue;
            }
            let bit = u8::try_from(at % 8).unwrap();
            let field = field.clone();
            ways.push(Way::Flip { at, bit, field });
        }
        ways.push(Way::Truncate { len: range.start });
        if bytes[range.clone()].iter().any(|byte| *byte != 0) {
            ways.push(Way::Zeros { range, field });
        }
    }
    ways
}
