//! BLAKE3's compression on lanes, written once for every instruction set.
//!
//! Vector `i` holds word `i` of every lane's state. An instruction set is a module with
//! `LANES`, `Vector`, and the operations that the code below names, each a function under its
//! `target_feature`; the AVX-512 module documents them. Source: the BLAKE3 paper, 2.2 to
//! 2.5.

/// The initial values of the second half of a state: those of SHA-256.
pub(super) const IV: [u32; 4] = [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a];

pub(super) const CHUNK_START: u32 = 1;
pub(super) const CHUNK_END: u32 = 2;
pub(super) const PARENT: u32 = 4;
pub(super) const ROOT: u32 = 8;
pub(super) const KEYED_HASH: u32 = 16;

/// The word of the message for each place, round by round: one permutation, applied repeatedly.
pub(super) const SCHEDULE: [[usize; 16]; 7] = {
    const PERMUTATION: [usize; 16] = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
    let mut rounds = [[0; 16]; 7];
    let mut i = 0;
    while i < 16 {
        rounds[0][i] = i;
        i += 1;
    }
    let mut round = 1;
    while round < 7 {
        let mut i = 0;
        while i < 16 {
            rounds[round][i] = rounds[round - 1][PERMUTATION[i]];
            i += 1;
        }
        round += 1;
    }
    rounds
};

/// Defines `leaves` and `pairs` over the operations in scope.
macro_rules! hash_lanes {
    ($feature:literal) => {
        /// The chaining value of each leaf, at most one for each lane.
        #[target_feature(enable = $feature)]
        pub(super) fn leaves(key: &Cv, leaves: &[Leaf<'_>], out: &mut [Cv]) {
            let Some(first) = leaves.first() else { return };
            let mut full = [first.bytes.as_chunks::<BLOCK_BYTES>().0; LANES];
            let mut numbers = [0; LANES];
            for (lane, leaf) in leaves.iter().enumerate() {
                full[lane] = leaf.bytes.as_chunks::<BLOCK_BYTES>().0;
                numbers[lane] = leaf.number;
            }
            let numbers = load(&numbers);
            let mut cv = splat_all(key);
            // Until the first leaf ends, all lanes do the same.
            let alike = leaves.iter().map(Leaf::blocks).min().unwrap_or(1) - 1;
            for step in 0..alike {
                let mut blocks = [&[0; BLOCK_BYTES]; LANES];
                for (block, full) in blocks.iter_mut().zip(&full) {
                    *block = &full[step];
                }
                let flags = KEYED_HASH | if step == 0 { CHUNK_START } else { 0 };
                cv = compress(&cv, &blocks, numbers, splat(64), splat(flags));
            }
            finish(&mut cv, leaves, alike, numbers);
            let words = store_all(&cv);
            for (lane, out) in out.iter_mut().take(leaves.len()).enumerate() {
                *out = words.map(|word| word[lane]);
            }
        }

        /// The last blocks of leaves, from the first block on that is some leaf's last.
        #[inline]
        #[target_feature(enable = $feature)]
        fn finish(cv: &mut [Vector; 8], leaves: &[Leaf<'_>], from: usize, numbers: Vector) {
            let steps = leaves.iter().map(Leaf::blocks).max().unwrap_or(0);
            let mut tails = [[0; BLOCK_BYTES]; LANES];
            for (to, leaf) in tails.iter_mut().zip(leaves) {
                let tail = leaf.bytes.as_chunks::<BLOCK_BYTES>().1;
                to[..tail.len()].copy_from_slice(tail);
            }
            for step in from..steps {
                // A lane whose leaf has ended continues, and its results are ignored.
                let mut blocks = [&tails[0]; LANES];
                let (mut lens, mut flags, mut active) = ([0; LANES], [0; LANES], [0; LANES]);
                for (lane, leaf) in leaves.iter().enumerate() {
                    let last = leaf.blocks() - 1;
                    let (full, tail) = leaf.bytes.as_chunks::<BLOCK_BYTES>();
                    (blocks[lane], lens[lane]) = match full.get(step) {
                        Some(block) => (block, 64),
                        None => (&tails[lane], u32::from(tail.len().to_le_bytes()[0])),
                    };
                    flags[lane] = KEYED_HASH
                        | if step == 0 { CHUNK_START } else { 0 }
                        | if step == last { CHUNK_END } else { 0 }
                        | if step == last && leaf.is_root {
                            ROOT
                        } else {
                            0
                        };
                    active[lane] = if step <= last { u32::MAX } else { 0 };
                }
                let next = compress(cv, &blocks, numbers, load(&lens), load(&flags));
                let active = load(&active);
                for (old, new) in cv.iter_mut().zip(next) {
                    *old = choose(active, new, *old);
                }
            }
        }

        /// Computes the chaining value over each pair, at most one for each lane, and stores it in
        /// its place.
        #[target_feature(enable = $feature)]
        pub(super) fn pairs(key: &Cv, pairs: &[Pair], cvs: &mut [Cv]) {
            let mut bytes = [[0; BLOCK_BYTES]; LANES];
            let mut flags = [0; LANES];
            for (lane, pair) in pairs.iter().enumerate() {
                let at = pair.from as usize;
                let words = cvs[at].iter().chain(&cvs[at + 1]);
                for (to, word) in bytes[lane].as_chunks_mut::<4>().0.iter_mut().zip(words) {
                    *to = word.to_le_bytes();
                }
                flags[lane] = KEYED_HASH | PARENT | if pair.is_root { ROOT } else { 0 };
            }
            let blocks = std::array::from_fn(|lane| &bytes[lane]);
            let key = splat_all(key);
            let words = store_all(&compress(&key, &blocks, splat(0), splat(64), load(&flags)));
            for (lane, pair) in pairs.iter().enumerate() {
                cvs[pair.to as usize] = words.map(|word| word[lane]);
            }
        }

        /// The same words in every lane.
        #[inline]
        #[target_feature(enable = $feature)]
        fn splat_all(words: &Cv) -> [Vector; 8] {
            let mut vectors = [splat(0); 8];
            for (vector, &word) in vectors.iter_mut().zip(words) {
                *vector = splat(word);
            }
            vectors
        }

        /// By word, then by lane.
        #[inline]
        #[target_feature(enable = $feature)]
        fn store_all(vectors: &[Vector; 8]) -> [[u32; LANES]; 8] {
            let mut words = [[0; LANES]; 8];
            for (words, &vector) in words.iter_mut().zip(vectors) {
                *words = store(vector);
            }
            words
        }

        /// One block of every lane. Numbers of leaves have 32 bits here: 4 TiB of one input.
        #[inline]
        #[target_feature(enable = $feature)]
        fn compress(
            cv: &[Vector; 8],
            blocks: &[&[u8; BLOCK_BYTES]; LANES],
            numbers: Vector,
            lens: Vector,
            flags: Vector,
        ) -> [Vector; 8] {
            let m = transpose(blocks);
            let [c0, c1, c2, c3, c4, c5, c6, c7] = *cv;
            let [i0, i1, i2, i3] = [splat(IV[0]), splat(IV[1]), splat(IV[2]), splat(IV[3])];
            let mut v = [
                c0,
                c1,
                c2,
                c3,
                c4,
                c5,
                c6,
                c7,
                i0,
                i1,
                i2,
                i3,
                numbers,
                splat(0),
                lens,
                flags,
            ];
            round::<0>(&mut v, &m);
            round::<1>(&mut v, &m);
            round::<2>(&mut v, &m);
            round::<3>(&mut v, &m);
            round::<4>(&mut v, &m);
            round::<5>(&mut v, &m);
            round::<6>(&mut v, &m);
            let mut out = *cv;
            for (i, out) in out.iter_mut().enumerate() {
                *out = xor(v[i], v[i + 8]);
            }
            out
        }

        /// A round. The compiler knows its number, so that words and state stay in registers.
        #[inline]
        #[target_feature(enable = $feature)]
        fn round<const N: usize>(v: &mut [Vector; 16], m: &[Vector; 16]) {
            let s = const { SCHEDULE[N] };
            mix(v, [0, 4, 8, 12], m[s[0]], m[s[1]]);
            mix(v, [1, 5, 9, 13], m[s[2]], m[s[3]]);
            mix(v, [2, 6, 10, 14], m[s[4]], m[s[5]]);
            mix(v, [3, 7, 11, 15], m[s[6]], m[s[7]]);
            mix(v, [0, 5, 10, 15], m[s[8]], m[s[9]]);
            mix(v, [1, 6, 11, 12], m[s[10]], m[s[11]]);
            mix(v, [2, 7, 8, 13], m[s[12]], m[s[13]]);
            mix(v, [3, 4, 9, 14], m[s[14]], m[s[15]]);
        }

        #[inline]
        #[target_feature(enable = $feature)]
        fn mix(v: &mut [Vector; 16], [a, b, c, d]: [usize; 4], x: Vector, y: Vector) {
            v[a] = add(add(v[a], v[b]), x);
            v[d] = rotate_16(xor(v[d], v[a]));
            v[c] = add(v[c], v[d]);
            v[b] = rotate_12(xor(v[b], v[c]));
            v[a] = add(add(v[a], v[b]), y);
            v[d] = rotate_8(xor(v[d], v[a]));
            v[c] = add(v[c], v[d]);
            v[b] = rotate_7(xor(v[b], v[c]));
        }
    };
}

pub(super) use hash_lanes;
