//! The interceptor: writes, trims, reads and flushes of a guest.

use super::action::Action;
use super::properties::{Violation, Witness};
use super::root::{Entry, Record, Slot};
use super::rules::{Rule, Rules};
use super::scenario::Scenario;
use super::sets::Set;
use super::state::{Flush, Read, State, Write, ZEROS};

/// In place of a logical block, in a read of a snapshot.
const OF_SNAPSHOT: u8 = u8::MAX;

/// Steps with the states that they lead to.
pub(crate) type Successors = Vec<(Action, State)>;

/// All steps that the interceptor of volume `v` can take.
pub fn steps(scenario: &Scenario, rules: Rules, state: &State, v: usize, out: &mut Successors) {
    for lba in 0..scenario.lbas {
        match state.volumes[v].process.writes[usize::from(lba)] {
            Write::Idle => begin_write(scenario, rules, state, v, lba, out),
            Write::InPlace { block, content } => {
                let mut next = *state;
                next.blocks[usize::from(block)].write(content, v);
                end_write(&mut next, v, lba, content);
                out.push((Action::EndInPlace { volume: v, lba }, next));
            }
            Write::Redirect { block, content } if state.volumes[v].log.has_room(1) => {
                let mut next = *state;
                let sum = content;
                next.append(rules, v, Record::Map { lba, block, sum });
                end_write(&mut next, v, lba, content);
                let volume = v;
                out.push((Action::EndRedirect { volume, lba, block }, next));
            }
            Write::Redirect { .. } => {}
        }
    }
    trim(scenario, rules, state, v, out);
    read(scenario, state, v, out);
    snapshots(rules, state, v, out);
    flush(scenario, rules, state, v, out);
}

fn begin_write(scenario: &Scenario, rules: Rules, state: &State, v: usize, lba: u8, out: &mut Successors) {
    let volume = &state.volumes[v];
    if volume.budget.writes == 0 {
        return;
    }
    for content in scenario.writes[v].each() {
        let mut next = *state;
        next.volumes[v].budget.writes -= 1;
        let process = &mut next.volumes[v].process;
        if let Some(read) = &mut process.read
            && read.lba == lba
        {
            read.allowed.add(content);
        }
        let volume = v;
        let mapped = process.root.entry(lba).block();
        let maps = |record| matches!(record, Record::Map { block, .. } if mapped == Some(block));
        let waits =
            scenario.lazy_marks && rules.has(Rule::InPlaceMarked) && state.volumes[v].log.records().any(maps);
        let is_shared = process.root.births[usize::from(lba)] != process.root.generation;
        let action = if let Entry::Private(block) = process.root.entry(lba)
            && (!is_shared || !rules.has(Rule::BornNowInPlace))
            && !waits
        {
            process.writes[usize::from(lba)] = Write::InPlace { block, content };
            Action::BeginInPlace { volume, lba, content }
        } else {
            let Some(block) = process.free.first() else {
                continue;
            };
            process.free.remove(block);
            process.writes[usize::from(lba)] = Write::Redirect { block, content };
            next.blocks[usize::from(block)].write(content, v);
            Action::BeginRedirect {
                volume,
                lba,
                block,
                content,
            }
        };
        out.push((action, next));
    }
}

fn end_write(next: &mut State, v: usize, lba: u8, content: u8) {
    let volume = &mut next.volumes[v];
    let at = usize::from(lba);
    volume.process.writes[at] = Write::Idle;
    volume.process.unlike.remove(lba);
    volume.guest.acknowledged[at] = content;
    volume.guest.may_be[at].add(content);
    if volume.process.flush.is_some() {
        volume.guest.may_be_then[at].add(content);
    }
}

fn trim(scenario: &Scenario, rules: Rules, state: &State, v: usize, out: &mut Successors) {
    let volume = &state.volumes[v];
    if volume.budget.trims == 0 || !volume.log.has_room(1) {
        return;
    }
    for lba in 0..scenario.lbas {
        let writes = volume.process.writes[usize::from(lba)] != Write::Idle;
        if writes || volume.process.root.entry(lba) == Entry::Unmapped {
            continue;
        }
        let mut next = *state;
        next.volumes[v].budget.trims -= 1;
        if let Some(read) = &mut next.volumes[v].process.read
            && read.lba == lba
        {
            read.allowed.add(ZEROS);
        }
        next.append(rules, v, Record::Trim { lba });
        end_write(&mut next, v, lba, ZEROS);
        out.push((Action::Trim { volume: v, lba }, next));
    }
}

fn read(scenario: &Scenario, state: &State, v: usize, out: &mut Successors) {
    let volume = &state.volumes[v];
    if let Some(read) = volume.process.read {
        let mut next = *state;
        let content = state.content(read.block);
        next.volumes[v].process.read = None;
        if !read.allowed.has(content) {
            next.fault = Some(Violation::WrongRead);
        }
        if read.lba != OF_SNAPSHOT && volume.process.root.entry(read.lba).block() != read.block {
            next.events.note(Witness::ReadThroughOldMapping);
        }
        let lba = read.lba;
        out.push((
            Action::EndRead {
                volume: v,
                lba,
                content,
            },
            next,
        ));
    } else if volume.budget.reads > 0 {
        for lba in 0..scenario.lbas {
            let mut next = *state;
            next.volumes[v].budget.reads -= 1;
            let mut allowed = Set::one(volume.guest.acknowledged[usize::from(lba)]);
            match volume.process.writes[usize::from(lba)] {
                Write::InPlace { content, .. } | Write::Redirect { content, .. } => allowed.add(content),
                Write::Idle => {}
            }
            let block = volume.process.root.entry(lba).block();
            next.volumes[v].process.read = Some(Read { lba, block, allowed });
            out.push((Action::LookUp { volume: v, lba }, next));
            if let Some(snapshot) = volume.process.root.newest() {
                let at = usize::from(lba);
                next.volumes[v].process.read = Some(Read {
                    lba: OF_SNAPSHOT,
                    block: snapshot.map[at].block(),
                    allowed: Set::one(snapshot.contents[at]),
                });
                out.push((Action::LookUpSnapshot { volume: v, lba }, next));
            }
        }
    }
}

/// Takes and removes snapshots.
fn snapshots(rules: Rules, state: &State, v: usize, out: &mut Successors) {
    let volume = &state.volumes[v];
    let process = &volume.process;
    if !volume.log.has_room(1) {
        return;
    }
    let root = &process.root;
    let writes = process
        .writes
        .iter()
        .any(|write| matches!(write, Write::InPlace { .. }));
    let asks = matches!(root.slot, Slot::Unshare { .. }) && rules.has(Rule::SnapshotAfterUnshare);
    let has_room = root.snapshots.contains(&None) && !asks;
    if volume.budget.snapshots > 0 && has_room && (!writes || !rules.has(Rule::SnapshotDrains)) {
        let mut next = *state;
        next.volumes[v].budget.snapshots -= 1;
        let contents = root.map.map(|entry| state.content(entry.block()));
        next.append(rules, v, Record::Snapshot { contents });
        out.push((Action::Snapshot { volume: v }, next));
    }
    for (place, _) in (0..).zip(root.snapshots.iter().flatten()) {
        let mut next = *state;
        next.append(rules, v, Record::Unsnapshot { place });
        next.events.note(Witness::SnapshotRemoved);
        out.push((Action::RemoveSnapshot { volume: v, place }, next));
    }
}

fn flush(scenario: &Scenario, rules: Rules, state: &State, v: usize, out: &mut Successors) {
    let volume = &state.volumes[v];
    let has_room = volume.log.has_room(1) || rules.has(Rule::MarkDurable) && !scenario.lazy_marks;
    if let Some(flush) = volume.process.flush {
        if has_room {
            let mut next = *state;
            end_flush(scenario, rules, &mut next, v, flush);
            out.push((Action::EndFlush { volume: v }, next));
        }
        return;
    }
    let waiting = &volume.process.waiting;
    let unsure = volume.guest.may_be.iter().any(|set| set.each().count() > 1);
    if !unsure && volume.log.is_marked() && waiting.since.is_empty() && waiting.references_since.is_empty() {
        return;
    }
    let mut next = *state;
    begin_flush(rules, &mut next, v);
    if scenario.slow_flushes {
        out.push((Action::BeginFlush { volume: v }, next));
    } else if let Some(flush) = next.volumes[v].process.flush
        && has_room
    {
        end_flush(scenario, rules, &mut next, v, flush);
        out.push((Action::Flush { volume: v }, next));
    }
}

/// A whole flush of volume `v`.
pub(crate) fn flush_at_once(scenario: &Scenario, rules: Rules, next: &mut State, v: usize) {
    begin_flush(rules, next, v);
    if let Some(flush) = next.volumes[v].process.flush {
        end_flush(scenario, rules, next, v, flush);
    }
}

fn begin_flush(rules: Rules, next: &mut State, v: usize) {
    next.flush_data(v);
    next.flush_log(rules, v);
    let volume = &mut next.volumes[v];
    let covers = volume.log.len;
    volume.process.flush = Some(Flush { covers });
    let waiting = &mut volume.process.waiting;
    // A lazy mark of the flush before is durable now.
    waiting.cover();
    waiting.before = waiting.since;
    waiting.since = Set::NONE;
    waiting.references_before = waiting.references_since;
    waiting.references_since = Default::default();
    for (then, acknowledged) in volume.guest.may_be_then.iter_mut().zip(volume.guest.acknowledged) {
        *then = Set::one(acknowledged);
    }
}

fn end_flush(scenario: &Scenario, rules: Rules, next: &mut State, v: usize, flush: Flush) {
    let volume = &mut next.volumes[v];
    let covers = if rules.has(Rule::MarkNamesStart) {
        flush.covers
    } else {
        volume.log.len
    };
    let is_lazy = covers > 0 && (scenario.lazy_marks || !rules.has(Rule::MarkDurable));
    if is_lazy {
        volume.log.push(Record::Mark { covers });
    } else {
        volume.log.flushed = volume.log.len;
        volume.log.mark(rules, covers);
    }
    volume.process.flush = None;
    if !is_lazy || !rules.has(Rule::MarkDurable) {
        volume.process.waiting.cover();
    }
    volume.guest.may_be = volume.guest.may_be_then;
    volume.guest.may_be_then = Default::default();
}
