//! One file per demo: its results as a document. Figures become tables and plots here, and
//! sentences: each observation is computed from the results at hand and says the opposite when they
//! show the opposite. [`sweep`] shows many seeds of any demo, [`compare`] runs side by side.

pub mod compare;
pub mod overopt;
pub mod page;
pub mod pretrain;
pub mod reason_grpo;
pub mod star;
pub mod sweep;
pub mod test_time;
pub mod toy_rlhf;
