//! Plots as values, and as SVG.
//!
//! A plot is drawn without a library: a frame, grid lines, points joined by lines, a legend. That
//! takes some 200 lines, and keeps a drawing library out of the product.

mod axis;
mod draw;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub(crate) use draw::escaped;
pub use draw::svg;

/// Series of points over two axes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// The stem of its file's name: `figure-08-2year`.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// What was measured: data, container size, memory.
    pub subtitle: String,
    /// The axis to the right.
    pub x: Axis,
    /// The axis upwards.
    pub y: Axis,
    /// The series, in the order of the legend.
    pub series: Vec<Series>,
}

/// An axis of a plot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// The quantity, with the unit last: `memory, MiB`.
    pub label: String,
    /// How it is divided.
    pub scale: Scale,
}

impl Axis {
    /// An evenly divided axis. It begins at 0 unless all points are in the upper half.
    #[must_use]
    pub fn linear(label: impl Into<String>) -> Self {
        Self::of(label, Scale::Linear)
    }

    /// An axis divided by doublings.
    #[must_use]
    pub fn doubling(label: impl Into<String>) -> Self {
        Self::of(label, Scale::Doubling)
    }

    /// An axis divided by powers of ten.
    #[must_use]
    pub fn decades(label: impl Into<String>) -> Self {
        Self::of(label, Scale::Decades)
    }

    fn of(label: impl Into<String>, scale: Scale) -> Self {
        Self {
            label: label.into(),
            scale,
        }
    }
}

/// How an axis is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Evenly.
    Linear,
    /// Logarithmically, at powers of two.
    Doubling,
    /// Logarithmically, at powers of ten.
    Decades,
}

/// Points of one kind, joined in this order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Points (x, y) in the axes' units.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// A series of these points.
    #[must_use]
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.into(),
            points,
        }
    }
}
