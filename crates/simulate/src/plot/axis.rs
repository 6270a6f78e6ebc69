//! Positions of points on an axis, and its marks.

use super::Scale;

/// The most marks on an axis.
const MARKS_MAX: usize = 11;

/// An axis from one value to another.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Span {
    scale: Scale,
    from: f64,
    until: f64,
}

impl Span {
    /// An axis with room for these values.
    pub(super) fn around(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let (mut from, mut until) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| shows(scale, *value)) {
            from = from.min(value);
            until = until.max(value);
        }
        if from > until {
            // There is nothing to show.
            (from, until) = (1.0, 2.0);
        }
        if scale == Scale::Linear {
            if from >= 0.0 && from < until / 2.0 {
                from = 0.0;
            }
            if from == until {
                (from, until) = (from - 1.0, until + 1.0);
            }
            let step = even_step(until - from, MARKS_MAX);
            Self {
                scale,
                from: (from / step).floor() * step,
                until: (until / step).ceil() * step,
            }
        } else {
            let room = (until / from).powf(0.03).max(1.03);
            Self {
                scale,
                from: from / room,
                until: until * room,
            }
        }
    }

    /// The marked values, the lowest first.
    pub(super) fn marks(&self, most: usize) -> Vec<f64> {
        let most = most.min(MARKS_MAX);
        let powers = |base: f64, factors: &[f64]| -> Vec<f64> {
            let mut marks = Vec::new();
            let mut power = base.powf(self.from.log(base).floor());
            while power <= self.until {
                marks.extend(factors.iter().map(|factor| factor * power));
                power *= base;
            }
            marks.retain(|mark| (self.from..=self.until).contains(mark));
            marks
        };
        let thinned = |marks: Vec<f64>| -> Vec<f64> {
            let nth = marks.len().div_ceil(most.max(1)).max(1);
            marks.into_iter().step_by(nth).collect()
        };
        let marks = match self.scale {
            Scale::Linear => return self.even_marks(most),
            Scale::Doubling => thinned(powers(2.0, &[1.0])),
            Scale::Decades => {
                let fine = powers(10.0, &[1.0, 2.0, 5.0]);
                if fine.len() > most {
                    thinned(powers(10.0, &[1.0]))
                } else {
                    fine
                }
            }
        };
        if marks.len() < 2 {
            self.even_marks(most)
        } else {
            marks
        }
    }

    fn even_marks(&self, most: usize) -> Vec<f64> {
        let step = even_step(self.until - self.from, most);
        let first = (self.from / step).ceil();
        (0..=most + 1)
            .map(|n| {
                #[expect(clippy::cast_precision_loss, reason = "a handful")]
                let n = n as f64;
                (first + n) * step
            })
            .filter(|mark| *mark <= self.until + step / 1000.0)
            .collect()
    }

    /// The position of a value: 0 at the beginning, 1 at the end.
    pub(super) fn share(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.from) / (self.until - self.from),
            Scale::Doubling | Scale::Decades => (value / self.from).ln() / (self.until / self.from).ln(),
        }
    }
}

/// Whether an axis can show a value.
pub(super) fn shows(scale: Scale, value: f64) -> bool {
    value.is_finite() && (scale == Scale::Linear || value > 0.0)
}

/// The step between marks: 1, 2 or 5 times a power of ten, so that at most `most` steps fit into
/// the length.
fn even_step(length: f64, most: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a handful")]
    let least = length / most.max(1) as f64;
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= least * 0.999)
        .unwrap_or(10.0 * power)
}

/// A number as a mark shows it: `0.25`, `512`, `1.2 M`.
pub(super) fn said(value: f64) -> String {
    let magnitude = value.abs();
    let (unit, name) = [(1e12, " T"), (1e9, " G"), (1e6, " M")]
        .into_iter()
        .find(|(unit, _)| magnitude >= *unit)
        .unwrap_or((1.0, ""));
    let value = value / unit;
    if magnitude < 1e-9 {
        return "0".to_owned();
    }
    if magnitude < 1e-3 {
        return format!("{value:.0e}");
    }
    let digits = format!("{value:.3}");
    format!("{}{name}", digits.trim_end_matches('0').trim_end_matches('.'))
}
