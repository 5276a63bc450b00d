//! Plots as SVG: colour-blind safe (Okabe and Ito 2008), legible in print and on a projector.

use std::sync::Arc;

use kuva::backend::svg::SvgBackend;
use kuva::plot::legend::LegendPosition;
use kuva::plot::{BarPlot, LinePlot, ScatterPlot};
use kuva::render::layout::{Layout, TickFormat};
use kuva::render::plots::Plot as Mark;
use kuva::render::render::render_multiple;

use crate::report::document::{Axis, Line, Marks, Plot};
use crate::report::format::plain;

/// Blue, vermilion, green, purple, orange, sky blue, black: ordered so that neighbours differ in
/// lightness as well as in hue.
const COLOURS: [&str; 7] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"];

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 420.0;

/// `plot` as a standalone SVG document that scales to its container.
pub fn render(plot: &Plot) -> String {
    let marks = match &plot.marks {
        Marks::Lines(lines) => line_marks(lines, &plot.x, &plot.y),
        Marks::Bars { categories, series } => vec![bar_mark(categories, series)],
    };
    let mut layout = Layout::auto_from_plots(&marks)
        .with_title(plot.title.as_str())
        .with_x_label(plot.x.label.as_str())
        .with_y_label(plot.y.label.as_str())
        .with_width(WIDTH)
        .with_height(HEIGHT)
        .with_legend_position(LegendPosition::OutsideRightTop)
        .with_legend_box(false)
        .with_legend_width(legend_width(&plot.marks))
        .with_font_family("Inter, 'Segoe UI', Helvetica, Arial, sans-serif")
        .with_title_size(18)
        .with_label_size(15)
        .with_tick_size(if matches!(plot.marks, Marks::Bars { .. }) { 13 } else { 14 })
        .with_body_size(15)
        .with_x_tick_format(tick_format(plot.x.log))
        .with_y_tick_format(tick_format(plot.y.log));
    if plot.x.log {
        layout = layout.with_log_x();
    }
    if plot.y.log {
        layout = layout.with_log_y();
    }
    let scene = render_multiple(marks, layout);
    let size = format!(r#"width="{}" height="{}""#, scene.width, scene.height);
    let scalable = format!(r#"{size} viewBox="0 0 {} {}" role="img""#, scene.width, scene.height);
    SvgBackend::new().render_scene(&scene).replacen(&size, &scalable, 1)
}

/// Room for the longest label, in pixels: the renderer's own estimate is for a narrower font.
fn legend_width(marks: &Marks) -> f64 {
    let longest = match marks {
        Marks::Lines(lines) => lines.iter().map(|line| line.label.chars().count()).max(),
        Marks::Bars { series, .. } => series.iter().map(|(label, _)| label.chars().count()).max(),
    };
    8.0 * longest.unwrap_or(0) as f64 + 45.0
}

fn tick_format(log: bool) -> TickFormat {
    TickFormat::Custom(Arc::new(move |value| tick(value, log)))
}

/// An axis value without the rounding noise of its computation: 16384, 0.005, −2, 1e-6, 1e7. A
/// logarithmic axis has no 0 for a tiny value to stand for.
fn tick(value: f64, log: bool) -> String {
    let rounded: f64 = format!("{value:.9e}").parse().unwrap_or(value);
    match rounded.abs() {
        tiny if tiny < 1e-12 && !log => "0".into(),
        large if large >= 1e6 => format!("{rounded:e}"),
        _ => plain(rounded),
    }
}

fn line_marks(lines: &[Line], x: &Axis, y: &Axis) -> Vec<Mark> {
    let shown = |&(px, py): &(f64, f64)| {
        px.is_finite() && py.is_finite() && (!x.log || px > 0.0) && (!y.log || py > 0.0)
    };
    let mut marks = Vec::new();
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let points: Vec<(f64, f64)> = line.points.iter().copied().filter(shown).collect();
        let mut curve = LinePlot::new()
            .with_data(points.clone())
            .with_color(*colour)
            .with_stroke_width(2.5)
            .with_legend(line.label.as_str());
        if let Some(band) = &line.band {
            let kept = line.points.iter().zip(band).filter(|(point, _)| shown(point));
            let (low, high): (Vec<f64>, Vec<f64>) = kept.map(|(_, &band)| band).unzip();
            curve = curve.with_band(low, high);
        }
        if !line.dashed && points.len() <= 20 {
            marks
                .push(Mark::Scatter(ScatterPlot::new().with_data(points).with_color(*colour).with_size(4.0)));
        }
        marks.push(Mark::Line(if line.dashed { curve.with_dashed() } else { curve }));
    }
    marks
}

fn bar_mark(categories: &[String], series: &[(String, Vec<f64>)]) -> Mark {
    let mut bars = BarPlot::new();
    for (i, category) in categories.iter().enumerate() {
        let values = series.iter().zip(COLOURS.iter().cycle());
        bars = bars.with_group(category.as_str(), values.map(|((_, v), colour)| (v[i], *colour)));
    }
    Mark::Bar(bars.with_legend(series.iter().map(|(label, _)| label.as_str()).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_values_are_rid_of_noise_and_never_rounded_to_another_value() {
        let texts = [
            (0.1 + 0.2, "0.3"),
            (16384.0, "16384"),
            (1e-5, "0.00001"),
            (2e-7, "2e-7"),
            (-2.0, "-2"),
            (1e7, "1e7"),
        ];
        for (value, text) in texts {
            assert_eq!((tick(value, false), tick(value, true)), (text.into(), text.into()));
        }
        assert_eq!(tick(-5.6e-17, false), "0", "what is left where 0 was meant");
        assert_eq!(tick(1e-14, true), "1e-14");
    }
}
