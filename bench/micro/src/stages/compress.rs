//! A region's plain bytes to what is stored: zstd by level, what is left raw, and regions of
//! several sizes.

use container::{Compression, compress_region};

use crate::data::noise;
use crate::harness::{Case, Options, compare};

const REGION_BYTES: usize = 128 << 10;

pub fn run(options: &Options, text: &[u8]) {
    let random = noise(4, 4 << 20);
    let text = &text[..text.len().min(4 << 20) / REGION_BYTES * REGION_BYTES];
    for (what, bytes) in [("text", text), ("random", &random)] {
        let ways = [
            ("off", Compression::Off),
            ("level -1", Compression::Level(-1)),
            ("level 1", Compression::Level(1)),
            ("level 3", Compression::Level(3)),
            ("auto, level 3", Compression::Auto { level: 3 }),
        ];
        let mut cases = Vec::new();
        for (name, way) in ways {
            cases.push(case(name.to_owned(), bytes, REGION_BYTES, way));
        }
        for kib in [32, 512] {
            let way = Compression::Level(3);
            cases.push(case(
                format!("level 3, regions of {kib} KiB"),
                bytes,
                kib << 10,
                way,
            ));
        }
        let stored = |way| -> usize {
            bytes
                .chunks(REGION_BYTES)
                .map(|plain| compress_region(plain.to_vec(), way).stored_len())
                .sum()
        };
        let share = |way| stored(way) as f64 / bytes.len() as f64;
        let note = format!(
            "{what}; left of it at level 1 {:.3}, 3 {:.3}, auto {:.3}",
            share(Compression::Level(1)),
            share(Compression::Level(3)),
            share(Compression::Auto { level: 3 }),
        );
        compare(options, "compress", &note, cases);
    }
}

/// The region's bytes are copied each time, as the packer copies chunks into regions: see `off`.
fn case(name: String, bytes: &[u8], region: usize, way: Compression) -> Case<'_> {
    Case::bytes(name, bytes.len(), move || {
        let mut buffer = Vec::with_capacity(region);
        let mut sum = 0;
        for plain in bytes.chunks(region) {
            buffer.clear();
            buffer.extend_from_slice(plain);
            let done = compress_region(std::mem::take(&mut buffer), way);
            sum += done.stored_len() as u64;
        }
        sum
    })
}
