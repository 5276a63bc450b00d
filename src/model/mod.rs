//! The language model: GPT-2 to the letter, its kernels, its optimiser and its files.

pub mod batch;
pub mod checkpoint;
pub mod composed;
pub mod config;
pub mod decoder;
pub mod fused;
pub mod gpt;
mod hugging_face;
mod network;
pub mod optim;
mod parallel;
