//! A document as text: wrapped paragraphs, aligned tables, curves in one line each.
//!
//! The text carries ANSI styles; the stream it is written to removes them where they are not wanted.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table as Grid, TableStyle, Width,
};

use textwrap::core::display_width;

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
                for grid in grids(table, width) {
                    let _ = writeln!(text, "{grid}\n");
                }
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

/// `table` in as many parts as its width asks for, each with the first column: a number is never
/// broken over two lines, a header only between words.
fn grids(table: &Table, width: usize) -> Vec<Grid> {
    let column = |i: usize| table.rows.iter().map(move |row| display_width(&row[i]));
    let widest_word = |text: &str| text.split(' ').map(display_width).max().unwrap_or(0);
    let whole: Vec<usize> = (0..table.header.len())
        .map(|i| column(i).chain([display_width(&table.header[i])]).max().unwrap_or(0))
        .collect();
    let narrow: Vec<usize> = (0..table.header.len())
        .map(|i| column(i).chain([widest_word(&table.header[i])]).max().unwrap_or(0))
        .collect();
    let total = |widths: &[usize]| widths.iter().map(|w| w + 2).sum::<usize>() - 1; // no separator at the end
    let widths = if total(&whole) <= width { whole } else { narrow };

    let mut parts: Vec<Vec<usize>> = vec![vec![0]];
    let mut used = widths[0] + 2;
    for (i, w) in widths.iter().enumerate().skip(1) {
        let last = parts.len() - 1;
        if used + w + 1 > width && parts[last].len() > 1 {
            parts.push(vec![0, i]);
            used = widths[0] + w + 4;
        } else {
            parts[last].push(i);
            used += w + 2;
        }
    }
    parts.iter().map(|columns| grid(table, columns, &widths)).collect()
}

fn grid(table: &Table, columns: &[usize], widths: &[usize]) -> Grid {
    let pick = |row: &[String]| columns.iter().map(|&i| row[i].clone()).collect::<Vec<_>>();
    let mut grid = Grid::new();
    grid.load_style(RULED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::MAX)
        .set_header(pick(&table.header))
        .add_rows(table.rows.iter().map(|row| pick(row)));
    for (column, &i) in grid.column_iter_mut().zip(columns) {
        column.set_padding((1, 0)); // the separator is the space to its right
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(widths[i] as u16 + 1)));
        if i > 0 {
            column.set_cell_alignment(CellAlignment::Right);
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
    let label_width = lines.iter().map(|line| display_width(&line.label)).max().unwrap_or(0);
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
        let pad = " ".repeat(label_width - display_width(&line.label));
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

    fn table() -> Table {
        let row = |cells: [&str; 4]| cells.map(String::from).to_vec();
        Table {
            header: row(["policy", "KL(π ‖ π_ref)", "positive, concise", "off topic"]),
            rows: vec![row(["π*", "1.66", "0.8147", "0.1000"]), row(["对齐", "12.00", "-2.0", "0.0001"])],
        }
    }

    #[test]
    fn columns_align_by_display_width() {
        let text = grids(&table(), 80)[0].to_string();
        let widths: Vec<usize> = text.lines().map(display_width).collect();
        assert!(widths.iter().all(|w| *w == widths[0]), "{text}");
    }

    #[test]
    fn a_number_is_never_broken_and_a_narrow_table_comes_in_parts() {
        for width in [20, 25, 30, 40, 60, 80] {
            let text: String = grids(&table(), width).iter().map(|grid| format!("{grid}\n")).collect();
            assert!(text.lines().all(|line| display_width(line) <= width), "{width}:\n{text}");
            for cell in ["1.66", "12.00", "0.8147", "-2.0", "0.1000", "0.0001"] {
                assert_eq!(text.matches(cell).count(), 1, "{cell} at width {width}:\n{text}");
            }
        }
        assert_eq!(grids(&table(), 80).len(), 1);
        assert!(grids(&table(), 25).len() > 1);
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
