//! scaffold
pub mod foundation;
pub mod model;
