//! The index of duplicates: batches, and what an index does that has lost one.

use super::action::Action;
use super::interceptor::{Successors, flush_at_once};
use super::properties::Witness;
use super::root::{Entry, Reply, Slot};
use super::rules::{Rule, Rules};
use super::scenario::Scenario;
use super::state::{Call, Client, Row, State, Undo, VOLUMES};

/// The index's half: applies a batch, or repeats the answer to it.
pub(crate) fn apply(rules: Rules, state: &mut State, v: usize, batch: Slot, sequence: u8) -> Reply {
    let client = state.clients[v];
    if rules.has(Rule::ExactlyOnce) {
        match (sequence + 4 - client.sequence) % 4 {
            0 => {
                if let Some(reply) = client.reply {
                    state.events.note(Witness::Repeated);
                    return reply;
                }
            }
            1 => {}
            _ => return Reply::OutOfOrder,
        }
    }
    if state.faults.forgets > 0 {
        state.undo = Some(Undo {
            rows: state.rows,
            clients: state.clients,
        });
    }
    let reply = match batch {
        Slot::Increment { block, hash, .. } => increment(state, block, hash),
        Slot::Decrement { block, hash } => decrement(state, block, hash),
        Slot::Unshare { block, hash, .. } => unshare(rules, state, block, hash),
        Slot::Empty => Reply::Missing,
    };
    state.clients[v] = Client {
        sequence,
        reply: Some(reply),
    };
    reply
}

fn increment(state: &mut State, block: u8, hash: u8) -> Reply {
    let content = state.block(block).volatile;
    let row = &mut state.rows[usize::from(hash)];
    if row.references > 0 {
        row.references += 1;
        return Reply::Hit(row.block);
    }
    *row = Row {
        block,
        references: 1,
        content,
    };
    Reply::Miss
}

fn unshare(rules: Rules, state: &mut State, block: u8, hash: u8) -> Reply {
    let row = &mut state.rows[usize::from(hash)];
    if row.references == 0 || row.block != block {
        return Reply::Missing;
    }
    if row.references > 1 && rules.has(Rule::UnsharedAlone) {
        return Reply::Shared;
    }
    *row = Row::default();
    Reply::Alone
}

fn decrement(state: &mut State, block: u8, hash: u8) -> Reply {
    let row = &mut state.rows[usize::from(hash)];
    if row.references == 0 || row.block != block {
        return Reply::Missing;
    }
    row.references -= 1;
    if row.references > 0 {
        return Reply::Left;
    }
    *row = Row::default();
    Reply::Zero
}

/// The steps of an index that may lose its newest batch.
pub fn steps(scenario: &Scenario, rules: Rules, state: &State, out: &mut Successors) {
    if let Some(stray) = state.stray {
        let mut next = *state;
        let volume = usize::from(stray.volume);
        next.stray = None;
        let reply = apply(rules, &mut next, volume, stray.batch, stray.sequence);
        if reply == Reply::OutOfOrder {
            next.events.note(Witness::StrayRefused);
        }
        out.push((Action::Arrive { volume }, next));
    }
    if let Some(undo) = state.undo
        && state.faults.forgets > 0
    {
        let mut next = *state;
        next.faults.forgets -= 1;
        next.rows = undo.rows;
        next.clients = undo.clients;
        next.undo = None;
        next.forgot = true;
        if rules.has(Rule::ConfirmedFirst) {
            for confirmed in &mut next.confirmed[..scenario.volumes] {
                *confirmed = false;
            }
        }
        out.push((Action::Forget, next));
    }
    let mut one_is_behind = false;
    for v in 0..scenario.volumes {
        if state.confirmed[v] {
            continue;
        }
        let root = &state.volumes[v].process.root;
        let ahead = (root.sequence + 4 - state.clients[v].sequence) % 4;
        let is_behind = ahead > u8::from(root.slot != Slot::Empty);
        one_is_behind |= is_behind;
        if is_behind && rules.has(Rule::RowCompared) {
            continue;
        }
        let mut next = *state;
        next.confirmed[v] = true;
        next.volumes[v].process.call = Call::Ready;
        if is_behind {
            next.clients[v].sequence = root.sequence;
        } else if next.is_confirmed() && rules.has(Rule::RowCompared) {
            next.forgot = false;
        }
        out.push((Action::Confirm { volume: v }, next));
    }
    if one_is_behind && rules.has(Rule::RowCompared) {
        let mut next = *state;
        recount(scenario, rules, &mut next);
        out.push((Action::Recount, next));
    }
}

/// Blocks that no volume owns and no map refers to become those of volume 0.
fn sweep(scenario: &Scenario, state: &mut State) {
    for block in scenario.blocks() {
        let is_owned = state
            .volumes
            .iter()
            .any(|volume| volume.process.root.owned.has(block));
        let is_counted = state
            .rows
            .iter()
            .any(|row| row.references > 0 && row.block == block);
        if !is_owned && !is_counted {
            let volume = &mut state.volumes[0];
            volume.log.base.owned.add(block);
            volume.process.root.owned.add(block);
            volume.process.waiting.since.add(block);
        }
    }
}

/// Rows from the maps of all volumes, flushed before. References that were to be given back count
/// no more; the finders' open batches count as not applied.
fn recount(scenario: &Scenario, rules: Rules, state: &mut State) {
    state.rows = Default::default();
    for v in 0..scenario.volumes {
        flush_at_once(scenario, rules, state, v);
        let volume = &mut state.volumes[v];
        if rules.has(Rule::RecountMapsOnly) {
            for root in [&mut volume.process.root, &mut volume.log.base] {
                root.unreferenced = Default::default();
                if matches!(root.slot, Slot::Decrement { .. }) {
                    root.slot = Slot::Empty;
                }
            }
        }
        if rules.has(Rule::RecountAsksAgain) {
            volume.process.call = Call::Ready;
        }
        let root = volume.process.root;
        for block in scenario.blocks() {
            let mapped = root.map.iter().filter(|entry| **entry == Entry::Counted(block));
            let count = u8::try_from(mapped.count()).expect("a few") + root.unreferenced.of(block);
            if count > 0 {
                let content = state.block(block).volatile;
                let row = &mut state.rows[usize::from(scenario.hash(content))];
                *row = Row {
                    block,
                    references: row.references + count,
                    content,
                };
            }
        }
        let is_open = root.slot != Slot::Empty;
        state.clients[v] = Client {
            sequence: (root.sequence + 4 - u8::from(is_open)) % 4,
            reply: None,
        };
    }
    if rules.has(Rule::RecountSweeps) {
        sweep(scenario, state);
    }
    state.confirmed = [true; VOLUMES];
    state.forgot = false;
    state.events.note(Witness::Recounted);
}
