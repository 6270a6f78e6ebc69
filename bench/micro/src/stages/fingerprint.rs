//! Fingerprints of chunks: one at a time and together, beside BLAKE3 of long input, which fills
//! every lane.

use crypto::{DomainKey, Fingerprinter};

use crate::data::{chunk_lens, noise};
use crate::harness::{Case, Options, compare};

const BYTES: usize = 4 << 20;

pub fn run(options: &Options, _text: &[u8]) {
    let bytes = noise(3, 2 * BYTES);
    let printer = Fingerprinter::new(&DomainKey::from_bytes([7; 32]));
    let mut cases = Vec::new();
    for kib in [2, 4, 8, 16, 64] {
        let chunks: Vec<&[u8]> = bytes[..BYTES].chunks(kib << 10).collect();
        let printer = printer.clone();
        cases.push(Case::bytes(format!("{kib} KiB each"), BYTES, move || {
            chunks
                .iter()
                .map(|chunk| u64::from(printer.chunk(chunk).as_bytes()[0]))
                .sum()
        }));
    }
    for kib in [4, 8, 16] {
        let mut rest = &bytes[..];
        let chunks: Vec<&[u8]> = chunk_lens(kib << 10, BYTES)
            .into_iter()
            .map(|len| rest.split_off(..len).expect("enough bytes"))
            .collect();
        let total = chunks.iter().map(|chunk| chunk.len()).sum();
        let (together, of_many) = (chunks.clone(), printer.clone());
        let mut prints = Vec::new();
        cases.push(Case::bytes(
            format!("the same, 1 MiB together ({kib})"),
            total,
            move || {
                prints.clear();
                for some in together.chunks(1024 / kib as usize) {
                    of_many.chunks(some, &mut prints);
                }
                prints.len() as u64
            },
        ));
        let printer = printer.clone();
        cases.push(Case::bytes(
            format!("lengths around {kib} KiB"),
            total,
            move || {
                chunks
                    .iter()
                    .map(|chunk| u64::from(printer.chunk(chunk).as_bytes()[0]))
                    .sum()
            },
        ));
    }
    cases.push(Case::bytes("4 MiB at once", BYTES, || {
        u64::from(blake3::keyed_hash(&[7; 32], &bytes[..BYTES]).as_bytes()[0])
    }));
    compare(options, "fingerprint", "keyed BLAKE3 of random bytes", cases);
}
