//! Spoilt runs with right digests: the fuzz target's function, on bytes drawn from a seed.

use std::sync::LazyLock;

use env::Storage;
use env::fault::FaultStorage;
use index::{Hook, IndexOptions, probe};
use proptest::prelude::*;
use types::ContainerKind;

use crate::store::*;

/// A run of both kinds, several leaves and containers.
fn run() -> Vec<u8> {
    let storage = FaultStorage::new();
    let hooks = (0..1500).map(|n| hook(bits(n), data(3, u32::try_from(n * n % 40).unwrap())));
    let recipe = id(ContainerKind::Recipe, 3, 50);
    let nodes = (0..30).map(|n| Hook {
        kind: index::HookKind::Node,
        ..hook(bits(n), recipe)
    });
    open(&storage, IndexOptions::default())
        .add_session(session(3), hooks.chain(nodes))
        .unwrap();
    storage.get(&runs(&storage)[0]).unwrap()
}

#[test]
fn a_sound_run_passes() {
    probe::part(&run());
    probe::part(&[]);
    probe::part(b"1FOLDidx");
}

proptest! {
    #[test]
    fn no_spoilt_list_of_unread_catalogs_panics(
        spoilt in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        static LIST: LazyLock<Vec<u8>> = LazyLock::new(|| {
            let bed = crate::unindexed::Bed::new();
            bed.catch_up(IndexOptions::default());
            bed.storage.get(&format::names::index_unread(0)).unwrap()
        });
        let mut bytes = LIST.clone();
        for (at, value) in spoilt {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        probe::unread(&bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(3)))]

    #[test]
    fn no_spoilt_run_panics(
        spoilt in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..30),
        near_begin in proptest::collection::vec((0usize..80, any::<u8>()), 0..3),
        block_heads in proptest::collection::vec((0usize..20, 0usize..40, any::<u8>()), 0..8),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = run();
        for (at, value) in spoilt {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        for (at, value) in near_begin {
            bytes[at] = value;
        }
        for (block, at, value) in block_heads {
            if let Some(byte) = bytes.get_mut(block * 4096 + at) {
                *byte = value;
            }
        }
        if let Some(cut) = cut {
            let len = cut.index(bytes.len());
            bytes.truncate(len);
        }
        probe::part(&bytes);
    }

    /// Spoils only the front.
    #[test]
    fn no_spoilt_front_panics(spoilt in proptest::collection::vec((10usize..70, any::<u8>()), 1..3)) {
        let mut bytes = run();
        for (at, value) in spoilt {
            bytes[at] = value;
        }
        probe::part(&bytes);
    }
}
