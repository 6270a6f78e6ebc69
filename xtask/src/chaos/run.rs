//! One run: a seed, a store, its sources, some steps, and checks after each.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::Result;

use super::commands::{Compare, Desk, Ready, layout};
use super::draws::{Draws, pick};
use super::journal::Journal;
use super::judge::{Befell, Fault, always, judge};
use super::model::{Did, Effect, Listed, Model};
use super::place::{Kind, Place};
use super::program::{Call, Ended, Program};
use super::script::{Ballast, Jump, Rough, Step, Verb, strings};
use super::sources::Source;
use super::trouble::jump_times;
use super::watch::pause_ms;

/// A fault, or an error that kept the runner from judging.
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

/// The parameters of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) steps: u64,
    /// Use a plain folder, whatever is drawn.
    pub(super) plain: bool,
    /// After this step the runner deletes something behind the program's back: the judge must
    /// notice.
    pub(super) sabotage: Option<(u64, Sabotage)>,
}

/// What the runner deletes to see whether the judge notices.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sabotage {
    /// Containers with data, and mirror copies.
    Containers,
    /// All revisions of one backup's manifest.
    Manifest,
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
    pub(super) fresh: u64,
}

impl Run {
    /// Draws the settings, the place and the sources of the store, and makes the place and the
    /// sources.
    pub(super) fn new(plan: Plan, binary: PathBuf, work: &Path) -> Result<Self> {
        let mut draws = Draws::new(plan.seed, 0);
        let d = &mut draws;
        let mut model = Model::default();
        let kind = Kind::draw(d);
        let kind = if plan.plain { Kind::Plain } else { kind };
        let has_password = d.chance(15);
        let mut init = strings(&["init", "--chunk-kib", d.one(&["1", "2", "4", "8", "16"])]);
        init.extend(strings(&["--container-mib", d.one(&["1", "1", "2", "4"])]));
        let reserve = d.one(&["0", "1", "1", "2", "4"]);
        init.extend(strings(&["--reserve-mib", reserve]));
        if d.chance(60) {
            let (options, archival) = layout(d);
            init.extend(options);
            model.begin(archival);
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
            model,
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

    /// Plays all steps, and ends with the first fault.
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
            match self.plan.sabotage {
                Some((after, sabotage)) if after == number => self.sabotage(sabotage)?,
                _ => {}
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

    /// Runs the commands of a step, and judges them.
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
            self.compare(ready, ended)?;
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

    /// Runs one command without disturbances. The caller judges the exit code.
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

    /// Finds the password that opens the store: after an interrupted change, the new one or the old
    /// one.
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

    /// Lists the store and compares the listing with the model.
    pub(super) fn settle(&mut self, did: &[Did]) -> Judged {
        let ended = self.well(&strings(&["snapshots"]))?;
        let listed = listed(&ended);
        fs::remove_file(&ended.out)?;
        let names: Vec<String> = self.sources.iter().map(|source| source.name.clone()).collect();
        self.model.settle(did, &listed, &names).map_err(Fault::from)?;
        Ok(())
    }

    pub(super) fn processes(&self) -> usize {
        self.program.started.load(Ordering::Relaxed)
    }
}

/// The certain or possible effect of a command.
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

fn tail(text: &str) -> &str {
    let from = text.len().saturating_sub(2000);
    text.get(from..).unwrap_or(text)
}
