//! Post-training algorithms, one file per paper. A loss is a pure function of log-probabilities that
//! never sees a model or a task; the loop that trains with it stands beside it.

pub mod divergence;
pub mod dpo;
pub mod estimators;
pub mod grpo;
pub mod policy_gradient;
pub mod ppo;
pub mod preference;
pub mod reinforce;
pub mod reward_model;
pub mod supervised;
pub mod tabular;
