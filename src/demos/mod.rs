//! The demos, one file per subcommand: a `Config` (what was asked for, with every default), the
//! `Results` (what was measured, a serde struct) and the run that leads from one to the other.
//! Nothing here prints.

pub mod args;
pub mod base_model;
pub mod demo;
pub mod overopt;
pub mod toy_rlhf;
