//! Algorithms on a policy that is a table: one logit per answer, in f64, with closed-form gradients.
//! The demos that have the exact optimum of everything are made of these.

pub mod bradley_terry;
pub mod dpo;
pub mod dpo_limit;
pub mod ipo;
pub mod preference_fit;
pub mod reinforce;
