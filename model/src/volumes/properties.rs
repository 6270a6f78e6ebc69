//! What must hold in every state, and what some state must show.

use super::root::{Entry, Reply, Slot};
use super::scenario::Scenario;
use super::state::{Finder, Holder, State, Write};

/// A property that a state violates.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Violation {
    /// V1: a registered block has changed, or is not durable.
    RegisteredChanged,
    /// V2: a reference has no count.
    RefsTooFew,
    /// V3: a block has two uses that exclude each other.
    TwoUses,
    /// V3: a block is in no list, and nothing refers to it.
    Leak,
    /// V4: an in-place write is about to change a block that is not the volume's alone.
    SharedWrittenInPlace,
    /// V5: what was flushed is lost by a power cut.
    FlushedLost,
    /// V5: what was acknowledged is lost by a kill.
    AcknowledgedLost,
    /// V5: a read returns what was never there.
    WrongRead,
    /// V5: a logical block has another content than was acknowledged last.
    WriteLost,
    /// V5: a snapshot has other contents than when it was taken.
    SnapshotChanged,
    /// V6: a count is higher than references, those to be given back included.
    RefsTooMany,
    /// The index has no row for what it is asked about, or not the next batch.
    Damage,
}

/// An event that a scenario must show, so that it is not vacuous.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Witness {
    /// An entry refers to another block with the same content.
    Aliased,
    /// A block is registered.
    Registered,
    /// A write came first: the block that has the content has its increment back.
    HitGivenBack,
    /// A write came first: the registered block itself is given back.
    MissGivenBack,
    /// The last reference to a block is gone.
    Freed,
    /// A read ends after the map has another block.
    ReadThroughOldMapping,
    /// The index repeats an answer.
    Repeated,
    /// The index refuses a batch that arrives too late.
    StrayRefused,
    /// Recovery finds a wrong checksum.
    MapRejected,
    /// Recovery finds the right one.
    MapAccepted,
    /// Recovery finds a batch without result.
    BatchSentAgain,
    /// The finder finds zeros.
    ZerosDropped,
    /// The index has a block with the fingerprint and other bytes.
    BytesDiffer,
    /// A snapshot is removed.
    SnapshotRemoved,
    /// A block is given to the pool.
    Given,
    /// A block is taken from it.
    Taken,
    /// A counted block becomes private again.
    PrivateAgain,
    /// A hand-over that a crash has cut short is resumed.
    Resumed,
    /// A write of a former process arrives.
    LateWrite,
    /// The index is made anew from the maps.
    Recounted,
    /// A checkpoint logs the intent of an open batch again.
    BatchCarried,
    /// A replay meets an intent again.
    IntentMetAgain,
    /// A checkpoint gives a full log room: the next record is written over one of before it.
    LogTurned,
    /// Nothing is left to do, and two volumes, or two logical blocks, share a block.
    SharedAtRest,
}

/// The first property that `state` violates.
#[must_use]
pub fn violation(scenario: &Scenario, state: &State) -> Option<Violation> {
    if state.fault.is_some() {
        return state.fault;
    }
    let counts = if state.forgot { None } else { rows(scenario, state) };
    counts
        .or_else(|| uses(scenario, state))
        .or_else(|| guests(scenario, state))
}

/// Whether `state` shows `witness`.
#[must_use]
pub fn is_seen(scenario: &Scenario, witness: Witness, state: &State) -> bool {
    if witness == Witness::SharedAtRest {
        is_at_rest(scenario, state) && state.rows.iter().any(|row| row.references > 1)
    } else {
        state.events.has(witness)
    }
}

fn is_at_rest(scenario: &Scenario, state: &State) -> bool {
    (0..scenario.volumes).all(|v| {
        let process = &state.volumes[v].process;
        let waiting = &process.waiting;
        process.writes == [Write::Idle; 2]
            && process.finder == Finder::Idle
            && process.root.slot == Slot::Empty
            && process.root.unreferenced.is_empty()
            && waiting.since.and(waiting.before).and(waiting.covered).is_empty()
            && process.root.snapshots == [None; 2]
            && process
                .root
                .map
                .iter()
                .all(|entry| matches!(entry, Entry::Unmapped | Entry::Counted(_)))
    })
}

/// References to `block` that the map of some volume has.
fn references(scenario: &Scenario, state: &State, block: u8) -> u8 {
    let mut count = 0;
    for v in 0..scenario.volumes {
        let root = &state.volumes[v].process.root;
        count += u8::from(root.map[0] == Entry::Counted(block));
        count += u8::from(root.map[1] == Entry::Counted(block));
    }
    count
}

fn rows(scenario: &Scenario, state: &State) -> Option<Violation> {
    for block in scenario.blocks() {
        let row = state
            .rows
            .iter()
            .find(|row| row.references > 0 && row.block == block);
        let mut counted = 0;
        if let Some(row) = row {
            let on_device = state.block(block);
            if !on_device.pending.is_empty() || on_device.volatile != row.content {
                return Some(Violation::RegisteredChanged);
            }
            counted = row.references;
        }
        let references = references(scenario, state, block);
        // Batches that the index has applied and the volume has not.
        let mut due = references;
        for v in 0..scenario.volumes {
            let root = &state.volumes[v].process.root;
            due += root.unreferenced.of(block);
            let dead = root
                .dead_items()
                .filter(|dead| dead.counted && dead.block == block);
            due += u8::try_from(dead.count()).expect("a few items");
            let client = state.clients[v];
            let applied = client.sequence == root.sequence;
            match (root.slot, client.reply) {
                (Slot::Increment { block: own, .. }, Some(reply)) if applied => {
                    let other = if let Reply::Hit(other) = reply { other } else { own };
                    due += u8::from(other == block);
                }
                (Slot::Decrement { block: own, .. }, _) if applied && own == block => {
                    due = due.saturating_sub(1);
                }
                (Slot::Unshare { block: own, .. }, Some(Reply::Alone)) if applied && own == block => {
                    due = due.saturating_sub(1);
                }
                _ => {}
            }
        }
        if counted < due {
            return Some(Violation::RefsTooFew);
        }
        if counted > due {
            return Some(Violation::RefsTooMany);
        }
    }
    None
}

/// What a block is used for: each of these excludes the others.
fn uses_of(scenario: &Scenario, state: &State, block: u8) -> u8 {
    let mut uses = 0;
    let mut registering = false;
    let mut decided = false;
    for v in 0..scenario.volumes {
        let process = &state.volumes[v].process;
        let waiting = &process.waiting;
        let listed = process
            .free
            .and(waiting.since)
            .and(waiting.before)
            .and(waiting.covered);
        uses += u8::from(listed.has(block));
        for write in process.writes {
            uses += u8::from(matches!(write, Write::Redirect { block: into, .. } if into == block));
        }
        for dead in process.root.dead_items() {
            uses += u8::from(!dead.counted && dead.block == block);
        }
        for entry in process.root.map {
            uses += u8::from(matches!(entry, Entry::Private(own) | Entry::Frozen(own) if own == block));
        }
        if let Finder::Frozen { lba, block: own, .. } | Finder::Hashed { lba, block: own, .. } =
            process.finder
            && own == block
        {
            let entry = process.root.entry(lba);
            uses += u8::from(entry.block() != Some(block));
        }
        match process.root.slot {
            Slot::Increment { lba, block: own, .. } if own == block => {
                uses += u8::from(process.root.entry(lba) != Entry::Frozen(block));
                registering = true;
            }
            Slot::Decrement { block: own, .. } | Slot::Unshare { block: own, .. } if own == block => {
                let client = state.clients[v];
                let is_mine = matches!(client.reply, Some(Reply::Zero | Reply::Alone));
                decided |= client.sequence == process.root.sequence && is_mine;
            }
            _ => {}
        }
    }
    let holder = state.table[usize::from(block)];
    if holder == Holder::Pool || holder != Holder::InUse && uses == 0 {
        uses += 1;
    }
    if state.forgot {
        // The rows are wrong, and that is the fault, not what came of it.
        return uses;
    }
    let registered = state
        .rows
        .iter()
        .any(|row| row.references > 0 && row.block == block);
    uses += u8::from(registered && !registering);
    uses + u8::from(decided && !registered)
}

fn uses(scenario: &Scenario, state: &State) -> Option<Violation> {
    for block in scenario.blocks() {
        match uses_of(scenario, state, block) {
            0 if !state.forgot => return Some(Violation::Leak),
            0 | 1 => {}
            _ => return Some(Violation::TwoUses),
        }
    }
    for v in 0..scenario.volumes {
        let process = &state.volumes[v].process;
        for (write, entry) in process.writes.into_iter().zip(process.root.map) {
            let Write::InPlace { block, .. } = write else {
                continue;
            };
            let registered = state
                .rows
                .iter()
                .any(|row| row.references > 0 && row.block == block);
            if registered || !matches!(entry, Entry::Private(_) | Entry::Frozen(_)) {
                return Some(Violation::SharedWrittenInPlace);
            }
        }
    }
    None
}

fn guests(scenario: &Scenario, state: &State) -> Option<Violation> {
    for v in 0..scenario.volumes {
        let volume = &state.volumes[v];
        for (entry, acknowledged) in volume.process.root.map.iter().zip(volume.guest.acknowledged) {
            if state.content(entry.block()) != acknowledged {
                return Some(Violation::WriteLost);
            }
        }
        for snapshot in volume.process.root.snapshots.iter().flatten() {
            let now = snapshot.map.map(|entry| state.content(entry.block()));
            if now != snapshot.contents {
                return Some(Violation::SnapshotChanged);
            }
        }
    }
    None
}
