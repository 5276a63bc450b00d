//! Plots as SVG: colour-blind safe (Okabe and Ito 2008), legible in print and on a projector.

use kuva::backend::svg::SvgBackend;
use kuva::plot::legend::LegendPosition;
use kuva::plot::{BarPlot, LinePlot};
use kuva::render::layout::{Layout, TickFormat};
use kuva::render::plots::Plot as Mark;
use kuva::render::render::render_multiple;

use crate::report::document::{Axis, Line, Marks, Plot};

/// Blue, vermilion, green, purple, orange, sky blue, black: ordered so that neighbours differ in
/// lightness as well as in hue.
const COLOURS: [&str; 7] = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
];

const WIDTH: f64 = 760.0;
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
        .with_legend_position(LegendPosition::OutsideBottomColumns)
        .with_font_family("Inter, 'Segoe UI', Helvetica, Arial, sans-serif")
        .with_title_size(17)
        .with_label_size(15)
        .with_tick_size(13)
        .with_body_size(14);
    if plot.x.log {
        layout = layout.with_log_x().with_x_tick_format(TickFormat::Auto);
    }
    if plot.y.log {
        layout = layout.with_log_y();
    }
    let scene = render_multiple(marks, layout);
    let size = format!(r#"width="{}" height="{}""#, scene.width, scene.height);
    let scalable = format!(
        r#"{size} viewBox="0 0 {} {}" role="img""#,
        scene.width, scene.height
    );
    SvgBackend::new()
        .render_scene(&scene)
        .replacen(&size, &scalable, 1)
}

fn line_marks(lines: &[Line], x: &Axis, y: &Axis) -> Vec<Mark> {
    let shown = |&(px, py): &(f64, f64)| {
        px.is_finite() && py.is_finite() && (!x.log || px > 0.0) && (!y.log || py > 0.0)
    };
    lines
        .iter()
        .zip(COLOURS.iter().cycle())
        .map(|(line, colour)| {
            let mut mark = LinePlot::new()
                .with_data(line.points.iter().copied().filter(shown))
                .with_color(*colour)
                .with_stroke_width(2.5)
                .with_legend(line.label.as_str());
            if let Some(band) = &line.band {
                let kept = line
                    .points
                    .iter()
                    .zip(band)
                    .filter(|(point, _)| shown(point));
                let (low, high): (Vec<f64>, Vec<f64>) = kept.map(|(_, &band)| band).unzip();
                mark = mark.with_band(low, high);
            }
            Mark::Line(if line.dashed {
                mark.with_dashed()
            } else {
                mark
            })
        })
        .collect()
}

fn bar_mark(categories: &[String], series: &[(String, Vec<f64>)]) -> Mark {
    let mut bars = BarPlot::new();
    for (i, category) in categories.iter().enumerate() {
        let values = series.iter().zip(COLOURS.iter().cycle());
        bars = bars.with_group(
            category.as_str(),
            values.map(|((_, v), colour)| (v[i], *colour)),
        );
    }
    Mark::Bar(bars.with_legend(series.iter().map(|(label, _)| label.as_str()).collect()))
}
