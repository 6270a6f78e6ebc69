//! What an experiment gives: rows and plots, as values.

use serde::Serialize;
use simulate::plot::Plot;

/// A figure, a table or a statement of a paper, measured again.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Experiment {
    /// What its files are called by, of lower-case letters, digits and hyphens: `figure-08`.
    pub name: String,
    /// What it is in the paper: `figure 8: speed as RAM usage varies`.
    pub title: String,
    /// The mechanisms it is about: `L5`.
    pub seeds: Vec<&'static str>,
    /// What it was measured with: data, container size, memory, schedule.
    pub setup: String,
    /// Figures.
    pub rows: Vec<Row>,
    /// Plots.
    pub plots: Vec<Plot>,
}

/// One figure, the paper's beside ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// What is measured.
    pub what: String,
    /// The paper's figure, in words.
    pub paper: String,
    /// Ours, in words.
    pub ours: String,
    /// Ours, as a number, where it is one.
    pub value: Option<f64>,
    /// Whether they agree.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// Whether ours agrees with the paper's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", content = "reason", rename_all = "snake_case")]
pub enum Verdict {
    /// It does.
    Met,
    /// It does not, for this reason.
    Differs(String),
    /// The paper has no number to compare with.
    NoFigure,
}

impl Row {
    /// A figure that the paper has no number for.
    #[must_use]
    pub fn new(what: impl Into<String>, paper: impl Into<String>, ours: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            paper: paper.into(),
            ours: ours.into(),
            value: None,
            verdict: Verdict::NoFigure,
        }
    }

    /// Ours as a number.
    #[must_use]
    pub fn value(mut self, value: f64) -> Self {
        self.value = Some(value);
        self
    }

    /// Judges: where it is not met, `reason` says why.
    #[must_use]
    pub fn met(mut self, is_met: bool, reason: impl Into<String>) -> Self {
        self.verdict = if is_met {
            Verdict::Met
        } else {
            Verdict::Differs(reason.into())
        };
        self
    }
}
