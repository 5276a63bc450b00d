//! A document as text: wrapped paragraphs, aligned tables, curves in one line each.
//!
//! The text carries ANSI styles; the stream it is written to removes them where they are not wanted.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use comfy_table::{CellAlignment, ContentArrangement, Table as Grid, presets};

use crate::report::document::{Block, Document, Line, Marks, Plot, Section, Table};
use crate::report::format::plain;

const TITLE: Style = Style::new().bold();
const HEADING: Style = AnsiColor::Cyan.on_default().bold();
const MARKER: Style = AnsiColor::Yellow.on_default().bold();

/// `document` as styled text for a terminal of `width` columns.
pub fn render(document: &Document, width: usize) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{TITLE}{}{TITLE:#}\n", document.title);
    let _ = writeln!(text, "{}", wrap(&document.summary, width, "", ""));
    for (i, section) in document.sections.iter().enumerate() {
        render_section(&mut text, i + 1, section, width);
    }
    text
}

fn render_section(text: &mut String, number: usize, section: &Section, width: usize) {
    let heading = format!("{number}. {}", section.title);
    let _ = writeln!(
        text,
        "\n{HEADING}{}{HEADING:#}\n",
        wrap(&heading, width, "", "   ")
    );
    let _ = writeln!(text, "{}\n", wrap(&section.text, width, "", ""));
    for block in &section.blocks {
        match block {
            Block::Table(table) => {
                let _ = writeln!(text, "{}\n", grid(table, width));
            }
            Block::Plot(plot) => render_plot(text, plot, width),
        }
    }
    for observation in &section.observations {
        let wrapped = wrap(observation, width.saturating_sub(2), "", "  ");
        let _ = writeln!(text, "{MARKER}→{MARKER:#} {wrapped}");
    }
}

fn wrap(text: &str, width: usize, first: &str, rest: &str) -> String {
    textwrap::fill(
        text,
        textwrap::Options::new(width.max(20))
            .initial_indent(first)
            .subsequent_indent(rest),
    )
}

fn grid(table: &Table, width: usize) -> Grid {
    let mut grid = Grid::new();
    grid.load_style(presets::UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width.min(usize::from(u16::MAX)) as u16)
        .set_header(&table.header)
        .add_rows(&table.rows);
    for column in grid.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    grid
}

/// Curves only: what bars show, the tables say.
fn render_plot(text: &mut String, plot: &Plot, width: usize) {
    let Marks::Lines(lines) = &plot.marks else {
        return;
    };
    let _ = writeln!(
        text,
        "{}",
        wrap(
            &format!("{} ({} over {})", plot.title, plot.y.label, plot.x.label),
            width,
            "",
            "  "
        )
    );
    let label_width = lines
        .iter()
        .map(|line| textwrap::core::display_width(&line.label))
        .max()
        .unwrap_or(0);
    let (low, high) = range(lines);
    for line in lines {
        let (Some(first), Some(last)) = (line.points.first(), line.points.last()) else {
            continue;
        };
        let pad = " ".repeat(label_width - textwrap::core::display_width(&line.label));
        let _ = writeln!(
            text,
            "  {}{pad}  {}  {} … {}",
            line.label,
            sparkline(&line.points, low, high, 30),
            significant(first.1),
            significant(last.1),
        );
    }
    text.push('\n');
}

fn range(lines: &[Line]) -> (f64, f64) {
    lines
        .iter()
        .flat_map(|line| &line.points)
        .filter(|point| point.1.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), point| {
            (low.min(point.1), high.max(point.1))
        })
}

/// The y values of `points` as block characters between `low` and `high`, at most `width` of them.
fn sparkline(points: &[(f64, f64)], low: f64, high: f64, width: usize) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = points.len().min(width);
    (0..shown)
        .map(|i| {
            let y = points[i * (points.len() - 1) / (shown - 1).max(1)].1;
            let height = if high > low {
                (y - low) / (high - low)
            } else {
                0.0
            };
            LEVELS[(height * 7.0).round().clamp(0.0, 7.0) as usize]
        })
        .collect()
}

/// About three significant digits.
fn significant(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return plain(x);
    }
    let decimals = (2 - x.abs().log10().floor() as i32).clamp(0, 6) as usize;
    format!("{x:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_by_display_width() {
        let table = Table {
            header: vec!["policy".into(), "KL(π‖π_ref)".into()],
            rows: vec![
                vec!["π*".into(), "1.66".into()],
                vec!["对齐".into(), "12.00".into()],
            ],
        };
        let text = grid(&table, 80).to_string();
        let widths: Vec<usize> = text.lines().map(textwrap::core::display_width).collect();
        assert!(widths.iter().all(|w| *w == widths[0]), "{text}");
    }

    #[test]
    fn a_sparkline_spans_low_to_high() {
        let points: Vec<(f64, f64)> = (0..100).map(|i| (f64::from(i), f64::from(i))).collect();
        let line = sparkline(&points, 0.0, 99.0, 10);
        assert_eq!(line.chars().count(), 10);
        assert!(line.starts_with('▁') && line.ends_with('█'));
        assert_eq!(sparkline(&points[..1], 0.0, 0.0, 10), "▁");
    }

    #[test]
    fn three_significant_digits() {
        assert_eq!(significant(0.000_123_4), "0.000123");
        assert_eq!(significant(1.6602), "1.66");
        assert_eq!(significant(16_384.0), "16384");
        assert_eq!(significant(0.0), "0");
    }
}
