//! Larger bounds, run by hand; `docs/volumes-model.md` has the states explored.

use super::properties::Witness as W;
use super::scenario::Scenario;
use super::scenarios::{
    aliasing, carried_batches, forgetful_index, full_pool, hand_over, lazy_marks, power_cuts, requests,
    slow_flushes, snapshots, takeover, two_blocks, with_snapshots,
};
use super::sets::Set;
use super::state::{Faults, Requests};

/// All of them.
pub(super) fn all() -> Vec<Scenario> {
    vec![
        one_volume(),
        two_volumes(),
        reads_and_losses(),
        torn_flushes(),
        two_blocks_trimmed(),
        three_writes_two_snapshots(),
        snapshots_twice_cut(),
        forgetful_index_killed(),
        hand_over_killed(),
        takeover_twice_cut(),
        full_pool_read(),
        lazy_marks_slow(),
        everything(),
        turned_log_shared(),
    ]
}

fn one_volume() -> Scenario {
    Scenario {
        name: "one-volume",
        about: "one volume, four writes, a kill and a power cut",
        volumes: 1,
        owned: [Set::new(0b00_1111), Set::NONE],
        requests: [requests(4, 0, 0), Requests::default()],
        faults: Faults {
            cuts: 1,
            kills: 1,
            ..Faults::default()
        },
        ..power_cuts()
    }
}

fn two_volumes() -> Scenario {
    Scenario {
        name: "two-volumes",
        about: "two volumes, two writes each, a kill and a power cut",
        requests: [requests(2, 0, 0), requests(2, 0, 0)],
        writes: [Set::new(0b010), Set::new(0b010)],
        faults: Faults {
            cuts: 1,
            kills: 1,
            ..Faults::default()
        },
        ..power_cuts()
    }
}

fn reads_and_losses() -> Scenario {
    Scenario {
        name: "reads-and-losses",
        about: "two volumes share a block; reads, lost answers, a kill",
        requests: [requests(2, 1, 0), requests(1, 1, 0)],
        faults: Faults {
            losses: 1,
            kills: 1,
            ..Faults::default()
        },
        ..aliasing()
    }
}

fn torn_flushes() -> Scenario {
    Scenario {
        name: "torn-flushes",
        about: "one volume; slow flushes, torn blocks, two power cuts and a kill",
        writes: [Set::new(0b110), Set::NONE],
        torn: true,
        faults: Faults {
            cuts: 2,
            kills: 1,
            ..Faults::default()
        },
        ..slow_flushes()
    }
}

fn two_blocks_trimmed() -> Scenario {
    Scenario {
        name: "two-blocks-trimmed",
        about: "one volume of two logical blocks; zeros, a trim, a kill and a power cut",
        requests: [requests(3, 0, 1), Requests::default()],
        writes: [Set::new(0b011), Set::NONE],
        faults: Faults {
            cuts: 1,
            kills: 1,
            ..Faults::default()
        },
        ..two_blocks()
    }
}

fn three_writes_two_snapshots() -> Scenario {
    Scenario {
        name: "three-writes-two-snapshots",
        about: "two snapshots of one volume, three writes",
        requests: [with_snapshots(3, 0, 2), Requests::default()],
        ..snapshots()
    }
}

fn snapshots_twice_cut() -> Scenario {
    Scenario {
        name: "snapshots-crashes",
        about: "two snapshots of one volume; a kill and a power cut",
        faults: Faults {
            cuts: 1,
            kills: 1,
            ..Faults::default()
        },
        ..snapshots()
    }
}

fn forgetful_index_killed() -> Scenario {
    Scenario {
        name: "forgetful-index-killed",
        about: "the index loses a batch; a kill",
        faults: Faults {
            forgets: 1,
            kills: 1,
            ..Faults::default()
        },
        ..forgetful_index()
    }
}

fn hand_over_killed() -> Scenario {
    Scenario {
        name: "hand-over-killed",
        about: "two volumes, blocks through the pool; a kill and a power cut",
        faults: Faults {
            cuts: 1,
            kills: 1,
            ..Faults::default()
        },
        ..hand_over()
    }
}

fn takeover_twice_cut() -> Scenario {
    Scenario {
        name: "takeover-crashes",
        about: "a takeover beside a former process; three writes, a kill and a power cut",
        faults: Faults {
            takeovers: 1,
            cuts: 1,
            kills: 1,
            ..Faults::default()
        },
        witnesses: vec![W::LateWrite, W::BatchSentAgain, W::MapRejected, W::Freed],
        ..takeover()
    }
}

fn full_pool_read() -> Scenario {
    Scenario {
        name: "full-pool-read",
        about: "two volumes unshare in place; a read",
        requests: [requests(1, 1, 0), requests(1, 0, 0)],
        ..full_pool()
    }
}

fn lazy_marks_slow() -> Scenario {
    Scenario {
        name: "lazy-marks-slow",
        about: "lazy marks, slow flushes, a kill and a power cut",
        slow_flushes: true,
        ..lazy_marks()
    }
}

fn everything() -> Scenario {
    Scenario {
        name: "everything",
        about: "two volumes, two writes each; torn blocks, a lost answer, a kill and a power cut",
        requests: [requests(2, 0, 0), requests(2, 0, 0)],
        torn: true,
        faults: Faults {
            cuts: 1,
            kills: 1,
            losses: 1,
            ..Faults::default()
        },
        ..power_cuts()
    }
}

fn turned_log_shared() -> Scenario {
    Scenario {
        name: "turned-log-shared",
        about: "one volume that shares, in a log of four places that turns round; a kill and a power cut",
        requests: [requests(3, 0, 1), Requests::default()],
        extent: 4,
        ..carried_batches()
    }
}
