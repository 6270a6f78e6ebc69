//! The script of a step, drawn from the seed and the step's number alone: which commands run at
//! once, and the disturbances of the commands, the disk and the clocks. Numbers of backups are
//! draws until the step runs.

use std::ffi::OsString;

use rustix::process::Signal;

use super::draws::Draws;
use super::program::{Call, Shot, When};

/// Folders of a store whose changes trigger signals.
const MARKS: &[&str] = &[
    "sessions",
    "sessions",
    "backups",
    "backups",
    "data",
    "recipe",
    "small",
    "catalog",
    "mirror",
    "index",
    "condemned",
    "removed",
    "groups",
    "lease",
    "config",
    "series",
    "",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Backup,
    Forget,
    Prune,
    Optimize,
    Check,
    Restore,
    Dump,
    Look,
    Hold,
    Tag,
    Key,
    Index,
    Series,
}

const VERBS: &[(Verb, u64)] = &[
    (Verb::Backup, 34),
    (Verb::Forget, 12),
    (Verb::Prune, 15),
    (Verb::Optimize, 7),
    (Verb::Check, 4),
    (Verb::Restore, 9),
    (Verb::Dump, 3),
    (Verb::Look, 4),
    (Verb::Hold, 4),
    (Verb::Tag, 3),
    (Verb::Key, 2),
    (Verb::Index, 2),
    (Verb::Series, 3),
];

/// One command of a step, before the runner knows which backups exist.
#[derive(Debug, Clone)]
pub(super) struct Act {
    pub(super) verb: Verb,
    pub(super) draws: Draws,
    pub(super) call: Call,
}

/// What happens to the disk while a step runs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ballast {
    Fill { leave: u64, after_ms: u64 },
    Release { after_ms: u64 },
}

/// A jump of the storage's clock: the times of this share of the store's objects move by so many
/// seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Jump {
    pub(super) seconds: i64,
    pub(super) percent: u64,
    pub(super) after_ms: Option<u64>,
    pub(super) seed: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Step {
    /// The sources that change before the step, as draws.
    pub(super) edits: Vec<(u64, Draws)>,
    pub(super) acts: Vec<Act>,
    pub(super) ballast: Option<Ballast>,
    pub(super) jump: Option<Jump>,
    /// A backup to restore and compare after all commands.
    pub(super) probe: Option<u64>,
}

/// How rough a run is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rough {
    pub(super) signals: u64,
    pub(super) rivals: u64,
    pub(super) ballast: u64,
    pub(super) clocks: u64,
}

impl Step {
    pub(super) fn draw(seed: u64, number: u64, rough: Rough) -> Self {
        let part = number << 16;
        let mut draws = Draws::new(seed, part);
        let edits = (0..draws.below(7))
            .map(|at| (draws.next(), Draws::new(seed, part + 0x100 + at)))
            .collect();
        let rivals = if draws.chance(rough.rivals) {
            draws.within(1, 2)
        } else {
            0
        };
        let ballast = draws.chance(rough.ballast).then(|| {
            let after_ms = if draws.chance(50) { 0 } else { draws.about(1, 1500) };
            if draws.chance(60) {
                let leave = if draws.chance(20) {
                    0
                } else {
                    draws.about(4 << 10, 4 << 20)
                };
                Ballast::Fill { leave, after_ms }
            } else {
                Ballast::Release { after_ms }
            }
        });
        let jump = draws.chance(rough.clocks / 2).then(|| Jump::draw(&mut draws));
        let probe = draws.chance(35).then(|| draws.next());
        let acts = (0..=rivals)
            .map(|at| Act::draw(Draws::new(seed, part + 0x200 + at), at, rough))
            .collect();
        Self {
            edits,
            acts,
            ballast,
            jump,
            probe,
        }
    }
}

impl Jump {
    fn draw(draws: &mut Draws) -> Self {
        let seconds = i64::try_from(draws.about(60, 50 * 86_400)).unwrap_or(60);
        Self {
            // Older objects mean that the clock went forward. It goes back more rarely.
            seconds: if draws.chance(70) { -seconds } else { seconds },
            percent: draws.one(&[100, 100, 50, 10]),
            after_ms: draws.chance(30).then(|| draws.about(1, 1000)),
            seed: draws.next(),
        }
    }
}

impl Act {
    fn draw(mut draws: Draws, place: u64, rough: Rough) -> Self {
        let mut at = draws.below(VERBS.iter().map(|(_, weight)| weight).sum());
        let verb = VERBS.iter().find(|(_, weight)| {
            let is_it = at < *weight;
            at = at.saturating_sub(*weight);
            is_it
        });
        let verb = verb.map_or(Verb::Backup, |(verb, _)| *verb);
        let shots = if draws.chance(rough.signals) {
            shots(&mut draws)
        } else {
            Vec::new()
        };
        let clock = draws.chance(rough.clocks / 2).then(|| {
            let days = draws.within(1, 50);
            if draws.chance(50) {
                format!("+{days}d")
            } else {
                format!("-{days}d")
            }
        });
        let start_ms = if place == 0 { 0 } else { draws.about(1, 800) };
        Self {
            verb,
            draws,
            call: Call {
                clock,
                start_ms,
                shots,
                ..Call::default()
            },
        }
    }
}

fn shots(draws: &mut Draws) -> Vec<Shot> {
    let when = |draws: &mut Draws| {
        if draws.chance(50) {
            When::After {
                ms: draws.about(1, 1500),
            }
        } else {
            When::Mark {
                folder: draws.one(MARKS),
                changes: u32::try_from(draws.about(1, 12)).unwrap_or(1),
            }
        }
    };
    let mut shots = Vec::new();
    if draws.chance(25) {
        shots.push(Shot {
            when: when(draws),
            signal: Signal::STOP,
        });
        shots.push(Shot {
            when: When::After {
                ms: draws.about(10, 4000),
            },
            signal: Signal::CONT,
        });
    }
    if shots.is_empty() || draws.chance(30) {
        let signal = draws.one(&[
            Signal::KILL,
            Signal::KILL,
            Signal::KILL,
            Signal::TERM,
            Signal::INT,
        ]);
        shots.push(Shot {
            when: when(draws),
            signal,
        });
        if draws.chance(10) {
            shots.push(Shot {
                when: When::After {
                    ms: draws.about(1, 200),
                },
                signal: Signal::TERM,
            });
        }
    }
    shots
}

pub(super) fn strings(of: &[&str]) -> Vec<OsString> {
    of.iter().map(OsString::from).collect()
}
