//! What supervised training learns from.

/// A prompt and a response worth imitating, in tokens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Demonstration {
    /// What is read; never a target of the loss.
    pub prompt: Vec<u32>,
    /// What is to be written, the end token included.
    pub response: Vec<u32>,
}
