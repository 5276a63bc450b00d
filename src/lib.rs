//! scaffold
pub mod foundation;
pub mod model;
pub mod policy;
