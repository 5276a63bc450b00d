//! Preference data over numbered answers, stored as counts.
//!
//! K answers allow only K (K − 1) ordered (winner, loser) kinds, and a loss over preference pairs is
//! a sum over kinds. Counting them once makes a full-batch gradient cost O(kinds), however many pairs
//! were labelled.

use std::collections::BTreeMap;

/// All pairs with the same winner and loser.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairKind {
    /// Index of the preferred answer.
    pub winner: usize,
    /// Index of the other.
    pub loser: usize,
    /// The share of all pairs that are of this kind; the weights of a data set sum to 1.
    pub weight: f64,
}

/// How often each (winner, loser) kind was labelled.
#[derive(Clone, Debug, Default)]
pub struct PreferenceCounts {
    kinds: BTreeMap<(usize, usize), u64>, // ordered, so that sums over kinds have a fixed order
    kept: u64,
    dropped: u64,
}

impl PreferenceCounts {
    /// Adds one labelled pair.
    pub fn add(&mut self, winner: usize, loser: usize) {
        *self.kinds.entry((winner, loser)).or_default() += 1;
        self.kept += 1;
    }

    /// Notes one pair in which nothing is preferred: the same answer twice, or a tie without noise.
    pub fn drop_pair(&mut self) {
        self.dropped += 1;
    }

    /// Pairs that carry a preference.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// Pairs that carry none.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The kinds in order of (winner, loser), weighted by their share.
    pub fn kinds(&self) -> Vec<PairKind> {
        self.kinds
            .iter()
            .map(|(&(winner, loser), &count)| PairKind {
                winner,
                loser,
                weight: count as f64 / self.kept as f64,
            })
            .collect()
    }
}
