//! AES-256-GCM and XXH3 over regions.

use crypto::{EncryptionKey, TAG_BYTES};

use crate::data::noise;
use crate::harness::{Case, Options, compare};

const REGION_BYTES: usize = 128 << 10;
const REGIONS: usize = 16;

pub fn run(options: &Options, _text: &[u8]) {
    let key = EncryptionKey::from_bytes([3; 32]).seal_key("container", &[9; 32]);
    let bytes = noise(5, REGION_BYTES * REGIONS);
    let mut plain = bytes.clone();
    plain.resize(bytes.len() + TAG_BYTES, 0);
    let mut sealed: Vec<Vec<u8>> = bytes.chunks(REGION_BYTES).map(<[u8]>::to_vec).collect();
    for (region, nonce) in sealed.iter_mut().zip(0..) {
        key.seal(nonce, b"", region, 0);
    }
    let mut scratch = vec![0; REGION_BYTES + TAG_BYTES];
    let mut copy = scratch.clone();
    let cases = vec![
        Case::bytes("seal", bytes.len(), || {
            for (nonce, region) in plain.chunks_exact_mut(REGION_BYTES).enumerate() {
                key.seal_with_room(nonce as u64, b"", region);
            }
            u64::from(plain[0])
        }),
        Case::bytes("open (and a copy)", bytes.len(), || {
            let mut sum = 0;
            for (region, nonce) in sealed.iter().zip(0..) {
                scratch.copy_from_slice(region);
                let plain = key.open(nonce, b"", &mut scratch).expect("sealed above");
                sum += u64::from(plain[0]);
            }
            sum
        }),
        Case::bytes("digest (XXH3-128)", bytes.len(), || {
            bytes
                .chunks(REGION_BYTES)
                .map(|region| format::wire::digest(region) as u64)
                .sum()
        }),
        Case::bytes("copy", bytes.len(), || {
            for region in bytes.chunks_exact(REGION_BYTES) {
                copy[..REGION_BYTES].copy_from_slice(std::hint::black_box(region));
            }
            u64::from(copy[0])
        }),
    ];
    compare(options, "seal", "regions of 128 KiB of random bytes", cases);
}
