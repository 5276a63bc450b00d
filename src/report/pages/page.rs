//! What every page is.

use crate::demos::demo::Demo;
use crate::report::document::Document;

/// A demo that can be shown.
pub trait Page: Demo {
    /// The document of one run.
    fn page(&self, results: &Self::Results) -> Document;
}
