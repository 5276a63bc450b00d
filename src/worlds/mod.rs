//! The tasks: what can be answered, what an answer is worth, and who says so. Knows no training
//! algorithm.

pub mod best_of_n;
pub mod categorical;
pub mod digit_sum;
pub mod farm;
