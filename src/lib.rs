//! scaffold
pub mod algorithms;
pub mod foundation;
pub mod policy;
pub mod worlds;
