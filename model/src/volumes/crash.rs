//! Kills, power cuts, recovery, checkpoints.

use super::action::Action;
use super::device::Block;
use super::interceptor::Successors;
use super::log::{Log, TAIL};
use super::properties::{Violation, Witness};
use super::root::{Entry, Record, Root, Slot};
use super::rules::{Rule, Rules};
use super::scenario::Scenario;
use super::sets::{BLOCKS, Set};
use super::state::{Process, State, TORN, VOLUMES, Waiting};

/// All crashes that may happen.
pub fn steps(scenario: &Scenario, rules: Rules, state: &State, out: &mut Successors) {
    for v in 0..scenario.volumes {
        checkpoint(rules, state, v, out);
        if state.volumes[v].log.has_checkpoints() {
            checkpoint_in_steps(rules, state, v, out);
        }
        if state.faults.kills > 0 {
            let mut next = *state;
            next.faults.kills -= 1;
            recover(rules, &mut next, v, rules.has(Rule::KillTrusted), None);
            out.push((Action::Kill { volume: v }, next));
        }
    }
    if state.faults.cuts > 0 {
        power_cuts(scenario, rules, state, out);
    }
}

/// With both rules on a checkpoint changes nothing: what a mark covers is the root already.
fn checkpoint(rules: Rules, state: &State, v: usize, out: &mut Successors) {
    let log = &state.volumes[v].log;
    let mut next = *state;
    let log_then = &mut next.volumes[v].log;
    if !rules.has(Rule::CheckpointMarked) && log.len > 0 && log.base.slot == Slot::Empty {
        log_then.flushed = log.len;
        log_then.fold(rules, log.len);
        next.volumes[v].process.flush = None;
        if next.volumes[v].log.base.slot != Slot::Empty {
            return;
        }
    } else if !rules.has(Rule::CheckpointWaits) && log.len == 0 && log.base.slot != Slot::Empty {
        log_then.base.slot = Slot::Empty;
        for entry in &mut log_then.base.map {
            if let Entry::Frozen(block) = *entry {
                *entry = Entry::Private(block);
            }
        }
    } else {
        return;
    }
    out.push((Action::Checkpoint { volume: v }, next));
}

/// A checkpoint of a log that only checkpoints cut: what is before it, then its root.
fn checkpoint_in_steps(rules: Rules, state: &State, v: usize, out: &mut Successors) {
    let volume = &state.volumes[v];
    let mut next = *state;
    let log = &mut next.volumes[v].log;
    let Some(count) = volume.process.checkpoint else {
        let (_, intent) = volume.process.root.without_batch();
        let carried = intent.filter(|_| rules.has(Rule::CheckpointWaits));
        // Behind the intent, there is room for the answer.
        if log.len == 0 || carried.is_some() && !log.has_room(2) {
            return;
        }
        next.volumes[v].process.checkpoint = Some(log.len);
        if !rules.has(Rule::TurnSettled) {
            let places = u8::try_from(TAIL).expect("a few places");
            log.lent = log.len.min(places - log.extent);
        }
        if let Some(intent) = carried {
            log.push(intent);
            next.events.note(Witness::BatchCarried);
        }
        out.push((Action::BeginCheckpoint { volume: v }, next));
        return;
    };
    let was_full = !log.has_room(1);
    let mut root = log.base;
    for record in log.records().take(usize::from(count)) {
        root.apply(rules, record);
    }
    (log.base, _) = root.without_batch();
    log.flushed = if rules.has(Rule::CarriedDurable) {
        log.len
    } else {
        log.flushed.max(count)
    };
    log.cut(rules, count);
    next.flush_data(v);
    next.volumes[v].process.checkpoint = None;
    if was_full {
        next.events.note(Witness::LogTurned);
    }
    out.push((Action::EndCheckpoint { volume: v }, next));
}

/// What of each block there may be after a power cut.
fn choices(scenario: &Scenario, block: &Block) -> Vec<u8> {
    let mut all = vec![block.durable];
    all.extend(block.pending.each().filter(|&content| content != block.durable));
    if scenario.torn && !block.pending.is_empty() {
        all.push(TORN);
    }
    all
}

fn power_cuts(scenario: &Scenario, rules: Rules, state: &State, out: &mut Successors) {
    let mut devices = vec![[0; BLOCKS]];
    for (b, block) in state.blocks.iter().enumerate() {
        let choices = choices(scenario, block);
        devices = devices
            .into_iter()
            .flat_map(|device| {
                choices.iter().map(move |&content| {
                    let mut with = device;
                    with[b] = content;
                    with
                })
            })
            .collect();
    }
    let mut logs = vec![([0; VOLUMES], [None; VOLUMES])];
    for v in 0..scenario.volumes {
        let log = &state.volumes[v].log;
        let left = remains(rules, log);
        logs = logs
            .into_iter()
            .flat_map(|(records, ghosts)| {
                left.iter().map(move |&(count, ghost)| {
                    let (mut records, mut ghosts) = (records, ghosts);
                    records[v] = count;
                    ghosts[v] = ghost;
                    (records, ghosts)
                })
            })
            .collect();
    }
    for &contents in &devices {
        for &(records, ghosts) in &logs {
            out.push(power_cut(rules, state, contents, records, ghosts));
        }
    }
}

type Ghost = Option<(u8, Record)>;

/// How many records may be left, and what behind the gap.
fn remains(rules: Rules, log: &Log) -> Vec<(u8, Ghost)> {
    let mut all = Vec::new();
    for count in log.flushed..=log.len {
        all.push((count, None));
        if !rules.has(Rule::GapFenced) {
            for place in count + 1..log.len {
                all.push((count, log.tail[usize::from(place)].map(|record| (place, record))));
            }
        }
    }
    all
}

fn power_cut(
    rules: Rules,
    state: &State,
    contents: [u8; BLOCKS],
    records: [u8; VOLUMES],
    ghosts: [Ghost; VOLUMES],
) -> (Action, State) {
    let mut next = *state;
    next.faults.cuts -= 1;
    let mut lost = Set::NONE;
    let mut torn = [Set::NONE; BLOCKS];
    for (b, content) in contents.into_iter().enumerate() {
        let block = &state.blocks[b];
        if content == TORN && !block.pending.is_empty() {
            torn[b] = block.pending.and(Set::one(block.durable));
        }
        if content != block.volatile {
            lost.add(u8::try_from(b).expect("a few blocks"));
        }
        next.blocks[b] = Block::new(content);
    }
    for v in 0..VOLUMES {
        let log = &mut next.volumes[v].log;
        log.tail[usize::from(records[v])..].fill(None);
        log.len = records[v];
        log.flushed = records[v];
        if let Some((place, record)) = log.ghost
            && place == log.len
            && log.has_room(1)
        {
            log.push(record);
            log.flushed = log.len;
        }
        log.ghost = ghosts[v];
        next.settle_marks(rules, v);
        recover(rules, &mut next, v, false, Some(&torn));
    }
    let ghosts = ghosts.map(|ghost| ghost.map(|(_, record)| record));
    let action = Action::PowerCut {
        records,
        contents,
        lost,
        ghosts,
    };
    (action, next)
}

/// Another host takes over volume 0. It finds what is on the device, durable or not.
pub(crate) fn recover_elsewhere(rules: Rules, state: &mut State) {
    if rules.has(Rule::TakeoverFlushes) {
        state.flush_data(0);
    }
    recover(rules, state, 0, false, Some(&[Set::NONE; BLOCKS]));
    if rules.has(Rule::TakeoverBumps) {
        let volume = &mut state.volumes[0];
        volume.log.base.generation += 1;
        volume.process.root.generation += 1;
    }
}

/// Replays the log of volume `v` and begins a process anew. `torn`: after a power cut, for each
/// block with parts of several contents, which.
fn recover(rules: Rules, state: &mut State, v: usize, trusts: bool, torn: Option<&[Set; BLOCKS]>) {
    let log = state.volumes[v].log.as_found();
    let mut root = log.base;
    let mut covered = log.marked;
    for (place, record) in (0_u8..).zip(log.records()) {
        if let Record::Mark { covers } = record {
            covered = covered.max(covers.min(place));
        }
    }
    for (place, record) in (0_u8..).zip(log.records()) {
        if let Record::Map { block, sum, .. } = record
            && (!trusts || place < log.doubted)
            && place >= covered
            && rules.has(Rule::MapChecksum)
        {
            if state.block(block).volatile != sum {
                state.events.note(Witness::MapRejected);
                continue;
            }
            state.events.note(Witness::MapAccepted);
        }
        let mut record = record;
        if let Record::Snapshot { contents } = &mut record
            && torn.is_some()
            && place >= covered
        {
            // Nobody was told of it: it has what is left.
            *contents = root.map.map(|entry| state.content(entry.block()));
        }
        if root.slot != Slot::Empty && record.is_intent() {
            state.events.note(Witness::IntentMetAgain);
        }
        root.apply(rules, record);
    }
    if root.slot != Slot::Empty {
        state.events.note(Witness::BatchSentAgain);
    }
    if torn.is_some() && !rules.has(Rule::VerdictDurable) {
        state.volumes[v].log.doubted = log.len;
    } else if torn.is_some() && log.has_checkpoints() {
        let (base, intent) = root.without_batch();
        let anew = &mut state.volumes[v].log;
        *anew = log.anew(base);
        if let Some(intent) = intent {
            anew.push(intent);
            anew.flushed = 1;
        }
    } else if torn.is_some() {
        let ghost = log.ghost.map(|(place, record)| (place - log.len, record));
        state.volumes[v].log = Log {
            base: root,
            tail: [None; TAIL],
            ghost,
            ..Log::default()
        };
    }
    if !rules.has(Rule::IntentFreezes) {
        for entry in &mut root.map {
            if let Entry::Frozen(block) = *entry {
                *entry = Entry::Private(block);
            }
        }
    }
    let mut references_since = root.unreferenced;
    if let Slot::Decrement { block, .. } = root.slot {
        references_since.remove(block);
    }
    let mut inherited = state.volumes[v].process.inherited;
    if !rules.has(Rule::InheritedRemembered) {
        inherited = Set::NONE;
    }
    state.volumes[v].process = Process {
        root,
        inherited,
        waiting: Waiting {
            since: root.owned.less(root.in_use()),
            references_since,
            ..Waiting::default()
        },
        ..Process::default()
    };
    judge(state, v, &root, torn);
}

/// Whether the guest finds what it may rely on.
fn judge(state: &mut State, v: usize, root: &Root, torn: Option<&[Set; BLOCKS]>) {
    for (lba, entry) in root.map.iter().enumerate() {
        let content = state.content(entry.block());
        let guest = &mut state.volumes[v].guest;
        guest.may_be_then[lba] = Set::NONE;
        let Some(torn) = torn else {
            if content != guest.acknowledged[lba] {
                state.fault = Some(Violation::AcknowledgedLost);
            }
            continue;
        };
        let sources = match entry.block() {
            Some(block) if !torn[usize::from(block)].is_empty() => torn[usize::from(block)],
            _ => Set::one(content),
        };
        if sources.within(guest.may_be[lba]) {
            guest.acknowledged[lba] = content;
            guest.may_be[lba] = Set::one(content);
        } else {
            state.fault = Some(Violation::FlushedLost);
        }
    }
}
