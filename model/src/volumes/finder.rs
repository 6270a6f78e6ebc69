//! The finder, the collector, and their calls of the index of duplicates.

use super::action::Action;
use super::index::apply;
use super::interceptor::Successors;
use super::properties::{Violation, Witness};
use super::root::{Dropped, Entry, Record, Reply, Slot};
use super::rules::{Rule, Rules};
use super::scenario::Scenario;
use super::snapshot::Dead;
use super::state::{Call, Finder, State, Stray, TORN, Write, ZEROS};

/// All steps that finder and collector of volume `v` can take.
pub fn steps(scenario: &Scenario, rules: Rules, state: &State, v: usize, out: &mut Successors) {
    if scenario.finds[v] {
        match state.volumes[v].process.finder {
            Finder::Idle => freeze(scenario, rules, state, v, out),
            Finder::Frozen { lba, block, birth } => hash(rules, state, v, (lba, block, birth), out),
            Finder::Hashed {
                lba,
                block,
                birth,
                content,
            } => register(scenario, rules, state, v, (lba, block, birth, content), out),
        }
    }
    if scenario.collects[v] {
        collect(scenario, rules, state, v, out);
    }
    if scenario.unshares {
        unshare(scenario, rules, state, v, out);
    }
    call(scenario, rules, state, v, out);
}

fn freeze(scenario: &Scenario, rules: Rules, state: &State, v: usize, out: &mut Successors) {
    for lba in 0..scenario.lbas {
        let Entry::Private(block) = state.volumes[v].process.root.entry(lba) else {
            continue;
        };
        let process = &state.volumes[v].process;
        let waits = process.inherited.has(block) && rules.has(Rule::InheritedNotRegistered);
        if process.unlike.has(lba) || waits {
            continue;
        }
        let mut next = *state;
        let process = &mut next.volumes[v].process;
        process.finder = Finder::Frozen {
            lba,
            block,
            birth: process.root.births[usize::from(lba)],
        };
        if rules.has(Rule::FreezeFirst) {
            process.root.set(lba, Entry::Frozen(block));
        }
        out.push((Action::Freeze { volume: v, lba }, next));
    }
}

fn hash(rules: Rules, state: &State, v: usize, (lba, block, birth): (u8, u8, u8), out: &mut Successors) {
    let process = &state.volumes[v].process;
    let writes =
        matches!(process.writes[usize::from(lba)], Write::InPlace { block: into, .. } if into == block);
    let is_frozen = process.root.entry(lba) == Entry::Frozen(block);
    if is_frozen && writes && rules.has(Rule::Drained) {
        return;
    }
    let mut next = *state;
    let content = state.block(block).volatile;
    next.volumes[v].process.finder = Finder::Hashed {
        lba,
        block,
        birth,
        content,
    };
    out.push((
        Action::Hash {
            volume: v,
            lba,
            content,
        },
        next,
    ));
}

fn register(
    scenario: &Scenario,
    rules: Rules,
    state: &State,
    v: usize,
    (lba, block, birth, content): (u8, u8, u8, u8),
    out: &mut Successors,
) {
    let mut next = *state;
    let process = &mut next.volumes[v].process;
    if !rules.has(Rule::FreezeFirst) && process.root.entry(lba) == Entry::Private(block) {
        process.root.set(lba, Entry::Frozen(block));
    }
    if process.root.entry(lba) != Entry::Frozen(block) {
        process.finder = Finder::Idle;
        let mut dropped = Dropped::default();
        let counted = false;
        process.root.release(
            rules,
            Dead {
                block,
                birth,
                counted,
            },
            &mut dropped,
        );
        process.waiting.since = process.waiting.since.and(dropped.limbo);
        out.push((Action::Abandon { volume: v, lba }, next));
        return;
    }
    if content == ZEROS || content == TORN {
        process.finder = Finder::Idle;
        process.root.set(lba, Entry::Private(block));
        if content == ZEROS && state.volumes[v].log.has_room(1) {
            next.append(rules, v, Record::Trim { lba });
            next.events.note(Witness::ZerosDropped);
            out.push((Action::Zero { volume: v, lba }, next));
        }
        return;
    }
    if process.is_slot_taken() || !state.volumes[v].log.has_room(2) {
        return;
    }
    process.finder = Finder::Idle;
    if rules.has(Rule::DataFlushed) {
        next.flush_data(v);
    }
    let hash = scenario.hash(content);
    if scenario.compares && !rules.has(Rule::ComparedAfter) {
        let row = state.rows[usize::from(hash)];
        next.volumes[v].process.compared = row.references == 0 || row.content == content;
    }
    next.append(
        rules,
        v,
        Record::Intent {
            lba,
            block,
            birth,
            hash,
        },
    );
    if rules.has(Rule::IntentDurable) {
        next.flush_log(rules, v);
    }
    next.volumes[v].process.call = Call::Ready;
    out.push((
        Action::Register {
            volume: v,
            lba,
            block,
        },
        next,
    ));
}

fn collect(scenario: &Scenario, rules: Rules, state: &State, v: usize, out: &mut Successors) {
    let volume = &state.volumes[v];
    let process = &volume.process;
    if process.is_slot_taken() || !volume.log.has_room(2) {
        return;
    }
    for block in 0..6_u8 {
        let mut due = process.root.unreferenced.of(block);
        if rules.has(Rule::DropDurable) {
            due -= process.waiting.references_since.of(block) + process.waiting.references_before.of(block);
        }
        let is_read = process.read.is_some_and(|read| read.block == Some(block));
        if due == 0 || is_read && rules.has(Rule::ReadersBeforeDecrement) {
            continue;
        }
        let mut next = *state;
        let hash = scenario.hash(state.block(block).volatile);
        next.append(rules, v, Record::DecIntent { block, hash });
        if rules.has(Rule::DecIntentDurable) {
            next.flush_log(rules, v);
        }
        next.volumes[v].process.call = Call::Ready;
        out.push((Action::Collect { volume: v, block }, next));
    }
}

/// Sends the batch in the slot, and takes the answer.
fn call(scenario: &Scenario, rules: Rules, state: &State, v: usize, out: &mut Successors) {
    let process = &state.volumes[v].process;
    if process.root.slot == Slot::Empty || process.checkpoint.is_some() {
        return;
    }
    match process.call {
        Call::Ready => {
            if !state.is_confirmed() {
                return;
            }
            if state.faults.delays > 0 {
                let mut next = *state;
                next.faults.delays -= 1;
                next.stray = Some(Stray {
                    volume: u8::try_from(v).expect("a few volumes"),
                    batch: process.root.slot,
                    sequence: process.root.sequence,
                });
                out.push((Action::Delay { volume: v }, next));
            }
            let mut next = *state;
            let reply = apply(rules, &mut next, v, process.root.slot, process.root.sequence);
            next.volumes[v].process.call = Call::Answered(reply);
            if matches!(reply, Reply::Missing | Reply::OutOfOrder) {
                if !state.forgot {
                    next.fault = Some(Violation::Damage);
                } else if reply == Reply::OutOfOrder {
                    // The volume's row is behind its log: collection stops.
                    next.confirmed.fill(false);
                    next.volumes[v].process.call = Call::Ready;
                }
            }
            out.push((Action::Ask { volume: v }, next));
        }
        Call::Answered(reply) => {
            if state.faults.losses > 0 {
                let mut next = *state;
                next.faults.losses -= 1;
                next.volumes[v].process.call = Call::Ready;
                out.push((Action::LoseAnswer { volume: v }, next));
            }
            if state.volumes[v].log.has_room(1) {
                finish(scenario, rules, state, v, reply, out);
            }
        }
    }
}

fn finish(scenario: &Scenario, rules: Rules, state: &State, v: usize, reply: Reply, out: &mut Successors) {
    let mut next = *state;
    match state.volumes[v].process.root.slot {
        Slot::Increment { lba, block, .. } => {
            let aliased = state.volumes[v].process.root.entry(lba) == Entry::Frozen(block);
            let differs = match reply {
                Reply::Hit(other) => differs(scenario, rules, state, v, block, other),
                _ => false,
            };
            let record = Record::Found {
                reply,
                aliased,
                differs,
            };
            next.append(rules, v, record);
            next.volumes[v].process.compared = false;
            if differs {
                if aliased {
                    next.volumes[v].process.unlike.add(lba);
                }
                next.events.note(Witness::BytesDiffer);
            }
            next.events.note(match (aliased && !differs, reply) {
                (true, Reply::Hit(_)) => Witness::Aliased,
                (true, _) => Witness::Registered,
                (false, Reply::Hit(_)) => Witness::HitGivenBack,
                (false, _) => Witness::MissGivenBack,
            });
            out.push((Action::Found { volume: v }, next));
        }
        Slot::Decrement { block, .. } => {
            // The oldest references are given back first: those of `waiting` stay.
            next.append(rules, v, Record::Decided { reply });
            if !rules.has(Rule::DropDurable) {
                forget_waiting(&mut next, v, block);
            }
            if reply == Reply::Zero {
                next.events.note(Witness::Freed);
            }
            out.push((Action::Decide { volume: v }, next));
        }
        Slot::Unshare { lba, block, .. } => {
            next.append(rules, v, Record::Unshared { reply });
            forget_waiting(&mut next, v, block);
            if reply == Reply::Alone {
                next.events.note(Witness::PrivateAgain);
            }
            out.push((Action::EndUnshare { volume: v, lba }, next));
        }
        Slot::Empty => {}
    }
}

/// No more references wait than are unreferenced.
fn forget_waiting(next: &mut State, v: usize, block: u8) {
    let process = &mut next.volumes[v].process;
    let total = process.root.unreferenced.of(block);
    let waiting = &mut process.waiting;
    while waiting.references_since.of(block) + waiting.references_before.of(block) > total {
        if waiting.references_before.of(block) > 0 {
            waiting.references_before.remove(block);
        } else {
            waiting.references_since.remove(block);
        }
    }
}

/// The full pool: a counted block that nothing else refers to becomes private again.
fn unshare(scenario: &Scenario, rules: Rules, state: &State, v: usize, out: &mut Successors) {
    let volume = &state.volumes[v];
    let root = &volume.process.root;
    if root.slot != Slot::Empty || !volume.log.has_room(2) {
        return;
    }
    for lba in 0..scenario.lbas {
        let at = usize::from(lba);
        let Entry::Counted(block) = root.entry(lba) else {
            continue;
        };
        let writes = volume.process.writes[at] != Write::Idle;
        if writes || root.births[at] != root.generation {
            continue;
        }
        let mut next = *state;
        let hash = scenario.hash(state.block(block).volatile);
        next.append(rules, v, Record::UnIntent { lba, block, hash });
        if rules.has(Rule::UnIntentDurable) {
            next.flush_log(rules, v);
        }
        next.volumes[v].process.call = Call::Ready;
        out.push((Action::Unshare { volume: v, lba }, next));
    }
}

/// Byte mode: whether the block that the index has is another one after all.
fn differs(scenario: &Scenario, rules: Rules, state: &State, v: usize, block: u8, other: u8) -> bool {
    if !scenario.compares || !rules.has(Rule::BytesCompared) {
        false
    } else if rules.has(Rule::ComparedAfter) {
        state.block(block).volatile != state.block(other).volatile
    } else {
        !state.volumes[v].process.compared
    }
}
