//! Presentation: the only layer that writes to stdout or to files of a report.
//!
//! [`pages`] turns a demo's results into a [`document`], with the sentences of [`findings`]; the
//! renderers know documents and no demo. [`json`] bypasses documents: it serialises the results themselves.

pub mod comparison;
pub mod csv;
pub mod document;
pub mod emit;
pub mod findings;
pub mod format;
pub mod html;
pub mod json;
pub mod numbers;
pub mod pages;
pub mod progress;
pub mod svg;
pub mod sweep;
pub mod terminal;
