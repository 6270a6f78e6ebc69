//! Blocks that go from one volume to another through the pool, and a volume that another host
//! takes over while its former process may still write.

use super::action::Action;
use super::crash::recover_elsewhere;
use super::index::apply;
use super::interceptor::Successors;
use super::properties::Witness;
use super::root::{Entry, LBAS, Record, Root, Slot};
use super::rules::{Rule, Rules};
use super::scenario::Scenario;
use super::sets::Set;
use super::state::{Holder, State, Write, Zombie};

/// What a late write puts into a block.
const LATE: u8 = 3;

/// Gifts and takes of volume `v`.
pub fn steps(scenario: &Scenario, rules: Rules, state: &State, v: usize, out: &mut Successors) {
    if !scenario.hands_over {
        return;
    }
    let volume = v;
    let mine = u8::try_from(v).expect("a few volumes");
    let process = &state.volumes[v].process;
    let base = &state.volumes[v].log.base;
    let has_room = state.volumes[v].log.has_room(1);
    for block in scenario.blocks() {
        let at = usize::from(block);
        let is_owned = process.root.owned.has(block);
        let mut next = *state;
        match state.table[at] {
            Holder::InUse if process.free.has(block) && has_room => {
                next.table[at] = Holder::Giving(mine);
                next.volumes[v].process.free.remove(block);
                next.append(rules, v, Record::Give { block });
                out.push((Action::Give { volume, block }, next));
            }
            Holder::Giving(by) if by == mine && is_owned => {
                next.table[at] = Holder::InUse;
                next.events.note(Witness::Resumed);
                out.push((Action::TakeBack { volume, block }, next));
            }
            Holder::Giving(by)
                if by == mine && !is_owned && (!base.owned.has(block) || !rules.has(Rule::GiveDurable)) =>
            {
                next.table[at] = Holder::Pool;
                next.events.note(Witness::Given);
                out.push((Action::EndGive { volume, block }, next));
            }
            Holder::Pool if has_room => take(rules, next, v, block, out),
            Holder::Taking(by) if by == mine && is_owned && base.owned.has(block) => {
                next.table[at] = Holder::InUse;
                next.events.note(Witness::Taken);
                out.push((Action::EndTake { volume, block }, next));
            }
            Holder::Taking(by) if by == mine && !is_owned && has_room => {
                take(rules, next, v, block, out);
            }
            _ => {}
        }
    }
}

fn take(rules: Rules, mut next: State, v: usize, block: u8, out: &mut Successors) {
    let mine = u8::try_from(v).expect("a few volumes");
    next.append(rules, v, Record::Take { block });
    if rules.has(Rule::TakeDurable) {
        next.table[usize::from(block)] = Holder::Taking(mine);
    } else {
        next.table[usize::from(block)] = Holder::InUse;
        next.volumes[v].process.waiting.since.remove(block);
        next.volumes[v].process.free.add(block);
    }
    out.push((Action::Take { volume: v, block }, next));
}

/// A takeover, and what the former process does after it.
pub fn takeover(scenario: &Scenario, rules: Rules, state: &State, out: &mut Successors) {
    if state.faults.takeovers > 0 {
        let mut next = *state;
        next.faults.takeovers -= 1;
        next.zombie = Some(zombie(state));
        recover_elsewhere(rules, &mut next);
        let process = &mut next.volumes[0].process;
        process.inherited = process.root.owned;
        for block in scenario.spare.each() {
            // Takes from the pool as above: here at once, and durable.
            next.table[usize::from(block)] = Holder::InUse;
            process.root.owned.add(block);
            process.free.add(block);
            next.volumes[0].log.base.owned.add(block);
        }
        out.push((Action::TakeOver, next));
    }
    let Some(zombie) = state.zombie else {
        return;
    };
    let mut next = *state;
    next.zombie = None;
    out.push((Action::Fence, next));
    if zombie.writes > 0 {
        for block in zombie.writable.each() {
            out.push(late_write(state, block));
        }
    }
    if !rules.has(Rule::ClientFenced) {
        for block in zombie.private.each() {
            let mut next = *state;
            let batch = Slot::Increment {
                lba: 0,
                block,
                birth: 0,
                hash: scenario.hash(state.block(block).volatile),
            };
            apply(rules, &mut next, 0, batch, (zombie.sequence + 1) % 4);
            if let Some(zombie) = &mut next.zombie {
                zombie.private.remove(block);
            }
            out.push((Action::LateBatch { block }, next));
        }
    }
}

fn zombie(state: &State) -> Zombie {
    let process = &state.volumes[0].process;
    let mut private = Set::NONE;
    for entry in process.root.map {
        if let Entry::Private(block) = entry {
            private.add(block);
        }
    }
    let mut writable = private.and(process.free);
    for write in process.writes {
        if let Write::InPlace { block, .. } | Write::Redirect { block, .. } = write {
            writable.add(block);
        }
    }
    Zombie {
        writable,
        private,
        sequence: process.root.sequence,
        writes: 1,
    }
}

/// Where the new map still has the block, the write is one that the guest had sent before the
/// takeover, and it may find it: only a fence prevents that.
fn late_write(state: &State, block: u8) -> (Action, State) {
    let mut next = *state;
    if let Some(zombie) = &mut next.zombie {
        zombie.writes -= 1;
    }
    next.blocks[usize::from(block)].write(LATE, 0);
    let volume = &mut next.volumes[0];
    let inherited = volume.process.inherited;
    let inherits = |root: &Root, lba: usize| {
        inherited.has(block) && root.map[lba] == Entry::Private(block) && root.births[lba] < root.generation
    };
    for lba in 0..LBAS {
        if inherits(&volume.process.root, lba) {
            volume.guest.acknowledged[lba] = LATE;
            volume.guest.may_be_then[lba].add(LATE);
        }
        if inherits(&volume.log.base, lba) {
            // A power cut may bring the block back into the map.
            volume.guest.may_be[lba].add(LATE);
        }
    }
    next.events.note(Witness::LateWrite);
    let content = LATE;
    (Action::LateWrite { block, content }, next)
}
