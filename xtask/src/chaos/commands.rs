//! The commands of a step with their arguments. A command draws them when the step runs, when the
//! runner knows which backups exist. The draws are the command's own, so the number of choices
//! changes no other draw.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::draws::{Draws, pick};
use super::model::{Effect, Model};
use super::program::Call;
use super::script::{Act, Verb, strings};
use super::sources::{Sort, Source};

/// What the runner compares after a command ended with 0.
#[derive(Debug, Clone)]
pub(super) enum Compare {
    Nothing,
    Restored {
        id: u64,
        target: PathBuf,
        part: Option<PathBuf>,
    },
    Dumped {
        id: u64,
        part: PathBuf,
    },
    /// From now on the password in this file opens the store; it was added, or replaces the one
    /// before.
    Password {
        file: PathBuf,
        replaces: bool,
    },
}

/// A command, ready to run.
#[derive(Debug, Clone)]
pub(super) struct Ready {
    pub(super) verb: Verb,
    pub(super) call: Call,
    pub(super) effect: Effect,
    pub(super) compare: Compare,
    /// Its result depends on clocks, because it uses rules.
    pub(super) by_clock: bool,
}

/// The things that a command draws from.
pub(super) struct Desk<'a> {
    pub(super) model: &'a Model,
    pub(super) sources: &'a mut [Source],
    pub(super) work: &'a Path,
    pub(super) has_password: bool,
    /// A number that no command has used.
    pub(super) fresh: u64,
}

impl Act {
    /// Draws the command's arguments, and states its effect.
    pub(super) fn ready(&self, desk: &mut Desk<'_>) -> Result<Ready> {
        let mut draws = self.draws.clone();
        let mut ready = Ready {
            verb: self.verb,
            call: self.call.clone(),
            effect: Effect::Nothing,
            compare: Compare::Nothing,
            by_clock: false,
        };
        let d = &mut draws;
        let args: Vec<OsString> = match self.verb {
            Verb::Backup => backup(d, desk, &mut ready)?,
            Verb::Forget => forget(d, desk, &mut ready),
            Verb::Prune => [strings(&["prune"]), space(d)].concat(),
            Verb::Optimize => optimize(d, &mut ready),
            Verb::Check => strings(d.one(&[
                &["check"][..],
                &["check", "--read-data"],
                &["check", "--read-data=30%"],
            ])),
            Verb::Restore | Verb::Dump => read(d, desk, &mut ready),
            Verb::Look => look(d, desk),
            Verb::Hold => hold(d, desk, &mut ready),
            Verb::Tag => tag(d, desk, &mut ready),
            Verb::Key => key(d, desk, &mut ready)?,
            Verb::Index => strings(&["index", "rebuild"]),
            Verb::Series => series(d, desk, &mut ready),
        };
        ready.call.args = args;
        Ok(ready)
    }
}

fn backup(d: &mut Draws, desk: &mut Desk<'_>, ready: &mut Ready) -> Result<Vec<OsString>> {
    let number = pick(d.next(), desk.sources.len());
    let source = &mut desk.sources[number];
    let mut args = strings(&["backup"]);
    match source.sort {
        Sort::Tree => args.push(source.path.clone().into()),
        Sort::Stream => {
            args.extend(strings(&["--stdin", "--stdin-filename", &source.name]));
            ready.call.stdin = Some(source.path.clone());
        }
        Sort::Image { kib } => {
            args.extend(strings(&["--image-kib", &kib.to_string()]));
            args.push(source.path.clone().into());
        }
    }
    if source.sort == Sort::Tree && d.chance(20) {
        args.push("--force".into());
    }
    if d.chance(20) {
        args.extend(strings(&["--compression", d.one(&["on", "off"])]));
    }
    if d.chance(20) {
        args.extend(strings(&["--cap", "none"]));
    }
    let mut tags = BTreeSet::new();
    if d.chance(30) {
        let tag = format!("t{}", d.below(4));
        args.extend(strings(&["--tag", &tag]));
        tags.insert(tag);
    }
    ready.effect = Effect::Backup {
        source: number,
        picture: source.picture()?,
        tags,
        id: None,
    };
    Ok(args)
}

fn forget(d: &mut Draws, desk: &Desk<'_>, ready: &mut Ready) -> Vec<OsString> {
    let mut args = strings(&["forget"]);
    let kept = desk.model.kept();
    if d.chance(40) && !kept.is_empty() {
        let free = |id: &&u64| !desk.model.backups.get(id).is_some_and(|backup| backup.is_held);
        let free: Vec<u64> = kept.iter().filter(free).copied().collect();
        let ids = some_of(d, if free.is_empty() { &kept } else { &free }, 3);
        args.extend(ids.iter().map(|id| id.to_string().into()));
        ready.effect = Effect::ForgetIds(ids);
    } else {
        let keep_last = d.below(4);
        let mut ruled = keep_last > 0;
        if keep_last > 0 {
            args.extend(strings(&["--keep-last", &keep_last.to_string()]));
        }
        if d.chance(30) || !ruled {
            ready.by_clock = true;
            ruled = true;
            let rule = d.one(&["--keep-hourly", "--keep-daily", "--keep-weekly", "--keep-monthly"]);
            args.extend(strings(&[rule, &d.within(1, 5).to_string()]));
        }
        let keep_tag = (ruled && d.chance(20)).then(|| format!("t{}", d.below(4)));
        if let Some(tag) = &keep_tag {
            args.extend(strings(&["--keep-tag", tag]));
        }
        ready.effect = Effect::ForgetRules { keep_last, keep_tag };
    }
    if d.chance(35) {
        args.push("--prune".into());
        if d.chance(50) {
            args.extend(strings(&["--max-unused", d.one(&["0", "10%", "unlimited"])]));
        }
    }
    args
}

fn space(d: &mut Draws) -> Vec<OsString> {
    let mut args = Vec::new();
    if d.chance(60) {
        args.extend(strings(&[
            "--max-unused",
            d.one(&["0", "0", "1%", "200K", "unlimited"]),
        ]));
    }
    if d.chance(20) {
        args.extend(strings(&["--max-repack", d.one(&["0", "100K", "2M"])]));
    }
    if d.chance(15) {
        args.push("--all".into());
    }
    if d.chance(8) {
        args.push("--dry-run".into());
    }
    args
}

fn optimize(d: &mut Draws, ready: &mut Ready) -> Vec<OsString> {
    ready.effect = Effect::Optimize;
    let mut args = strings(&["optimize"]);
    if d.chance(40) {
        args.extend(strings(&["--repair", d.one(&["50", "100", "400"])]));
    }
    if d.chance(40) {
        args.push("--prune".into());
    }
    args
}

/// A restore of all or a part, or a dump, of a drawn backup.
fn read(d: &mut Draws, desk: &Desk<'_>, ready: &mut Ready) -> Vec<OsString> {
    let kept = desk.model.kept();
    let Some(backup) = kept
        .get(pick(d.next(), kept.len()))
        .and_then(|id| desk.model.backups.get_key_value(id))
    else {
        return strings(&["snapshots"]);
    };
    let (id, backup) = backup;
    let source = &desk.sources[backup.source];
    let entries: Vec<&PathBuf> = backup.picture.0.keys().collect();
    let part = entries[pick(d.next(), entries.len())];
    let files = backup.picture.files();
    let is_tree = source.sort == Sort::Tree;
    let memory = strings(&["--memory", d.one(&["1M", "8M", "96M"])]);
    if ready.verb == Verb::Dump && (!is_tree || !files.is_empty()) {
        let mut args = [strings(&["dump", &id.to_string()]), memory].concat();
        let part = if is_tree {
            files[pick(d.next(), files.len())].clone()
        } else {
            PathBuf::new()
        };
        if is_tree {
            args.push(source.path.join(&part).into());
        }
        ready.compare = Compare::Dumped { id: *id, part };
        return args;
    }
    ready.verb = Verb::Restore;
    let target = desk.work.join(format!("target{}", desk.fresh));
    let mut args = [
        strings(&["restore", &id.to_string()]),
        memory,
        strings(&["--target"]),
    ]
    .concat();
    args.push(target.clone().into());
    let part = (is_tree && d.chance(40) && !part.as_os_str().is_empty()).then(|| part.clone());
    if let Some(part) = &part {
        args.push("--include".into());
        args.push(source.path.join(part).into());
    }
    ready.compare = Compare::Restored {
        id: *id,
        target,
        part,
    };
    args
}

fn look(d: &mut Draws, desk: &Desk<'_>) -> Vec<OsString> {
    let kept = desk.model.kept();
    let choice = d.below(5);
    match kept.get(pick(d.next(), kept.len())) {
        Some(id) if choice == 0 => strings(&["ls", &id.to_string()]),
        Some(_) if choice == 1 => strings(&["stats", "all"]),
        Some(_) if choice == 2 => strings(&["stats"]),
        _ if choice == 3 => strings(&["series", "list"]),
        _ => strings(&["snapshots"]),
    }
}

fn hold(d: &mut Draws, desk: &Desk<'_>, ready: &mut Ready) -> Vec<OsString> {
    let ids = some_of(d, &desk.model.kept(), 2);
    if ids.is_empty() {
        return strings(&["snapshots"]);
    }
    let held = d.chance(50);
    let mut args = if held {
        strings(&["hold", "--for", "9y"])
    } else {
        strings(&["unhold"])
    };
    args.extend(ids.iter().map(|id| id.to_string().into()));
    ready.effect = Effect::Hold(ids, held);
    args
}

fn tag(d: &mut Draws, desk: &Desk<'_>, ready: &mut Ready) -> Vec<OsString> {
    let ids = some_of(d, &desk.model.kept(), 3);
    if ids.is_empty() {
        return strings(&["snapshots"]);
    }
    let tag = format!("t{}", d.below(4));
    let adds = d.chance(60);
    let mut args = strings(&["tag", if adds { "--add" } else { "--remove" }, &tag]);
    args.extend(ids.iter().map(|id| id.to_string().into()));
    ready.effect = Effect::Tag {
        ids,
        add: adds.then(|| tag.clone()),
        remove: (!adds).then_some(tag),
    };
    args
}

fn key(d: &mut Draws, desk: &Desk<'_>, ready: &mut Ready) -> Result<Vec<OsString>> {
    if !desk.has_password || d.chance(30) {
        return Ok(strings(&["key", "list"]));
    }
    let file = desk.work.join(format!("password{}", desk.fresh));
    std::fs::write(&file, format!("word {}\n", d.next()))?;
    let replaces = d.chance(50);
    let mut args = strings(&[
        "key",
        if replaces { "passwd" } else { "add" },
        "--new-password-file",
    ]);
    args.push(file.clone().into());
    ready.compare = Compare::Password { file, replaces };
    Ok(args)
}

fn series(d: &mut Draws, desk: &Desk<'_>, ready: &mut Ready) -> Vec<OsString> {
    let mut args = strings(&["series", "set"]);
    let number = d.chance(50).then(|| pick(d.next(), desk.sources.len()));
    match number.map(|number| &desk.sources[number]) {
        None => args.push("--default".into()),
        Some(source) if source.sort == Sort::Stream => {
            args.extend(strings(&["--stdin-filename", &source.name]))
        }
        Some(source) => args.extend([OsString::from("--path"), source.path.clone().into()]),
    }
    let (layout, archival) = layout(d);
    args.extend(layout);
    ready.effect = Effect::Window {
        source: number,
        archival,
    };
    args
}

/// Options of a layout, and its number of archival backups, if that is set.
pub(super) fn layout(d: &mut Draws) -> (Vec<OsString>, Option<u64>) {
    let mut args = Vec::new();
    let mut window = None;
    let repair = d.chance(40);
    if d.chance(55) {
        let live = d.within(1, 3);
        args.extend(strings(&["--layout", "hybrid", "--live", &live.to_string()]));
        args.extend(strings(&["--segment", d.one(&["64K", "256K", "1M"])]));
        if d.chance(50) {
            let archival = d.within(1, 4);
            args.extend(strings(&["--archival", &archival.to_string()]));
            window = Some(archival);
        }
        if d.chance(35) {
            args.extend(strings(&["--optimize-after-backup", "yes"]));
        }
    } else {
        args.extend(strings(&["--layout", "inline"]));
    }
    if repair {
        args.extend(strings(&["--repair", d.one(&["50", "100"])]));
    }
    (args, window)
}

fn some_of(d: &mut Draws, of: &[u64], most: u64) -> Vec<u64> {
    let count = d.within(1, most);
    let mut some: Vec<u64> = (0..count)
        .filter_map(|_| of.get(pick(d.next(), of.len())).copied())
        .collect();
    some.sort_unstable();
    some.dedup();
    some
}
