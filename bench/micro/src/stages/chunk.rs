//! Cutting into chunks, by every way that this processor has, beside the `fastcdc` crate.

use chunking::{Cdc, CdcSizes, Chunker, GEAR_TABLE_WORDS, Isa, is_zero};
use fastcdc::v2020::FastCDC;

use crate::data::{noise, words};
use crate::harness::{Case, Options, compare};

const BYTES: usize = 16 << 20;

pub fn run(options: &Options, text: &[u8]) {
    let table: [u16; GEAR_TABLE_WORDS] = {
        let mut words = words(1);
        std::array::from_fn(|_| words.next().expect("endless") as u16)
    };
    let random = noise(2, BYTES);
    let text: Vec<u8> = text.iter().copied().cycle().take(BYTES).collect();
    for (what, bytes) in [("random", &random), ("text", &text)] {
        for kib in [8, 64] {
            let sizes = CdcSizes::around(kib << 10);
            let cdc = Cdc::new(sizes, &table).expect("sizes within the limits");
            let mut lens = Vec::new();
            let cut = cdc.cut_all(bytes, true, &mut lens);
            let ours = cut / lens.len();
            let theirs = bytes.len() / fastcdc(bytes, sizes).count();
            let mut cases: Vec<Case> = Isa::available()
                .into_iter()
                .map(|isa| {
                    let cdc = cdc.clone().by(isa);
                    let mut lens = Vec::new();
                    Case::bytes(isa.name(), BYTES, move || {
                        lens.clear();
                        cdc.cut_all(bytes, true, &mut lens);
                        lens.len() as u64
                    })
                })
                .collect();
            cases.push(Case::bytes("fastcdc v2020", BYTES, || {
                fastcdc(bytes, sizes).count() as u64
            }));
            let note = format!("{what}, {kib} KiB (mean {ours}, of fastcdc {theirs})");
            compare(options, "chunk", &note, cases);
        }
    }
    let zeros = vec![0; BYTES];
    let count = |bytes: &[u8]| bytes.chunks(8192).filter(|chunk| is_zero(chunk)).count() as u64;
    compare(
        options,
        "chunk/is_zero",
        "chunks of 8 KiB",
        vec![
            Case::bytes("zeros", BYTES, || count(&zeros)),
            Case::bytes("random", BYTES, || count(&random)),
        ],
    );
}

fn fastcdc(bytes: &[u8], sizes: CdcSizes) -> FastCDC<'_> {
    FastCDC::new(bytes, sizes.min as usize, sizes.avg as usize, sizes.max as usize)
}
