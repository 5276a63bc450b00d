//! The demos, one file per subcommand: a `Config` (what was asked for, with every default), the
//! `Results` (what was measured, a serde struct) and the run that leads from one to the other.
//! Nothing here prints.

pub mod args;
pub mod base_model;
pub mod demo;
pub mod farm;
pub mod farm_rm;
pub mod farm_sft;
pub mod overopt;
pub mod pretrain;
pub mod reason_base;
pub mod reason_grpo;
pub mod reasoning;
pub mod star;
pub mod star_base;
pub mod test_time;
pub mod toy_rlhf;
