//! A document as one self-contained page: no script, no request to anywhere.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::report::document::{Block, Document, Section, Table};
use crate::report::svg;

/// What the page says about its own making.
pub struct Provenance {
    /// The command line that reproduces the results.
    pub command: String,
    /// Version of this program.
    pub version: &'static str,
}

const STYLE: &str = "
:root { color-scheme: light dark; --text: #1b1b1f; --muted: #5c5f66; --page: #fdfdfc; --rule: #d9dbe0; --note: #eef4fa; --accent: #0072b2 }
@media (prefers-color-scheme: dark) { :root { --text: #e8e8ea; --muted: #a3a7b0; --page: #17181c; --rule: #3a3d45; --note: #1d2733; --accent: #56b4e9 } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 56rem; padding: 2rem 1.25rem 4rem; background: var(--page); color: var(--text); font: 1.0625rem/1.6 Inter, 'Segoe UI', Helvetica, Arial, sans-serif }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .5rem } h2 { font-size: 1.35rem; margin: 3rem 0 .5rem; padding-top: 1rem; border-top: 1px solid var(--rule) }
pre { background: var(--note); padding: .75rem 1rem; border-radius: .4rem; overflow-x: auto; font-size: .95rem }
.table { overflow-x: auto; margin: 1.25rem 0 } table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .95rem }
th, td { padding: .3rem .8rem; text-align: right; border-bottom: 1px solid var(--rule); white-space: nowrap } th { color: var(--muted); font-weight: 600; vertical-align: bottom; white-space: normal; min-width: 4rem }
th:first-child, td:first-child { text-align: left; padding-left: 0 }
figure { margin: 1.5rem 0; overflow-x: auto; padding: .5rem; background: #fff; border: 1px solid var(--rule); border-radius: .4rem } figure svg { display: block; width: 100%; height: auto; min-width: 36rem }
ul.observations { list-style: none; margin: 1rem 0; padding: .75rem 1rem; background: var(--note); border-left: .25rem solid var(--accent) } ul.observations li + li { margin-top: .5rem }
footer { margin-top: 3rem; color: var(--muted); font-size: .9rem }
";

/// `document` as an HTML page.
pub fn render(document: &Document, provenance: &Provenance) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (document.title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (document.title) }
                    p { (document.summary) }
                    pre { code { (provenance.command) } }
                }
                main {
                    @for (i, section) in document.sections.iter().enumerate() {
                        (render_section(i + 1, section))
                    }
                }
                footer {
                    p { "Made by rlhf-lab " (provenance.version) ". The command above gives the same figures again." }
                }
            }
        }
    }
    .into_string()
}

fn render_section(number: usize, section: &Section) -> Markup {
    html! {
        section {
            h2 { (number) ". " (section.title) }
            p { (section.text) }
            @for block in &section.blocks {
                @match block {
                    Block::Table(table) => (render_table(table)),
                    Block::Plot(plot) => figure { (PreEscaped(svg::render(plot))) },
                }
            }
            @if !section.observations.is_empty() {
                ul class="observations" {
                    @for observation in &section.observations { li { (observation) } }
                }
            }
        }
    }
}

fn render_table(table: &Table) -> Markup {
    html! {
        div class="table" {
            table {
                thead { tr { @for cell in &table.header { th scope="col" { (cell) } } } }
                tbody { @for row in &table.rows { tr { @for cell in row { td { (cell) } } } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_nothing_is_fetched() {
        let document = Document { title: "a <b> & c".into(), ..Document::default() };
        let provenance = Provenance { command: "rlhf-lab demo --x '<'".into(), version: "0" };
        let page = render(&document, &provenance);
        assert!(page.contains("a &lt;b&gt; &amp; c") && page.contains("'&lt;'"));
        for forbidden in ["<script", "http://", "https://", "@import", "url("] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
    }
}
