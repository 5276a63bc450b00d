//! Responses in the order of a labeller's preference.

use crate::foundation::preference_pair::PreferencePair;

/// All responses to one prompt that were compared, in tokens, the best first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranking {
    /// What was read.
    pub prompt: Vec<u32>,
    /// The responses, each with its end token if it stopped.
    pub responses: Vec<Vec<u32>>,
}

impl Ranking {
    /// Every (winner, loser) as indices into the responses, up to C(K, 2) of them: a response that was
    /// sampled twice is not preferred to itself.
    pub fn comparisons(&self) -> impl Iterator<Item = (usize, usize)> {
        let k = self.responses.len();
        let all = (0..k).flat_map(move |winner| (winner + 1..k).map(move |loser| (winner, loser)));
        all.filter(|&(winner, loser)| self.responses[winner] != self.responses[loser])
    }

    /// The comparisons as pairs of texts.
    pub fn pairs(&self) -> impl Iterator<Item = PreferencePair> {
        self.comparisons().map(|(winner, loser)| PreferencePair {
            prompt: self.prompt.clone(),
            chosen: self.responses[winner].clone(),
            rejected: self.responses[loser].clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_different_responses_is_compared_once() {
        let ranking = Ranking { prompt: vec![1], responses: vec![vec![5], vec![4, 2], vec![5], vec![6]] };
        let comparisons: Vec<_> = ranking.comparisons().collect();
        assert_eq!(comparisons, [(0, 1), (0, 3), (1, 2), (1, 3), (2, 3)]); // Not (0, 2).
        let second = ranking.pairs().nth(1).unwrap();
        assert_eq!((second.prompt, second.chosen, second.rejected), (vec![1], vec![5], vec![6]));
    }
}
