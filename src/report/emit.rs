//! Delivers a finished run: text or JSON on stdout, and the files of `--out`.

use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

use crate::report::document::{Block, Curve, Document};
use crate::report::html::{self, Provenance};
use crate::report::{csv, svg, terminal};

/// The file of a run's JSON.
pub const REPORT: &str = "report.json";
/// The file of a run's curves.
pub const CURVES: &str = "curves.csv";

/// Width of text that goes to a file or a pipe.
const PLAIN_WIDTH: usize = 100;

/// Writes `text` to stdout, without styles where stdout is no terminal or `NO_COLOR` is set. A
/// reader that has gone away (`| head`) is not an error.
pub fn to_stdout(text: &str) -> Result<()> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// Writes `text` to stderr, with styles where wanted. There is nobody to tell if that fails.
pub fn to_stderr(text: &str) {
    let _ = anstream::stderr().write_all(text.as_bytes());
}

/// `document` as text, as wide as the terminal but no wider than reads well.
pub fn as_text(document: &Document) -> String {
    let columns = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    let width = columns.filter(|_| std::io::stdout().is_terminal()).unwrap_or(PLAIN_WIDTH);
    terminal::render(document, width.clamp(20, PLAIN_WIDTH))
}

/// The directory of `--out`.
#[derive(Clone, Debug)]
pub struct OutDir(PathBuf);

impl OutDir {
    /// Makes the directory and checks that it can be written to: before the run, so that an hour of
    /// work is not lost to a typing error.
    pub fn prepare(path: &Path) -> Result<Self> {
        let problem =
            || format!("cannot write reports to {}: choose another directory for --out", path.display());
        std::fs::create_dir_all(path).with_context(problem)?;
        temporary(path).with_context(problem)?;
        Ok(Self(path.to_path_buf()))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A directory in it, not made yet.
    pub fn below(&self, path: &Path) -> Self {
        Self(self.0.join(path))
    }

    /// Writes `curves.csv` and `report.json`. The report comes last: where there is one, the run is whole.
    pub fn write_run(&self, curves: &[Curve], json: &str) -> Result<()> {
        self.write_file(CURVES, &csv::render(curves)?)?;
        self.write_file(REPORT, json.as_bytes())
    }

    /// Writes `report.json`, `curves.csv`, a `.svg` per plot and `report.html`.
    pub fn write(&self, document: &Document, json: &str, provenance: &Provenance) -> Result<()> {
        self.write_run(&document.curves, json)?;
        let blocks = document.sections.iter().flat_map(|section| &section.blocks);
        for plot in blocks.filter_map(|block| if let Block::Plot(plot) = block { Some(plot) } else { None }) {
            self.write_file(&format!("{}.svg", plot.id), svg::render(plot).as_bytes())?;
        }
        self.write_file("report.html", html::render(document, provenance).as_bytes())
    }

    /// All or nothing: a reader never sees half a file.
    fn write_file(&self, name: &str, content: &[u8]) -> Result<()> {
        let path = self.0.join(name);
        let write = || -> Result<()> {
            let mut file = temporary(&self.0)?;
            file.write_all(content)?;
            file.persist(&path).map_err(|failure| failure.error)?;
            Ok(())
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }
}

/// A temporary file in `dir`, with the permissions of any other new file (by default temporary files
/// are private to their owner).
fn temporary(dir: &Path) -> std::io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666)); // less the umask
    builder.tempfile_in(dir)
}
