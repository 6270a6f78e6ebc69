//! The scenarios of volumes.

use super::larger;
use super::properties::Witness as W;
use super::root::{Entry, LBAS};
use super::scenario::Scenario;
use super::sets::Set;
use super::state::{Faults, OLD, Requests, VOLUMES};

pub(super) const fn requests(writes: u8, reads: u8, trims: u8) -> Requests {
    Requests {
        writes,
        reads,
        trims,
        snapshots: 0,
    }
}

/// Bounds of every test run.
#[must_use]
pub fn small() -> Vec<Scenario> {
    vec![
        aliasing(),
        reads(),
        kills(),
        power_cuts(),
        slow_flushes(),
        torn_blocks(),
        two_crashes(),
        two_blocks(),
        trims(),
        zeros(),
        comparison(),
        comparison_cut(),
        forgetful_index(),
        snapshots(),
        snapshots_cut(),
        snapshot_reads(),
        hand_over(),
        takeover(),
        takeover_cut(),
        lazy_marks(),
        lazy_marks_sharing(),
        full_pool(),
        full_pool_cut(),
        late_batches(),
        carried_batches(),
        turned_logs(),
    ]
}

/// All of them.
#[must_use]
pub fn all() -> Vec<Scenario> {
    let mut all = small();
    all.extend(larger::all());
    all
}

/// Volume 1 has content 1 in block 4, registered.
const REGISTERED: [[Entry; LBAS]; VOLUMES] = [[Entry::Unmapped; LBAS], [Entry::Counted(4), Entry::Unmapped]];
/// Volume 0 has content 3 in block 0, its own.
const PRIVATE: [[Entry; LBAS]; VOLUMES] = [[Entry::Private(0), Entry::Unmapped], [Entry::Unmapped; LBAS]];

pub(super) fn aliasing() -> Scenario {
    Scenario {
        mapped: REGISTERED,
        owned: [Set::new(0b00_0111), Set::new(0b10_1000)],
        contents: [OLD, OLD, OLD, OLD, 1, OLD],
        requests: [requests(2, 0, 0), requests(1, 0, 0)],
        writes: [Set::new(0b010), Set::new(0b100)],
        faults: Faults {
            losses: 1,
            ..Faults::default()
        },
        witnesses: vec![
            W::Aliased,
            W::Registered,
            W::HitGivenBack,
            W::MissGivenBack,
            W::Freed,
            W::Repeated,
            W::SharedAtRest,
        ],
        ..Scenario::new("aliasing", "two volumes write the same content; answers are lost")
    }
}

fn reads() -> Scenario {
    Scenario {
        mapped: REGISTERED,
        owned: [Set::new(0b00_0111), Set::new(0b10_1000)],
        contents: [OLD, OLD, OLD, OLD, 1, OLD],
        requests: [requests(2, 1, 0), requests(1, 0, 0)],
        writes: [Set::new(0b010), Set::new(0b100)],
        witnesses: vec![W::ReadThroughOldMapping, W::Freed],
        ..Scenario::new("reads", "reads through old mappings")
    }
}

fn kills() -> Scenario {
    Scenario {
        requests: [requests(2, 0, 0), requests(1, 0, 0)],
        faults: Faults {
            kills: 1,
            ..Faults::default()
        },
        witnesses: vec![W::BatchSentAgain, W::Repeated],
        ..Scenario::new("kills", "one process ends at any step")
    }
}

pub(super) fn power_cuts() -> Scenario {
    Scenario {
        requests: [requests(2, 0, 0), requests(1, 0, 0)],
        faults: Faults {
            cuts: 1,
            ..Faults::default()
        },
        witnesses: vec![W::BatchSentAgain, W::MapAccepted, W::MapRejected],
        ..Scenario::new("power-cuts", "one power cut at any step")
    }
}

pub(super) fn slow_flushes() -> Scenario {
    Scenario {
        volumes: 1,
        owned: [Set::new(0b00_0111), Set::NONE],
        mapped: PRIVATE,
        contents: [3, OLD, OLD, OLD, OLD, OLD],
        requests: [requests(3, 0, 0), requests(0, 0, 0)],
        writes: [Set::new(0b010), Set::NONE],
        slow_flushes: true,
        faults: Faults {
            cuts: 1,
            ..Faults::default()
        },
        witnesses: vec![W::MapAccepted, W::MapRejected],
        ..Scenario::new(
            "slow-flushes",
            "one volume; writes while a flush runs; a power cut",
        )
    }
}

pub(super) fn torn_blocks() -> Scenario {
    Scenario {
        volumes: 1,
        owned: [Set::new(0b00_0111), Set::NONE],
        requests: [requests(3, 0, 0), requests(0, 0, 0)],
        torn: true,
        faults: Faults {
            cuts: 1,
            ..Faults::default()
        },
        witnesses: vec![W::MapAccepted, W::MapRejected],
        ..Scenario::new("torn-blocks", "one volume; a power cut leaves parts of writes")
    }
}

fn two_crashes() -> Scenario {
    Scenario {
        volumes: 1,
        owned: [Set::new(0b00_0111), Set::NONE],
        requests: [requests(3, 0, 0), requests(0, 0, 0)],
        faults: Faults {
            cuts: 2,
            kills: 1,
            ..Faults::default()
        },
        witnesses: vec![W::BatchSentAgain, W::MapAccepted, W::MapRejected],
        ..Scenario::new("two-crashes", "one volume; a kill and two power cuts")
    }
}

pub(super) fn two_blocks() -> Scenario {
    Scenario {
        volumes: 1,
        lbas: 2,
        owned: [Set::new(0b00_0111), Set::NONE],
        requests: [requests(3, 0, 0), requests(0, 0, 0)],
        writes: [Set::new(0b010), Set::NONE],
        faults: Faults {
            cuts: 1,
            ..Faults::default()
        },
        witnesses: vec![
            W::Aliased,
            W::HitGivenBack,
            W::BatchSentAgain,
            W::MapRejected,
            W::SharedAtRest,
        ],
        ..Scenario::new(
            "two-blocks",
            "one volume writes the same content to two logical blocks; a power cut",
        )
    }
}

fn trims() -> Scenario {
    Scenario {
        volumes: 1,
        owned: [Set::new(0b00_0011), Set::NONE],
        requests: [requests(2, 1, 2), requests(0, 0, 0)],
        writes: [Set::new(0b010), Set::NONE],
        faults: Faults {
            cuts: 1,
            ..Faults::default()
        },
        witnesses: vec![
            W::MissGivenBack,
            W::Freed,
            W::ReadThroughOldMapping,
            W::MapRejected,
        ],
        ..Scenario::new("trims", "one volume trims, at any step; a power cut")
    }
}

fn zeros() -> Scenario {
    Scenario {
        volumes: 1,
        owned: [Set::new(0b00_0011), Set::NONE],
        requests: [requests(3, 0, 0), requests(0, 0, 0)],
        writes: [Set::new(0b011), Set::NONE],
        faults: Faults {
            cuts: 1,
            ..Faults::default()
        },
        witnesses: vec![W::ZerosDropped, W::Freed, W::MapRejected],
        ..Scenario::new("zeros", "one volume writes zeros; a power cut")
    }
}

fn comparison() -> Scenario {
    Scenario {
        mapped: REGISTERED,
        contents: [OLD, OLD, OLD, OLD, 1, OLD],
        owned: [Set::new(0b00_0011), Set::new(0b10_1000)],
        requests: [requests(2, 0, 0), requests(1, 0, 0)],
        writes: [Set::new(0b010), Set::new(0b100)],
        compares: true,
        collides: true,
        witnesses: vec![W::BytesDiffer, W::Aliased, W::Freed],
        ..Scenario::new(
            "comparison",
            "two contents have one fingerprint; finders compare bytes",
        )
    }
}

fn comparison_cut() -> Scenario {
    Scenario {
        mapped: REGISTERED,
        contents: [OLD, OLD, OLD, OLD, 1, OLD],
        owned: [Set::new(0b00_0011), Set::NONE],
        requests: [requests(2, 0, 0), requests(0, 0, 0)],
        writes: [Set::new(0b110), Set::NONE],
        compares: true,
        collides: true,
        faults: Faults {
            cuts: 1,
            ..Faults::default()
        },
        witnesses: vec![W::BytesDiffer, W::Aliased, W::BatchSentAgain],
        ..Scenario::new("comparison-cut", "the same with a power cut")
    }
}

pub(super) fn forgetful_index() -> Scenario {
    Scenario {
        mapped: REGISTERED,
        contents: [OLD, OLD, OLD, OLD, 1, OLD],
        owned: [Set::new(0b00_0011), Set::new(0b10_1000)],
        requests: [requests(2, 0, 0), requests(1, 0, 0)],
        writes: [Set::new(0b010), Set::new(0b100)],
        faults: Faults {
            forgets: 1,
            ..Faults::default()
        },
        witnesses: vec![W::Recounted, W::Aliased, W::Freed, W::SharedAtRest],
        ..Scenario::new("forgetful-index", "the index loses a batch that it had answered")
    }
}

/// Requests of a guest whose volume gets snapshots.
pub(super) const fn with_snapshots(writes: u8, reads: u8, snapshots: u8) -> Requests {
    Requests {
        writes,
        reads,
        trims: 0,
        snapshots,
    }
}

pub(super) fn snapshots() -> Scenario {
    Scenario {
        volumes: 1,
        owned: [Set::new(0b00_0111), Set::NONE],
        requests: [with_snapshots(2, 0, 2), Requests::default()],
        writes: [Set::new(0b010), Set::NONE],
        witnesses: vec![W::SnapshotRemoved, W::Aliased, W::Freed],
        ..Scenario::new("snapshots", "two snapshots of one volume, removed in any order")
    }
}

fn snapshots_cut() -> Scenario {
    Scenario {
        volumes: 1,
        owned: [Set::new(0b00_0111), Set::NONE],
        requests: [with_snapshots(2, 0, 1), Requests::default()],
        writes: [Set::new(0b110), Set::NONE],
        faults: Faults {
            cuts: 1,
            ..Faults::default()
        },
        witnesses: vec![W::SnapshotRemoved, W::MapRejected, W::BatchSentAgain],
        ..Scenario::new("snapshots-cut", "a snapshot of one volume; a power cut")
    }
}

fn snapshot_reads() -> Scenario {
    Scenario {
        volumes: 1,
        owned: [Set::new(0b00_0111), Set::NONE],
        requests: [with_snapshots(2, 1, 1), Requests::default()],
        writes: [Set::new(0b110), Set::NONE],
        witnesses: vec![W::SnapshotRemoved, W::Freed],
        ..Scenario::new("snapshot-reads", "a snapshot is read, and removed meanwhile")
    }
}

pub(super) fn hand_over() -> Scenario {
    Scenario {
        owned: [Set::new(0b00_0001), Set::new(0b00_0010)],
        requests: [requests(1, 0, 0), requests(1, 0, 0)],
        writes: [Set::new(0b010), Set::new(0b010)],
        hands_over: true,
        spare: Set::new(0b00_0100),
        faults: Faults {
            cuts: 1,
            ..Faults::default()
        },
        witnesses: vec![W::Given, W::Taken, W::Resumed, W::MapRejected],
        ..Scenario::new("hand-over", "two volumes, blocks through the pool; a power cut")
    }
}

pub(super) fn takeover() -> Scenario {
    Scenario {
        volumes: 1,
        owned: [Set::new(0b00_0011), Set::NONE],
        requests: [requests(3, 0, 0), Requests::default()],
        writes: [Set::new(0b010), Set::NONE],
        spare: Set::new(0b00_1100),
        faults: Faults {
            takeovers: 1,
            ..Faults::default()
        },
        witnesses: vec![W::LateWrite, W::BatchSentAgain, W::Freed],
        ..Scenario::new("takeover", "another host takes over beside a former process")
    }
}

fn takeover_cut() -> Scenario {
    Scenario {
        volumes: 1,
        owned: [Set::new(0b00_0011), Set::NONE],
        requests: [requests(2, 0, 0), Requests::default()],
        writes: [Set::new(0b010), Set::NONE],
        spare: Set::new(0b00_0100),
        faults: Faults {
            takeovers: 1,
            cuts: 1,
            ..Faults::default()
        },
        witnesses: vec![W::LateWrite, W::BatchSentAgain, W::MapRejected],
        ..Scenario::new("takeover-cut", "the same with a power cut")
    }
}

pub(super) fn lazy_marks() -> Scenario {
    Scenario {
        name: "lazy-marks",
        about: "one volume; flushes are acknowledged before their marks are durable; two crashes",
        lazy_marks: true,
        faults: Faults {
            cuts: 1,
            kills: 1,
            ..Faults::default()
        },
        ..torn_blocks()
    }
}

fn lazy_marks_sharing() -> Scenario {
    Scenario {
        name: "lazy-marks-sharing",
        about: "the same with two logical blocks of one content",
        lazy_marks: true,
        ..two_blocks()
    }
}

pub(super) fn full_pool() -> Scenario {
    Scenario {
        name: "full-pool",
        about: "two volumes take blocks out of the index and write them in place",
        unshares: true,
        requests: [requests(1, 0, 0), requests(1, 0, 0)],
        faults: Faults::default(),
        witnesses: vec![W::PrivateAgain, W::Aliased, W::Freed],
        ..aliasing()
    }
}

fn full_pool_cut() -> Scenario {
    Scenario {
        name: "full-pool-cut",
        about: "the same in one volume, with a snapshot and a power cut",
        unshares: true,
        witnesses: vec![W::PrivateAgain, W::BatchSentAgain, W::SnapshotRemoved],
        ..snapshots_cut()
    }
}

fn late_batches() -> Scenario {
    Scenario {
        name: "late-batches",
        about: "a batch arrives after it was sent again",
        faults: Faults {
            delays: 1,
            ..Faults::default()
        },
        witnesses: vec![W::StrayRefused, W::Repeated, W::Freed],
        ..aliasing()
    }
}

pub(super) fn carried_batches() -> Scenario {
    Scenario {
        volumes: 1,
        owned: [Set::new(0b00_0111), Set::NONE],
        requests: [requests(2, 0, 0), Requests::default()],
        writes: [Set::new(0b010), Set::NONE],
        extent: 6,
        faults: Faults {
            cuts: 1,
            kills: 1,
            ..Faults::default()
        },
        witnesses: vec![
            W::BatchCarried,
            W::IntentMetAgain,
            W::LogTurned,
            W::Repeated,
            W::Freed,
            W::MapRejected,
        ],
        ..Scenario::new(
            "carried-batches",
            "one volume; checkpoints as steps, also of open batches; two crashes",
        )
    }
}

fn turned_logs() -> Scenario {
    Scenario {
        name: "turned-logs",
        about: "the same without finder, in a log of four places that turns round",
        requests: [requests(3, 0, 2), Requests::default()],
        writes: [Set::new(0b110), Set::NONE],
        finds: [false; VOLUMES],
        extent: 4,
        witnesses: vec![W::LogTurned, W::MapAccepted, W::MapRejected],
        ..carried_batches()
    }
}
