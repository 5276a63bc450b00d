//! Digit sums modulo 10: a task on which thinking pays and is optional.
//!
//! The model reads up to eight digits and answers with their sum modulo 10. It opens its response
//! with a format of its own choice: the answer at once, a running sum after every second digit, or one
//! after every digit. More thinking makes each step easier and costs tokens; a rule checks the answer,
//! and another every step.

pub mod data;
pub mod evaluation;
pub mod problem;
pub mod response;
pub mod voting;
