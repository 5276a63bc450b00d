//! Policies and what can be known about them exactly: log-probabilities, their gradients, and the
//! optimum of the KL-constrained objective. Knows neither tasks nor training algorithms.

pub mod optimal;
pub mod tabular;
