//! The gear hash on vectors, written once for every instruction set.
//!
//! A vector holds 16, 32 or 64 bytes, in *lanes* of 16. Two vectors hold its words: `a` has those
//! of the first eight bytes of each lane, `b` those of the last eight. In this order each level of
//! doubling needs a multiplication, an addition, and:
//!
//! - 1, 2, 4 back: the half-lane before `a` (that is `b`, one lane back) or before `b` (that is
//!   `a`), and one instruction on lanes that takes the words between from it and the vector itself;
//! - 8 back: those half-lanes themselves;
//! - 16 and 32 back: both vectors, one and two lanes back.
//!
//! After a boundary, the search continues behind the shortest length. Each step there fetches a
//! line in advance, which the hashing of the chunk reads next anyway.
//!
//! "Back" may mean the previous vector. Each level keeps what it needs of that. Nothing is carried
//! from level to level, so several vectors are computed at once.
//!
//! An instruction set is a module with `BYTES`, `Vector`, and the operations named below, each a
//! function under its `target_feature`; the AVX-512 module documents them.

/// Defines `scan`, which is as [`super::Gear::first`], over the operations in scope.
macro_rules! scan {
    ($feature:literal) => {
        /// The parts of previous vectors that each level keeps.
        struct Before {
            b1: Vector,
            b2: Vector,
            b4: Vector,
            b8: Vector,
            ab16: [Vector; 2],
            ab32: [[Vector; 2]; 2],
        }

        /// Like [`super::Gear::first`].
        #[target_feature(enable = $feature)]
        pub(super) fn scan(gear: &super::Gear, bytes: &[u8], from: usize) -> Option<usize> {
            let planes = [
                table(&gear.planes[0]),
                table(&gear.planes[1]),
                table(&gear.planes[2]),
                table(&gear.planes[3]),
            ];
            let k = gear.high.multipliers;
            let k = [
                splat(k[0]),
                splat(k[1]),
                splat(k[2]),
                splat(k[3]),
                splat(k[4]),
                splat(k[5]),
            ];
            let limit = gear.at_most();
            let zero = splat(0);
            let mut before = Before {
                b1: zero,
                b2: zero,
                b4: zero,
                b8: zero,
                ab16: [zero; 2],
                ab32: [[zero; 2]; 2],
            };
            let judge = |[a, b]: [Vector; 2], start: usize| {
                let possible = at_most(a, b, splat(limit));
                let certain = limit
                    .checked_sub(1)
                    .map_or(0, |below| at_most(a, b, splat(below)));
                gear.pick(bytes, from, start, possible, certain)
            };
            let mut start = from - super::WINDOW;
            let (vectors, rest) = bytes[start..].as_chunks::<BYTES>();
            for vector in vectors {
                fetch(vector.as_ptr().wrapping_add(gear.ahead));
                let sums = sums(load(vector), &planes, &k, &mut before);
                if any_at_most(sums[0], sums[1], splat(limit)) {
                    if let Some(end) = judge(sums, start) {
                        return Some(end);
                    }
                }
                start += BYTES;
            }
            if rest.is_empty() {
                return None;
            }
            let mut last = [0; BYTES];
            last[..rest.len()].copy_from_slice(rest);
            judge(sums(load(&last), &planes, &k, &mut before), start)
        }

        /// The hash at each byte of one vector. The previous vectors must be known.
        #[inline]
        #[target_feature(enable = $feature)]
        fn sums(bytes: Vector, planes: &[Vector; 4], k: &[Vector; 6], before: &mut Before) -> [Vector; 2] {
            let (low, high) = halves(bytes);
            let (a, b) = interleave(
                xor(look_up(planes[0], low), look_up(planes[2], high)),
                xor(look_up(planes[1], low), look_up(planes[3], high)),
            );
            let a8 = back_1_lane(before.b1, b);
            before.b1 = b;
            let (a, b) = (
                add_product(a, back_1_word(a8, a), k[0]),
                add_product(b, back_1_word(a, b), k[0]),
            );
            let a8 = back_1_lane(before.b2, b);
            before.b2 = b;
            let (a, b) = (
                add_product(a, back_2_words(a8, a), k[1]),
                add_product(b, back_2_words(a, b), k[1]),
            );
            let a8 = back_1_lane(before.b4, b);
            before.b4 = b;
            let (a, b) = (
                add_product(a, back_4_words(a8, a), k[2]),
                add_product(b, back_4_words(a, b), k[2]),
            );
            let a8 = back_1_lane(before.b8, b);
            before.b8 = b;
            let (a, b) = (add_product(a, a8, k[3]), add_product(b, a, k[3]));
            let [a16, b16] = before.ab16;
            before.ab16 = [a, b];
            let (a, b) = (
                add_product(a, back_1_lane(a16, a), k[4]),
                add_product(b, back_1_lane(b16, b), k[4]),
            );
            let [[a32, b32], [a64, b64]] = before.ab32;
            before.ab32 = [[a, b], [a32, b32]];
            [
                add_product(a, back_2_lanes(a64, a32, a), k[5]),
                add_product(b, back_2_lanes(b64, b32, b), k[5]),
            ]
        }
    };
}

pub(super) use scan;
