//! The model as a policy: how probable a response is, and responses drawn from it.

pub mod logprob;
pub mod sampling;
