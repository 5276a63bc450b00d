//! What reward models and preference optimisation learn from.

/// Two responses to one prompt, in tokens, of which a labeller preferred one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PreferencePair {
    /// What was read.
    pub prompt: Vec<u32>,
    /// The preferred response, its end token included if it stopped.
    pub chosen: Vec<u32>,
    /// The other one, likewise; never equal to `chosen`.
    pub rejected: Vec<u32>,
}
