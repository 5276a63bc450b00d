//! What every page is.

use crate::demos::demo::Demo;
use crate::report::document::Document;
use crate::report::json::Figure;

/// A demo that can be shown.
pub trait Page: Demo {
    /// The document of one run.
    fn page(&self, results: &Self::Results) -> Document;

    /// The few figures that sum a run up: what is tabulated over many seeds, and when runs are compared.
    /// A figure that this run does not have is left out.
    fn headline(&self, results: &Self::Results) -> Vec<Figure>;
}
