//! One run: a seed, a store, its sources, some steps, and what is judged after each.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};

use super::draws::{Draws, pick};
use super::journal::Journal;
use super::judge::{Befell, Fault, always, judge};
use super::model::{Did, Effect, Listed, Model};
use super::picture::{Picture, digest};
use super::place::{Kind, Place};
use super::program::{Call, Ended, Program};
use super::script::{Ballast, Compare, Desk, Jump, Ready, Rough, Step, Verb, layout, strings};
use super::sources::{Sort, Source};
use super::watch::pause_ms;

/// A fault, or what kept the runner from judging.
#[derive(Debug)]
pub(super) enum Stop {
    Fault(Fault),
    Runner(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Runner(error.into())
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

pub(super) type Judged<T = ()> = std::result::Result<T, Stop>;

/// What a run is drawn with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) steps: u64,
    /// On a plain folder, whatever is drawn.
    pub(super) plain: bool,
    /// After this step the runner deletes a container behind the program's back: the judge must notice.
    pub(super) sabotage_after: Option<u64>,
}

pub(super) struct Run {
    pub(super) plan: Plan,
    pub(super) place: Place,
    pub(super) program: Program,
    pub(super) model: Model,
    pub(super) sources: Vec<Source>,
    pub(super) work: PathBuf,
    pub(super) journal: Journal,
    pub(super) signals: usize,
    pub(super) has_reserve: bool,
    passwords: Vec<PathBuf>,
    has_password: bool,
    index: Vec<OsString>,
    init: Vec<OsString>,
    jumped: bool,
    fresh: u64,
}

impl Run {
    /// Draws the store's settings, its place and its sources, and makes the latter two.
    pub(super) fn new(plan: Plan, binary: PathBuf, work: &Path) -> Result<Self> {
        let mut draws = Draws::new(plan.seed, 0);
        let d = &mut draws;
        let kind = Kind::draw(d);
        let kind = if plan.plain { Kind::Plain } else { kind };
        let has_password = d.chance(15);
        let mut init = strings(&["init", "--chunk-kib", d.one(&["1", "2", "4", "8", "16"])]);
        init.extend(strings(&["--container-mib", d.one(&["1", "1", "2", "4"])]));
        let reserve = d.one(&["0", "1", "1", "2", "4"]);
        init.extend(strings(&["--reserve-mib", reserve]));
        if d.chance(60) {
            init.extend(layout(d).0);
        }
        let mut index = Vec::new();
        if d.chance(40) {
            index.extend(strings(&["--index-mib", "1"]));
        }
        if d.chance(25) {
            index.extend(strings(&["--index-memory-mib", d.one(&["1", "16"])]));
        }
        let largest = if kind.is_small() {
            d.about(100 << 10, 3 << 20)
        } else {
            d.about(100 << 10, 6 << 20)
        };
        let count = usize::try_from(d.within(2, 4))?;
        let place = Place::new(kind, work)?;
        let sources = (0..count)
            .map(|number| Source::new(d, work, number, largest))
            .collect::<Result<Vec<_>>>()?;
        let program = Program::new(binary, place.store(), work.to_owned());
        let mut journal = Journal::new(work)?;
        journal.note(&format!(
            "seed {}: {kind:?}, {:?}",
            plan.seed,
            sources.iter().map(|s| s.sort).collect::<Vec<_>>()
        ))?;
        if let Some(why) = &place.instead {
            journal.note(why)?;
        }
        Ok(Self {
            plan,
            place,
            program,
            model: Model::default(),
            sources,
            work: work.to_owned(),
            journal,
            signals: 0,
            has_reserve: reserve != "0",
            passwords: Vec::new(),
            has_password,
            index,
            init,
            jumped: false,
            fresh: 0,
        })
    }

    /// All of it; ends with the first fault.
    pub(super) fn play(&mut self) -> Judged {
        self.begin()?;
        let mut draws = Draws::new(self.plan.seed, 1);
        let small = self.place.kind.is_small();
        let rough = Rough {
            signals: draws.one(&[0, 25, 50]),
            rivals: draws.one(&[0, 35, 60]),
            ballast: if small { draws.one(&[0, 25, 40]) } else { 0 },
            clocks: draws.one(&[0, 0, 20]),
        };
        self.journal.note(&format!("{rough:?}"))?;
        for number in 1..=self.plan.steps {
            self.journal.step(number)?;
            self.step(&Step::draw(self.plan.seed, number, rough))?;
            if self.plan.sabotage_after == Some(number) {
                self.sabotage()?;
            }
        }
        self.compare_all("after the last step")?;
        Ok(())
    }

    /// Makes the store.
    pub(super) fn begin(&mut self) -> Judged {
        if self.has_password {
            let file = self.work.join("password");
            fs::write(&file, "first\n")?;
            self.passwords.push(file);
        }
        let init = self.init.clone();
        let ended = self.alone(&init)?;
        if ended.code != Some(0) {
            return Err(Fault::new("exit code", format!("of init: {}", ended.err)).into());
        }
        Ok(())
    }

    /// Runs the steps' commands, and judges.
    pub(super) fn step(&mut self, step: &Step) -> Judged {
        for (source, draws) in &step.edits {
            let at = pick(*source, self.sources.len());
            let mut draws = draws.clone();
            for _ in 0..draws.within(1, 6) {
                self.sources[at].edit(&mut draws)?;
            }
        }
        if let Some(jump @ Jump { after_ms: None, .. }) = step.jump {
            self.journal.note(&format!("{jump:?}"))?;
            self.jumped = true;
            jump_times(&self.place.store(), jump)?;
        }
        let mut commands = Vec::new();
        for act in &step.acts {
            self.fresh += 1;
            let mut desk = Desk {
                model: &self.model,
                sources: &mut self.sources,
                work: &self.work,
                has_password: self.has_password,
                fresh: self.fresh,
            };
            let mut ready = act.ready(&mut desk)?;
            let options = self.options();
            ready.call.args.splice(0..0, options);
            commands.push(ready);
        }
        let ended = self.run_at_once(&commands, step)?;
        let meanwhile = step.jump.is_some_and(|jump| jump.after_ms.is_some());
        self.jumped |= meanwhile;
        let passwords = commands
            .iter()
            .any(|one| matches!(one.compare, Compare::Password { .. }));
        self.find_password(&commands, &ended)?;
        let mut did = Vec::new();
        for (ready, ended) in commands.iter().zip(&ended) {
            self.signals += ended.shots.len();
            let befell = Befell {
                tight: self.place.kind.is_small(),
                jumped: self.jumped,
                jumped_meanwhile: meanwhile || ready.call.clock.is_some(),
                rivals: commands.len() > 1,
                passwords: passwords && commands.len() > 1,
            };
            judge(ready, ended, befell)?;
            did.push(told(ready, ended));
        }
        self.settle(&did)?;
        for (ready, ended) in commands.iter().zip(&ended) {
            self.compare(ready, ended, commands.len() > 1)?;
            fs::remove_file(&ended.out)?;
        }
        let kept = self.model.kept();
        if let (Some(draw), false) = (step.probe, kept.is_empty()) {
            self.restore(kept[pick(draw, kept.len())])?;
        }
        Ok(())
    }

    fn run_at_once(&mut self, commands: &[Ready], step: &Step) -> Judged<Vec<Ended>> {
        for ready in commands {
            self.journal.command(&ready.call)?;
        }
        if let Some(ballast) = step.ballast {
            self.journal
                .note(&format!("{ballast:?}; {} KiB are free", self.place.free()? >> 10))?;
        }
        let calls: Vec<Call> = commands.iter().map(|ready| ready.call.clone()).collect();
        let (place, store) = (&self.place, self.place.store());
        let meanwhile = || {
            match step.ballast {
                Some(Ballast::Fill { leave, after_ms }) => {
                    pause_ms(after_ms);
                    place.fill(leave)?;
                }
                Some(Ballast::Release { after_ms }) => {
                    pause_ms(after_ms);
                    place.release()?;
                }
                None => {}
            }
            if let Some(
                jump @ Jump {
                    after_ms: Some(ms), ..
                },
            ) = step.jump
            {
                pause_ms(ms);
                jump_times(&store, jump)?;
            }
            Ok(())
        };
        let ended = self.program.run_all(&calls, meanwhile)?;
        for one in &ended {
            self.journal.ended(one)?;
        }
        Ok(ended)
    }

    /// Runs one command with no harm; its code is the caller's to judge.
    pub(super) fn alone(&mut self, args: &[OsString]) -> Judged<Ended> {
        let args = [self.options(), args.to_vec()].concat();
        self.journal.command(&Call {
            args: args.clone(),
            ..Call::default()
        })?;
        let ended = self.program.run(args)?;
        self.journal.ended(&ended)?;
        always(&ended)?;
        Ok(ended)
    }

    /// As [`Self::alone`], and it must end with 0.
    pub(super) fn well(&mut self, args: &[OsString]) -> Judged<Ended> {
        let ended = self.alone(args)?;
        if ended.code != Some(0) {
            let out = String::from_utf8_lossy(&fs::read(&ended.out)?).into_owned();
            let what = format!(
                "{:?} of {args:?}: {}\n{}",
                ended.code,
                ended.err.trim(),
                tail(&out)
            );
            return Err(Fault::new("exit code", what).into());
        }
        Ok(ended)
    }

    fn options(&self) -> Vec<OsString> {
        let mut options = strings(&["--json"]);
        match self.passwords.last() {
            None => options.push("--insecure-no-password".into()),
            Some(file) => options.extend([OsString::from("-p"), file.clone().into()]),
        }
        options.extend(self.index.clone());
        options
    }

    /// Which password opens the store: where a change was interrupted, the new one or the old one.
    fn find_password(&mut self, commands: &[Ready], ended: &[Ended]) -> Judged {
        for (ready, ended) in commands.iter().zip(ended) {
            let Compare::Password { file, replaces } = &ready.compare else {
                continue;
            };
            let old = self.passwords.clone();
            self.passwords.push(file.clone());
            let opens = self.alone(&strings(&["key", "list"]))?.code == Some(0);
            if opens {
                continue;
            }
            if ended.code == Some(0) {
                return Err(Fault::new("password", "a password that was set does not open the store").into());
            }
            self.passwords = old;
            if self.alone(&strings(&["key", "list"]))?.code != Some(0) {
                let what =
                    format!("no password opens the store after one was changed (replaced: {replaces})");
                return Err(Fault::new("password", what).into());
            }
        }
        Ok(())
    }

    /// Lists the store and compares with the model.
    pub(super) fn settle(&mut self, did: &[Did]) -> Judged {
        let ended = self.well(&strings(&["snapshots"]))?;
        let listed = listed(&ended);
        fs::remove_file(&ended.out)?;
        let names: Vec<String> = self.sources.iter().map(|source| source.name.clone()).collect();
        self.model.settle(did, &listed, &names).map_err(Fault::from)?;
        Ok(())
    }

    /// Compares what a command that ended well brought.
    fn compare(&mut self, ready: &Ready, ended: &Ended, rivals: bool) -> Judged {
        let _ = rivals;
        match &ready.compare {
            Compare::Restored { id, target, part } => {
                if ended.code == Some(0) {
                    self.same(*id, target, part.as_deref())?;
                }
                remove_all(target)?;
            }
            Compare::Dumped { id, part } if ended.code == Some(0) => {
                let Some(backup) = self.model.backups.get(id) else {
                    return Ok(());
                };
                let was = backup.picture.0.get(part).and_then(|entry| entry.digest);
                if was != Some(digest(&ended.out)?) {
                    return Err(Fault::new("wrong byte", format!("dump of {part:?} of backup {id}")).into());
                }
            }
            Compare::Dumped { .. } | Compare::Nothing | Compare::Password { .. } => {}
        }
        Ok(())
    }

    fn same(&self, id: u64, target: &Path, part: Option<&Path>) -> Judged {
        let Some(backup) = self.model.backups.get(&id) else {
            return Ok(());
        };
        let source = &self.sources[backup.source];
        let root = match source.sort {
            Sort::Stream => target.join(&source.name),
            Sort::Tree | Sort::Image { .. } => target.join(source.path.strip_prefix("/")?),
        };
        let (is, was) = match (source.sort, part) {
            (Sort::Tree, Some(part)) => (Picture::of(&root.join(part)), backup.picture.part(part)),
            (Sort::Tree, None) => (Picture::of(&root), (*backup.picture).clone()),
            (Sort::Stream | Sort::Image { .. }, _) => (Picture::bytes_of(&root), (*backup.picture).clone()),
        };
        let is = is.map_err(|error| Fault::new("wrong byte", format!("backup {id} restored: {error:#}")))?;
        if let Some(difference) = is.differs(&was) {
            return Err(
                Fault::new("wrong byte", format!("backup {id} restored with 0: {difference}")).into(),
            );
        }
        Ok(())
    }

    /// Restores a backup whole and compares.
    pub(super) fn restore(&mut self, id: u64) -> Judged {
        let ended = self.try_restore(id)?;
        if ended.code != Some(0) {
            let what = format!(
                "backup {id} does not restore: {:?}: {}",
                ended.code,
                ended.err.trim()
            );
            return Err(Fault::new("lost", what).into());
        }
        Ok(())
    }

    /// Restores a backup whole; compares where that ends with 0.
    pub(super) fn try_restore(&mut self, id: u64) -> Judged<Ended> {
        self.fresh += 1;
        let target = self.work.join(format!("target{}", self.fresh));
        let mut args = strings(&["restore", &id.to_string(), "--target"]);
        args.push(target.clone().into());
        let ended = self.alone(&args)?;
        if ended.code == Some(0) {
            self.same(id, &target, None)?;
        }
        remove_all(&target)?;
        fs::remove_file(&ended.out)?;
        Ok(ended)
    }

    /// Restores all that is not forgotten.
    pub(super) fn compare_all(&mut self, when: &str) -> Judged {
        self.journal.note(&format!("all backups are restored {when}"))?;
        for id in self.model.kept() {
            self.restore(id)?;
        }
        Ok(())
    }

    pub(super) fn processes(&self) -> usize {
        self.program.started.load(Ordering::Relaxed)
    }

    /// Deletes the largest container, as no program would.
    fn sabotage(&mut self) -> Judged {
        let mut objects = Vec::new();
        super::objects(&self.place.store().join("data"), &mut objects)?;
        super::objects(&self.place.store().join("small"), &mut objects)?;
        let len = |path: &PathBuf| path.metadata().map_or(0, |meta| meta.len());
        let largest = objects
            .into_iter()
            .max_by_key(len)
            .context("the store has containers")?;
        self.journal
            .note(&format!("the runner deletes {}", largest.display()))?;
        fs::remove_file(largest)?;
        Ok(())
    }
}

/// What a command has done, or may have.
fn told(ready: &Ready, ended: &Ended) -> Did {
    let is_done = ended.code == Some(0);
    let mut effect = ready.effect.clone();
    if let Effect::Backup { id, .. } = &mut effect
        && is_done
    {
        *id = ended
            .line("summary")
            .and_then(|line| line["snapshot_id"].as_u64());
    }
    let is_done = is_done && ready.verb != Verb::Optimize;
    Did { effect, is_done }
}

fn listed(ended: &Ended) -> BTreeMap<u64, Listed> {
    let lines = ended.lines();
    let backups = lines
        .iter()
        .filter(|line| line["message_type"] == "snapshot")
        .filter_map(|line| {
            let tags = line["tags"]
                .as_array()?
                .iter()
                .filter_map(|tag| Some(tag.as_str()?.to_owned()));
            let line_of = Listed {
                name: line["paths"][0].as_str()?.to_owned(),
                tags: tags.collect::<BTreeSet<_>>(),
                is_held: !line["hold_until"].is_null(),
            };
            Some((line["id"].as_u64()?, line_of))
        });
    backups.collect()
}

/// Moves the times of a share of the store's objects: they are what the storage of a local folder has for a clock.
pub(super) fn jump_times(store: &Path, jump: Jump) -> Result<()> {
    let mut draws = Draws::new(jump.seed, 0);
    let mut objects = Vec::new();
    super::objects(store, &mut objects)?;
    for object in objects {
        if !draws.chance(jump.percent) {
            continue;
        }
        let moved = || -> std::io::Result<()> {
            let time = object.metadata()?.modified()?;
            let by = std::time::Duration::from_secs(jump.seconds.unsigned_abs());
            let time = if jump.seconds < 0 { time - by } else { time + by };
            fs::File::open(&object)?.set_modified(time)
        };
        // It may go at any moment.
        match moved() {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn remove_all(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

fn tail(text: &str) -> &str {
    let from = text.len().saturating_sub(2000);
    text.get(from..).unwrap_or(text)
}
