//! A document as text: wrapped paragraphs, aligned tables, curves in one line each.
//!
//! The text carries ANSI styles; the stream it is written to removes them where they are not wanted.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table as Grid, TableStyle,
};

use crate::report::document::{Block, Document, Line, Marks, Plot, Section, Table};
use crate::report::format::plain;

const TITLE: Style = Style::new().bold();
const HEADING: Style = AnsiColor::Cyan.on_default().bold();
/// Rules above, below and under the header, as in a printed table.
const RULED: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));
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
    let _ = writeln!(text, "\n{HEADING}{}{HEADING:#}\n", wrap(&heading, width, "", "   "));
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
    textwrap::fill(text, textwrap::Options::new(width.max(20)).initial_indent(first).subsequent_indent(rest))
}

fn grid(table: &Table, width: usize) -> Grid {
    let mut grid = Grid::new();
    grid.load_style(RULED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width.min(usize::from(u16::MAX)) as u16)
        .set_header(&table.header)
        .add_rows(&table.rows);
    for (i, column) in grid.column_iter_mut().enumerate() {
        if i > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        } else if width >= 60 {
            column.set_constraint(ColumnConstraint::ContentWidth); // a row's name stays in one line
        }
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
        wrap(&format!("{} ({} over {})", plot.title, plot.y.label, plot.x.label), width, "", "  ")
    );
    let label_width = lines.iter().map(|line| textwrap::core::display_width(&line.label)).max().unwrap_or(0);
    let scale = |y: f64| if plot.y.log { y.log10() } else { y };
    let (low, high) = range(lines, scale);
    for line in lines {
        let (Some(first), Some(last)) = (line.points.first(), line.points.last()) else {
            continue;
        };
        if line.dashed && first.1 == last.1 {
            let _ = writeln!(text, "  {}  {} throughout", line.label, significant(first.1));
            continue;
        }
        let heights: Vec<f64> = line.points.iter().map(|point| scale(point.1)).collect();
        let pad = " ".repeat(label_width - textwrap::core::display_width(&line.label));
        let _ = writeln!(
            text,
            "  {}{pad}  {}  {} … {}",
            line.label,
            sparkline(&heights, low, high, 30),
            significant(first.1),
            significant(last.1),
        );
    }
    text.push('\n');
}

/// The lowest and highest finite value of `scale(y)`.
fn range(lines: &[Line], scale: impl Fn(f64) -> f64) -> (f64, f64) {
    lines
        .iter()
        .flat_map(|line| &line.points)
        .map(|point| scale(point.1))
        .filter(|y| y.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), y| (low.min(y), high.max(y)))
}

/// `heights` as block characters between `low` and `high`, at most `width` of them, ends included.
fn sparkline(heights: &[f64], low: f64, high: f64, width: usize) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = heights.len().min(width);
    (0..shown)
        .map(|i| {
            let y = heights[i * (heights.len() - 1) / (shown - 1).max(1)];
            let level = if high > low { (y - low) / (high - low) } else { 0.0 };
            LEVELS[(level * 7.0).round().clamp(0.0, 7.0) as usize]
        })
        .collect()
}

/// About three significant digits.
fn significant(x: f64) -> String {
    if x.abs() < 1e-6 || !x.is_finite() {
        return if x.is_finite() { "0".to_string() } else { plain(x) };
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
            rows: vec![vec!["π*".into(), "1.66".into()], vec!["对齐".into(), "12.00".into()]],
        };
        let text = grid(&table, 80).to_string();
        let widths: Vec<usize> = text.lines().map(textwrap::core::display_width).collect();
        assert!(widths.iter().all(|w| *w == widths[0]), "{text}");
    }

    #[test]
    fn a_sparkline_spans_low_to_high() {
        let heights: Vec<f64> = (0..100).map(f64::from).collect();
        let line = sparkline(&heights, 0.0, 99.0, 10);
        assert_eq!(line.chars().count(), 10);
        assert!(line.starts_with('▁') && line.ends_with('█'));
        assert_eq!(sparkline(&heights[..1], 0.0, 0.0, 10), "▁");
    }

    #[test]
    fn three_significant_digits() {
        assert_eq!(significant(0.000_123_4), "0.000123");
        assert_eq!(significant(1.6602), "1.66");
        assert_eq!(significant(16_384.0), "16384");
        assert_eq!(significant(0.0), "0");
    }
}
