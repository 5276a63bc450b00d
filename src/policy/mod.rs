//! Policies, what they say and what can be known about them exactly: responses drawn from a language
//! model and their log-probabilities; the optimum of the KL-constrained objective. Knows neither tasks
//! nor training algorithms.

pub mod logprob;
pub mod optimal;
pub mod sampling;
pub mod support;
pub mod tabular;
