//! scaffold
pub mod algorithms;
pub mod cli;
pub mod demos;
pub mod foundation;
pub mod policy;
pub mod report;
pub mod worlds;
