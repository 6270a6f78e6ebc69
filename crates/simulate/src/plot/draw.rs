//! A plot as SVG.
//!
//! The viewer chooses the font (`sans-serif`), so widths of text are estimated. The legend is
//! beside the frame, so that nothing overlaps.

use std::fmt::{self, Write};

use super::axis::{Span, said, shows};
use super::{Plot, Series};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 560.0;
/// Margins of the frame.
const LEFT: f64 = 84.0;
const TOP: f64 = 68.0;
const BOTTOM: f64 = HEIGHT - 62.0;
/// Between the frame and the legend.
const GAP: f64 = 28.0;
/// Width of a line's sample in the legend.
const KEY_WIDTH: f64 = 56.0;
const LINE_HEIGHT: f64 = 22.0;
/// Width of a letter in the legend.
const LETTER_WIDTH: f64 = 7.0;
/// A series with more points than this is drawn as a line without marks.
const MARKED_MAX: usize = 40;
/// The most marks on an axis.
const MARKS_MAX: usize = 11;
/// Colours that the colour-blind can tell apart, dark ones first.
const COLOURS: [&str; 8] = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#808080",
];

/// Draws a plot. It leaves out points that an axis cannot show, such as 0 on an axis of powers.
#[must_use]
pub fn svg(plot: &Plot) -> String {
    let mut out = String::new();
    draw(plot, &mut out).expect("writing to a string does not fail");
    out
}

/// Where text is anchored.
#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// The frame and its axes. It maps values to positions on the drawing.
struct Frame<'a> {
    plot: &'a Plot,
    x: Span,
    y: Span,
    right: f64,
}

impl<'a> Frame<'a> {
    fn of(plot: &'a Plot) -> Self {
        let placed = || plot.series.iter().flat_map(|series| placed(plot, series));
        #[expect(clippy::cast_precision_loss, reason = "letters of a name")]
        let letters = plot
            .series
            .iter()
            .map(|series| series.name.chars().count() as f64);
        let legend = (KEY_WIDTH + LETTER_WIDTH * letters.fold(0.0, f64::max)).min(WIDTH / 2.0);
        Self {
            plot,
            x: Span::around(plot.x.scale, placed().map(|(x, _)| x)),
            y: Span::around(plot.y.scale, placed().map(|(_, y)| y)),
            right: WIDTH - legend - GAP,
        }
    }

    fn across(&self, value: f64) -> f64 {
        LEFT + self.x.share(value) * (self.right - LEFT)
    }

    fn up(&self, value: f64) -> f64 {
        BOTTOM - self.y.share(value) * (BOTTOM - TOP)
    }

    fn axes(&self, out: &mut String) -> fmt::Result {
        let right = self.right;
        for mark in self.x.marks(MARKS_MAX) {
            let x = self.across(mark);
            line(out, (x, TOP), (x, BOTTOM), "#E1E1E1", 1)?;
            text(out, (x, BOTTOM + 18.0), 13, Anchor::Middle, &said(mark))?;
        }
        for mark in self.y.marks(MARKS_MAX) {
            let y = self.up(mark);
            line(out, (LEFT, y), (right, y), "#E1E1E1", 1)?;
            text(out, (LEFT - 8.0, y + 4.0), 13, Anchor::End, &said(mark))?;
        }
        line(out, (LEFT, TOP), (LEFT, BOTTOM), "#000000", 1)?;
        line(out, (LEFT, BOTTOM), (right, BOTTOM), "#000000", 1)?;
        let below = ((LEFT + right) / 2.0, HEIGHT - 18.0);
        text(out, below, 15, Anchor::Middle, &self.plot.x.label)?;
        let middle = f64::midpoint(TOP, BOTTOM);
        writeln!(
            out,
            "<text transform=\"translate(22 {middle:.1}) rotate(-90)\" font-size=\"15\" text-anchor=\"middle\">{}</text>",
            escaped(&self.plot.y.label)
        )
    }

    /// The `n`-th series: its line, its marks, and its place in the legend.
    fn series(&self, n: usize, series: &Series, out: &mut String) -> fmt::Result {
        let colour = COLOURS[n % COLOURS.len()];
        let points: Vec<(f64, f64)> = placed(self.plot, series)
            .map(|(x, y)| (self.across(x), self.up(y)))
            .collect();
        if points.len() > 1 {
            write!(
                out,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\""
            )?;
            for (x, y) in &points {
                write!(out, "{x:.1},{y:.1} ")?;
            }
            writeln!(out, "\"/>")?;
        }
        if points.len() <= MARKED_MAX {
            points.iter().try_for_each(|at| mark(out, n, *at))?;
        }
        #[expect(clippy::cast_precision_loss, reason = "a handful of series")]
        let y = TOP + 8.0 + LINE_HEIGHT * n as f64;
        let x = self.right + GAP - 8.0;
        line(out, (x, y), (x + 30.0, y), colour, 2)?;
        mark(out, n, (x + 15.0, y))?;
        text(out, (x + 38.0, y + 4.0), 13, Anchor::Start, &series.name)
    }
}

/// The points of a series that the axes can show.
fn placed<'a>(plot: &'a Plot, series: &'a Series) -> impl Iterator<Item = (f64, f64)> + 'a {
    let points = series.points.iter().copied();
    points.filter(|(x, y)| shows(plot.x.scale, *x) && shows(plot.y.scale, *y))
}

fn draw(plot: &Plot, out: &mut String) -> fmt::Result {
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\">"
    )?;
    writeln!(
        out,
        "<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#FFFFFF\"/>"
    )?;
    text(out, (WIDTH / 2.0, 28.0), 19, Anchor::Middle, &plot.title)?;
    text(out, (WIDTH / 2.0, 50.0), 13, Anchor::Middle, &plot.subtitle)?;
    let frame = Frame::of(plot);
    frame.axes(out)?;
    for (n, series) in plot.series.iter().enumerate() {
        frame.series(n, series, out)?;
    }
    writeln!(out, "</svg>")
}

fn line(out: &mut String, from: (f64, f64), to: (f64, f64), colour: &str, width: u32) -> fmt::Result {
    writeln!(
        out,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>",
        from.0, from.1, to.0, to.1
    )
}

fn text(out: &mut String, at: (f64, f64), size: u32, anchor: Anchor, words: &str) -> fmt::Result {
    let anchor = match anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\">{}</text>",
        at.0,
        at.1,
        escaped(words)
    )
}

/// The mark of the `n`-th series.
fn mark(out: &mut String, n: usize, (x, y): (f64, f64)) -> fmt::Result {
    let colour = COLOURS[n % COLOURS.len()];
    match (n + n / COLOURS.len()) % 4 {
        0 => writeln!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>"
        ),
        1 => writeln!(
            out,
            "<path d=\"M{x:.1} {:.1}l5 9h-10z\" fill=\"{colour}\"/>",
            y - 5.5
        ),
        2 => writeln!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\" fill=\"{colour}\"/>",
            x - 4.0,
            y - 4.0
        ),
        _ => writeln!(
            out,
            "<path d=\"M{:.1} {:.1}l10 10m0 -10l-10 10\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            x - 5.0,
            y - 5.0
        ),
    }
}

/// Text with the signs of markup escaped.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            letter => out.push(letter),
        }
    }
    out
}
