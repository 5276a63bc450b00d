//! What a run shows, in sentences. Every sentence is computed from the results at hand: each has a
//! wording for each way the figures can turn out, and none where they say nothing.

pub mod overopt;
pub mod pretrain;
pub mod reason_grpo;
pub mod star;
pub mod test_time;
pub mod toy_rlhf;
