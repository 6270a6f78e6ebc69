//! The results of an experiment: rows and plots, as values.

use serde::Serialize;
use simulate::plot::Plot;

/// A repeated figure, table or statement of a paper.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Experiment {
    /// The stem of its files' names, of lower-case letters, digits and hyphens: `figure-08`.
    pub name: String,
    /// Its title in the paper: `figure 8: speed as RAM usage varies`.
    pub title: String,
    /// The mechanisms it is about: `L5`.
    pub seeds: Vec<&'static str>,
    /// Its settings: data, container size, memory, schedule.
    pub setup: String,
    /// Figures.
    pub rows: Vec<Row>,
    /// Plots.
    pub plots: Vec<Plot>,
}

/// One figure of the paper, and ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The quantity.
    pub what: String,
    /// The paper's figure, in words.
    pub paper: String,
    /// Our figure, in words.
    pub ours: String,
    /// Our figure as a number, if it is one.
    pub value: Option<f64>,
    /// Whether both agree.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// Whether our figure agrees with the paper's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", content = "reason", rename_all = "snake_case")]
pub enum Verdict {
    /// It agrees.
    Met,
    /// It does not agree, for this reason.
    Differs(String),
    /// The row has no rule: the paper has no such figure, or one of its own machine.
    NotJudged,
}

impl Row {
    /// A row without a verdict.
    #[must_use]
    pub fn new(what: impl Into<String>, paper: impl Into<String>, ours: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            paper: paper.into(),
            ours: ours.into(),
            value: None,
            verdict: Verdict::NotJudged,
        }
    }

    /// Sets our figure as a number.
    #[must_use]
    pub fn value(mut self, value: f64) -> Self {
        self.value = Some(value);
        self
    }

    /// Sets the verdict. `reason` says why it is not met.
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
