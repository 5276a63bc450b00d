//! The few kernels a GPT needs, each with its backward pass beside its forward pass.
//!
//! Plain functions on row-major slices, generic over `f32` and `f64` so that finite differences can
//! check them; none knows of Candle, of parameters or of threads. Two rules make results repeat:
//! what is computed for a row never depends on which rows stand beside it, and every sum has a
//! written order. So a token's log-probability has the same bits in a batch, alone, or decoded from
//! a cache.
//!
//! Letters: N rows (tokens), C width, H heads, D = C/H, V vocabulary, F = 4C.

pub mod attention;
pub mod embedding;
pub mod gelu;
pub mod layer_norm;
pub mod linear;
pub mod matmul;
pub mod real;
pub mod token_logprob;
