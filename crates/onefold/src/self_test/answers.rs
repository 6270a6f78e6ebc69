//! Known answers of everything that stored bytes depend on.
//!
//! The expected values are those of format 1, as the tests of `crypto`, `chunking` and `format`
//! have them; none may ever change. Where the processor offers several ways to compute a result,
//! of fingerprints and the chunker, all of them are tried, and must agree.

use chunking::{Cdc, CdcSizes, Chunker, GEAR_TABLE_WORDS, Isa};
use container::{Compression, compress_region};
use crypto::{Argon2Cost, Credential, DomainKey, EncryptionKey, Fingerprinter, MasterKeys, SlotDerivation};
use format::frame::Frame;
use format::wire;
use types::{Fingerprint, Level};

use super::noise::noise;
use super::{Done, MACHINE, Runner, Stop};
use crate::error::Result;

/// The names of the checks.
pub(super) const NAMES: [&str; 6] = [
    "fingerprints",
    "cipher",
    "key_derivation",
    "digests",
    "chunker",
    "compression",
];

/// Bytes on which the ways to compute something are compared.
const COMPARED_BYTES: usize = 8 << 20;

/// What must come out.
#[derive(Clone, Copy)]
pub(super) struct Answers {
    /// Of an empty chunk, a short one, a long one, a run of zeros, a node.
    fingerprints: [&'static str; 5],
    sealed: &'static str,
    slot: &'static str,
    /// XXH3-128 of no bytes.
    empty_digest: u128,
    /// The golden vector of a frame, whose last bytes are its digest.
    frame: &'static str,
    chunk_lens: [u32; 7],
}

/// The answers of format 1.
pub(super) const ANSWERS: Answers = Answers {
    fingerprints: [
        "e71081430c93c609fb2b0576a4cfc109039af016caef616253a4f637cda94552",
        "8e76c871128e878109e8bf380757342dfb62c5d00d98da2598982b51bd7027bd",
        "407dc98bc80355d29312ddc0b3cbf9c059de2b6fa23b48616ce4f0d500116045",
        "0b7193d4dae8ad5ace9b6a8f1909792a19ba2ef9a5460f1762e6d7d0ce3cfcd4",
        "451c61c0ef9f0818a85820475fb94b0956cd1267b922d431e77e7384beb4da5d",
    ],
    sealed: "f5c68f77861877050d9856788181ea48bcce312659",
    slot: "ba0b9a98fb20bd2e01c267fcec8feb4f2931c82ee72bf88e0390a375e41fe7ca206a71baeed4edaa64cafc9be4d27e69d6f8751448ab633d4a6c5c1c85469c543a33d13d76f663b2a80741ed36700aa0",
    empty_digest: 0x99aa_06d3_0147_98d8_6001_c324_468d_497f,
    frame: include_str!("../../../../testdata/golden/frame.hex"),
    chunk_lens: [7586, 7009, 6937, 25442, 6041, 6148, 837],
};

/// Makes the checks.
///
/// # Errors
/// If somebody asked to stop.
pub(super) fn check(runner: &mut Runner<'_>) -> Result<()> {
    let answers = &ANSWERS;
    runner.check(NAMES[0], || fingerprints(answers, &hash_ways()))?;
    runner.check(NAMES[1], || cipher(answers))?;
    runner.check(NAMES[2], || key_derivation(answers))?;
    runner.check(NAMES[3], || digests(answers))?;
    runner.check(NAMES[4], || chunker(answers, &cut_ways()))?;
    runner.check(NAMES[5], || compression(&|region| region.decompress()))?;
    Ok(())
}

/// A way to compute something, by name.
type Way<'a, T> = (String, Box<dyn Fn(&[u8]) -> T + 'a>);

fn domain() -> DomainKey {
    DomainKey::from_bytes(std::array::from_fn(|at| u8::try_from(at).unwrap_or_default()))
}

fn encryption() -> EncryptionKey {
    EncryptionKey::from_bytes(std::array::from_fn(|at| {
        0x80 | u8::try_from(at).unwrap_or_default()
    }))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn wrong(what: impl Into<String>) -> Stop {
    Stop::failed(what, MACHINE)
}

fn expect(what: &str, found: &str, expected: &str) -> std::result::Result<(), Stop> {
    if found == expected {
        return Ok(());
    }
    Err(wrong(format!(
        "{what}: {found} was computed, and {expected} is right"
    )))
}

/// Compares what all ways make of the same bytes. Returns the first way's result.
fn agree<T: PartialEq>(ways: &[Way<'_, T>], bytes: &[u8]) -> std::result::Result<T, Stop> {
    let (first, compute) = &ways[0];
    let expected = compute(bytes);
    for (way, compute) in &ways[1..] {
        if compute(bytes) != expected {
            return Err(wrong(format!(
                "the code for {way} has another result than that for {first}, of the same {} bytes",
                bytes.len()
            )));
        }
    }
    Ok(expected)
}

/// How many ways there are, in words.
fn paths<T>(ways: &[Way<'_, T>]) -> String {
    let names: Vec<&str> = ways.iter().map(|(name, _)| &**name).collect();
    match names.len() {
        1 => format!("the only code path ({})", names[0]),
        len => format!("{len} code paths ({}) agree", names.join(", ")),
    }
}

fn hash_ways() -> Vec<Way<'static, Vec<Fingerprint>>> {
    let way = |lanes: usize| -> Way<'static, Vec<Fingerprint>> {
        let printer = Fingerprinter::new(&domain());
        let compute = move |bytes: &[u8]| {
            // Lengths as chunks have them, whole blocks and others.
            let chunks: Vec<&[u8]> = bytes.chunks(8_000).collect();
            let mut prints = Vec::with_capacity(chunks.len());
            printer.chunks_by(lanes, &chunks, &mut prints);
            prints
        };
        (format!("{lanes} at once"), Box::new(compute))
    };
    Fingerprinter::lane_counts().into_iter().map(way).collect()
}

fn fingerprints(answers: &Answers, ways: &[Way<'_, Vec<Fingerprint>>]) -> Done {
    let printer = Fingerprinter::new(&domain());
    let level = Level::new(1).expect("1 is a level");
    let mut node = printer.node_hasher(level);
    node.push(&printer.chunk(b"a"), 1);
    node.push(&printer.zeros(4096), 4096);
    let found = [
        ("an empty chunk", printer.chunk(b"")),
        ("a short chunk", printer.chunk(b"onefold")),
        ("a long chunk", printer.chunk(&[0x5a; 70_000])),
        ("a run of zeros", printer.zeros(0x1_0000_0001)),
        ("a node", node.finish()),
    ];
    for ((what, found), expected) in found.iter().zip(answers.fingerprints) {
        expect(
            &format!("the fingerprint of {what}"),
            &found.to_string(),
            expected,
        )?;
    }
    agree(ways, &noise(3, COMPARED_BYTES))?;
    Ok(format!(
        "{} known answers; {} over 8 MiB",
        found.len(),
        paths(ways)
    ))
}

fn cipher(answers: &Answers) -> Done {
    let key = encryption().seal_key("object", &[9; 32]);
    let mut sealed = b"plain".to_vec();
    key.seal(3, b"name", &mut sealed, 0);
    expect("AES-256-GCM of a known text", &hex(&sealed), answers.sealed)?;
    let plain = noise(4, 1 << 20);
    let mut sealed = plain.clone();
    key.seal(4, b"name", &mut sealed, 0);
    let mut opened = sealed.clone();
    if key.open(4, b"name", &mut opened).ok().as_deref() != Some(&plain[..]) {
        return Err(wrong("1 MiB that was sealed does not open to what it was"));
    }
    sealed[1000] ^= 1;
    if key.open(4, b"name", &mut sealed).is_ok() {
        return Err(wrong("1 MiB with a flipped bit opens as if it were authentic"));
    }
    Ok("a known answer; 1 MiB sealed and opened; a flipped bit is refused".to_owned())
}

fn key_derivation(answers: &Answers) -> Done {
    let derivation = SlotDerivation::Argon2id {
        salt: [7; 32],
        cost: Argon2Cost {
            memory_kib: 8,
            passes: 1,
            lanes: 1,
        },
    };
    let keys = MasterKeys {
        domain: domain(),
        encryption: encryption(),
    };
    let failed = |error: crypto::CryptoError| wrong(error.to_string());
    let password = |text: &'static [u8]| Credential::Password(text);
    let wrapped = crypto::wrap(password(b"secret"), &derivation, b"slot", &keys).map_err(failed)?;
    expect("a key slot by Argon2id", &hex(&wrapped), answers.slot)?;
    let opened = crypto::unwrap(password(b"secret"), &derivation, b"slot", &wrapped).map_err(failed)?;
    if opened.domain.as_bytes() != keys.domain.as_bytes() {
        return Err(wrong("a key slot opens to other keys than it was made of"));
    }
    if crypto::unwrap(password(b"secret2"), &derivation, b"slot", &wrapped).is_ok() {
        return Err(wrong("a key slot opens with a wrong password"));
    }
    Ok("a known answer by Argon2id; a wrong password is refused".to_owned())
}

fn digests(answers: &Answers) -> Done {
    let empty = wire::digest(b"");
    expect(
        "XXH3-128 of no bytes",
        &format!("{empty:032x}"),
        &format!("{:032x}", answers.empty_digest),
    )?;
    let digits: Vec<u8> = answers.frame.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8; 2]| {
        let pair = std::str::from_utf8(pair).unwrap_or_default();
        u8::from_str_radix(pair, 16).unwrap_or_default()
    };
    let mut frame: Vec<u8> = digits.as_chunks().0.iter().map(byte).collect();
    if let Err(error) = Frame::split(&frame) {
        return Err(wrong(format!("a known object: {error}")));
    }
    frame[60] ^= 1;
    if Frame::split(&frame).is_ok() {
        return Err(wrong("a flipped bit of an object goes unnoticed"));
    }
    Ok("2 known answers; a flipped bit is noticed".to_owned())
}

fn cut_ways() -> Vec<Way<'static, Vec<u32>>> {
    let table = noise(1, 2 * GEAR_TABLE_WORDS);
    let table: [u16; GEAR_TABLE_WORDS] =
        std::array::from_fn(|at| u16::from_le_bytes([table[2 * at], table[2 * at + 1]]));
    let cdc = Cdc::new(CdcSizes::default(), &table).expect("the default lengths are possible");
    let way = |isa: Isa| -> Way<'static, Vec<u32>> {
        let cdc = cdc.clone().by(isa);
        let compute = move |bytes: &[u8]| {
            let mut lens = Vec::new();
            cdc.cut_all(bytes, true, &mut lens);
            lens
        };
        (isa.name().to_owned(), Box::new(compute))
    };
    Isa::available().into_iter().map(way).collect()
}

fn chunker(answers: &Answers, ways: &[Way<'_, Vec<u32>>]) -> Done {
    let known = noise(11, 60_000);
    for (way, compute) in ways {
        let (found, expected) = (compute(&known), answers.chunk_lens);
        expect(
            &format!("the lengths of chunks by the code for {way}"),
            &format!("{found:?}"),
            &format!("{expected:?}"),
        )?;
    }
    let lens = agree(ways, &noise(5, COMPARED_BYTES))?;
    let sum: u64 = lens.iter().map(|len| u64::from(*len)).sum();
    if sum != COMPARED_BYTES as u64 {
        return Err(wrong(format!("chunks of {sum} bytes were cut from 8 MiB")));
    }
    Ok(format!(
        "a known answer; {} over 8 MiB ({} chunks)",
        paths(ways),
        lens.len()
    ))
}

fn compression(decompress: &dyn Fn(&container::CompressedRegion) -> Option<Vec<u8>>) -> Done {
    let text = b"all work and no play makes a dull boy. ".repeat(3000);
    let mut mixed = noise(6, 128 << 10);
    mixed[40_000..90_000].fill(b'x');
    let regions = [text, mixed, noise(7, 128 << 10), vec![0; 128 << 10]];
    let levels = [1, 3, 19];
    let mut shrunk = 0;
    for plain in &regions {
        for level in levels {
            let region = compress_region(plain.clone(), Compression::Level(level));
            shrunk += usize::from(region.stored_len() < plain.len());
            if decompress(&region).as_deref() != Some(&**plain) {
                return Err(wrong(format!(
                    "a region that zstd compressed at level {level} does not decompress to what it was"
                )));
            }
        }
    }
    let tried = regions.len() * levels.len();
    if shrunk != tried - levels.len() {
        return Err(wrong(format!(
            "{shrunk} of {tried} regions shrank, and all but the random ones must"
        )));
    }
    Ok(format!(
        "{} regions by zstd at levels 1, 3 and 19, and back",
        regions.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(done: Done) -> String {
        match done {
            Err(Stop::Failed { what, advice }) if advice == MACHINE => what,
            done => panic!("{done:?}"),
        }
    }

    #[test]
    fn every_answer_is_right_here() {
        for done in [
            fingerprints(&ANSWERS, &hash_ways()),
            cipher(&ANSWERS),
            key_derivation(&ANSWERS),
            digests(&ANSWERS),
            chunker(&ANSWERS, &cut_ways()),
            compression(&|region| region.decompress()),
        ] {
            done.unwrap();
        }
    }

    #[test]
    fn a_wrong_answer_is_named() {
        for at in 0..5 {
            let mut answers = ANSWERS;
            answers.fingerprints[at] = ANSWERS.fingerprints[(at + 1) % 5];
            let what = failed(fingerprints(&answers, &hash_ways()));
            assert!(what.starts_with("the fingerprint of a"), "{what}");
        }
        let mut answers = ANSWERS;
        (answers.sealed, answers.slot) = ("00", "00");
        answers.empty_digest ^= 1;
        answers.chunk_lens[3] += 1;
        assert!(failed(cipher(&answers)).contains("AES-256-GCM"));
        assert!(failed(key_derivation(&answers)).contains("Argon2id"));
        assert!(failed(digests(&answers)).contains("XXH3"));
        assert!(failed(chunker(&answers, &cut_ways())).contains("lengths of chunks"));
        answers = ANSWERS;
        answers.frame = include_str!("../../../../testdata/golden/container-header.hex");
        assert!(failed(digests(&answers)).contains("a known object"));
    }

    #[test]
    fn a_code_path_that_disagrees_is_named() {
        let mut ways = cut_ways();
        ways.push((
            "the new processor".to_owned(),
            Box::new(|bytes| {
                let mut lens = cut_ways()[0].1(bytes);
                // Right for short inputs alone.
                if lens.len() > 100 {
                    lens[99] += 1;
                }
                lens
            }),
        ));
        let what = failed(chunker(&ANSWERS, &ways));
        assert!(what.contains("the new processor"), "{what}");
        let mut ways = hash_ways();
        ways.push((
            "32 at once".to_owned(),
            Box::new(|bytes| hash_ways()[0].1(&bytes[1..])),
        ));
        let what = failed(fingerprints(&ANSWERS, &ways));
        assert!(what.contains("32 at once"), "{what}");
    }

    #[test]
    fn wrong_bytes_out_of_zstd_are_noticed() {
        let flipped = |region: &container::CompressedRegion| {
            let mut plain = region.decompress()?;
            plain[70_000] ^= 4;
            Some(plain)
        };
        assert!(failed(compression(&flipped)).contains("zstd"));
        assert!(failed(compression(&|_| None)).contains("zstd"));
    }
}
