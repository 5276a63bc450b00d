//! scaffold
pub mod algorithms;
pub mod demos;
pub mod foundation;
pub mod policy;
pub mod worlds;
