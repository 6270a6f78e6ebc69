//! A plot as SVG.
//!
//! Text is left to whoever shows it: `sans-serif`, its width estimated. The legend stands beside the plot, so nothing lies
//! over anything else.

use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::{Span, shows};
use super::experiment::{Plot, Series};
use crate::error::LabError;

const WIDTH: u32 = 960;
const HEIGHT: u32 = 560;
/// Of the legend, beside its names.
const KEY_WIDTH: u32 = 56;
const LINE_HEIGHT: i32 = 22;
/// Series with more points than this are lines alone.
const MARKED_MAX: usize = 40;
/// Of a letter, as plots are wide.
const LETTER_WIDTH: u32 = 7;
/// Colours that stay apart for the colour-blind, dark ones first.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(0, 0, 0),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(128, 128, 128),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Placed<'a> = DrawingArea<SVGBackend<'a>, Cartesian2d<Span, Span>>;

/// Draws a plot. Points that have no place on its axes, such as 0 on one of powers, are left out.
///
/// # Errors
/// `Settings` where the drawing fails.
pub fn svg(plot: &Plot) -> Result<String, LabError> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH, HEIGHT)).into_drawing_area();
        draw(plot, &root)
            .and_then(|()| root.present())
            .map_err(|error| LabError::Settings(format!("{}: drawing it failed: {error}", plot.name)))?;
    }
    Ok(text)
}

type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

fn draw(plot: &Plot, root: &Area<'_>) -> Drawn {
    root.fill(&WHITE)?;
    let heading = |size: u32| ("sans-serif", size).into_font().color(&BLACK);
    let centred = |size| heading(size).pos(Pos::new(HPos::Center, VPos::Top));
    let middle = i32::try_from(WIDTH / 2).expect("a small number");
    root.draw_text(&plot.title, &centred(19), (middle, 12))?;
    root.draw_text(&plot.subtitle, &centred(13), (middle, 38))?;
    let (_, below) = root.split_vertically(60);

    let letters = plot.series.iter().map(|series| series.name.chars().count()).max();
    let names = u32::try_from(letters.unwrap_or(0)).unwrap_or(u32::MAX);
    let legend_width = (KEY_WIDTH + LETTER_WIDTH.saturating_mul(names)).min(WIDTH / 2);
    let (left, right) = below.split_horizontally(WIDTH - legend_width);

    let values = |axis: usize| {
        let points = plot.series.iter().flat_map(|series| &series.points);
        points
            .filter(|point| is_placed(plot, **point))
            .map(move |(x, y)| if axis == 0 { *x } else { *y })
    };
    let mut chart = ChartBuilder::on(&left)
        .margin_left(12)
        .margin_right(24)
        .margin_top(8)
        .margin_bottom(10)
        .x_label_area_size(52)
        .y_label_area_size(72)
        .build_cartesian_2d(
            Span::around(plot.x.scale, values(0)),
            Span::around(plot.y.scale, values(1)),
        )?;
    chart
        .configure_mesh()
        .x_desc(&plot.x.label)
        .y_desc(&plot.y.label)
        .axis_desc_style(heading(15))
        .label_style(heading(13))
        .max_light_lines(0)
        .bold_line_style(RGBColor(225, 225, 225))
        .draw()?;
    let area = chart.plotting_area();
    for (n, series) in plot.series.iter().enumerate() {
        line(plot, n, series, area)?;
        let y = 16 + LINE_HEIGHT * i32::try_from(n).unwrap_or(i32::MAX / LINE_HEIGHT - 1);
        let colour = COLOURS[n % COLOURS.len()];
        right.draw(&PathElement::new(vec![(4, y), (34, y)], colour.stroke_width(2)))?;
        mark(n, (19, y), &right)?;
        let style = heading(13).pos(Pos::new(HPos::Left, VPos::Center));
        right.draw_text(&series.name, &style, (42, y))?;
    }
    Ok(())
}

fn is_placed(plot: &Plot, (x, y): (f64, f64)) -> bool {
    shows(plot.x.scale, x) && shows(plot.y.scale, y)
}

fn line(plot: &Plot, n: usize, series: &Series, area: &Placed<'_>) -> Drawn {
    let points = series.points.iter().copied();
    let points: Vec<(f64, f64)> = points.filter(|point| is_placed(plot, *point)).collect();
    let colour = COLOURS[n % COLOURS.len()];
    area.draw(&PathElement::new(points.clone(), colour.stroke_width(2)))?;
    if points.len() > MARKED_MAX {
        return Ok(());
    }
    let pixels = area.strip_coord_spec();
    let base = pixels.get_base_pixel();
    for point in points {
        let at = area.map_coordinate(&point);
        mark(n, (at.0 - base.0, at.1 - base.1), &pixels)?;
    }
    Ok(())
}

/// The mark of the n-th series.
fn mark(n: usize, at: (i32, i32), area: &Area<'_>) -> Drawn {
    let colour = COLOURS[n % COLOURS.len()];
    let (x, y) = at;
    match (n + n / COLOURS.len()) % 4 {
        0 => area.draw(&Circle::new(at, 4, colour.filled())),
        1 => area.draw(&TriangleMarker::new(at, 5, colour.filled())),
        2 => area.draw(&Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], colour.filled())),
        _ => area.draw(&Cross::new(at, 4, colour.stroke_width(2))),
    }
}
