//! scaffold
pub mod foundation;
