//! The farm: a chat assistant that says things about animals, and people who like some of it better.
//!
//! Asked to describe an animal, the assistant writes one sentence: `the dogs are kind and bark in the
//! yard .` A sentence that says something false or breaks the grammar is worthless; of the others,
//! people like kind words, dislike unkind ones, and want no lists. What they like is known here
//! exactly, the true reward r*; a reward model has only their noisy choices to learn it from.

pub mod data;
pub mod evaluation;
pub mod language;
pub mod preferences;
pub mod response;
