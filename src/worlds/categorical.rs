//! The smallest world: one prompt and K possible answers, each with a true reward and a reference
//! probability. Everything in it can be computed exactly.

use rand::distr::Distribution;
use rand::distr::weighted::WeightedIndex;

use crate::foundation::preferences::PreferenceCounts;
use crate::foundation::rng::Rng;
use crate::foundation::stats::{probabilities, sigmoid};

/// What the six answers of [`CategoricalWorld::six_answers`] are like.
pub const SIX_ANSWERS: [&str; 6] =
    ["positive, concise", "positive, wordy", "neutral", "praise and blame", "negative", "off topic"];

/// One prompt, K answers.
#[derive(Clone, Debug)]
pub struct CategoricalWorld {
    /// True reward r*(y), shape (K).
    pub reward: Vec<f64>,
    /// log π_ref(y), shape (K).
    pub log_ref: Vec<f64>,
}

/// Who labels a pair of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labeller {
    /// Prefers a over b with probability σ(r*(a) − r*(b)) (Bradley and Terry 1952).
    BradleyTerry,
    /// Always prefers the answer of higher true reward.
    Noiseless,
}

impl CategoricalWorld {
    /// Six kinds of answers to one prompt, named by [`SIX_ANSWERS`].
    pub fn six_answers() -> Self {
        Self {
            reward: vec![3.0, 2.0, 0.0, 0.5, -2.0, -1.0],
            log_ref: [0.10_f64, 0.15, 0.30, 0.25, 0.15, 0.05].map(f64::ln).to_vec(),
        }
    }

    /// `answers` answers with rewards N(0, 1) and a long-tailed reference, Dirichlet(`concentration`):
    /// a few answers are common and most are rare, as in language.
    pub fn long_tailed(answers: usize, concentration: f64, rng: &Rng) -> Self {
        let mut rewards = rng.fork("reward");
        Self {
            reward: (0..answers).map(|_| rewards.normal()).collect(),
            log_ref: rng.fork("reference").log_dirichlet(concentration, answers),
        }
    }

    /// π_ref(y), shape (K).
    pub fn reference(&self) -> Vec<f64> {
        probabilities(&self.log_ref)
    }

    /// A source of labelled pairs, both answers drawn from the reference.
    pub fn pair_sampler(&self, labeller: Labeller, rng: Rng) -> PairSampler<'_> {
        PairSampler {
            reward: &self.reward,
            answers: WeightedIndex::new(self.reference())
                .expect("a distribution has non-negative weights and a positive sum"),
            labeller,
            rng,
        }
    }
}

/// Draws labelled pairs one after another, so that a larger data set extends a smaller one.
pub struct PairSampler<'a> {
    reward: &'a [f64],
    answers: WeightedIndex<f64>,
    labeller: Labeller,
    rng: Rng,
}

impl PairSampler<'_> {
    /// Adds `pairs` fresh pairs to `counts`. Pairs that carry no preference (one answer twice, or a
    /// noiseless tie) are dropped and counted as such.
    pub fn sample_into(&mut self, counts: &mut PreferenceCounts, pairs: u64) {
        for _ in 0..pairs {
            let a = self.answers.sample(&mut self.rng);
            let b = self.answers.sample(&mut self.rng);
            let advantage = self.reward[a] - self.reward[b];
            let tie = a == b || (self.labeller == Labeller::Noiseless && advantage == 0.0);
            if tie {
                counts.drop_pair();
                continue;
            }
            let first = match self.labeller {
                Labeller::BradleyTerry => self.rng.uniform() < sigmoid(advantage),
                Labeller::Noiseless => advantage > 0.0,
            };
            let (winner, loser) = if first { (a, b) } else { (b, a) };
            counts.add(winner, loser);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(world: &CategoricalWorld, labeller: Labeller, pairs: u64) -> PreferenceCounts {
        let mut counts = PreferenceCounts::default();
        world.pair_sampler(labeller, Rng::new(0).fork("pairs")).sample_into(&mut counts, pairs);
        counts
    }

    #[test]
    fn kinds_have_the_frequencies_of_the_bradley_terry_model() {
        let world = CategoricalWorld::six_answers();
        let (pi, n) = (world.reference(), 200_000);
        let counts = count(&world, Labeller::BradleyTerry, n);
        assert_eq!(counts.kept() + counts.dropped(), n);
        let same: f64 = pi.iter().map(|p| p * p).sum();
        let mut chi2 = 0.0;
        let kinds = counts.kinds();
        assert_eq!(kinds.len(), 30);
        for kind in kinds {
            let (w, l) = (kind.winner, kind.loser);
            let share = 2.0 * pi[w] * pi[l] * sigmoid(world.reward[w] - world.reward[l]) / (1.0 - same);
            let expected = share * counts.kept() as f64;
            chi2 += (kind.weight * counts.kept() as f64 - expected).powi(2) / expected;
        }
        assert!(chi2 < 58.3, "chi-square {chi2} with 29 degrees of freedom"); // p = .001
    }

    #[test]
    fn a_noiseless_labeller_never_prefers_the_worse_and_drops_ties() {
        let world = CategoricalWorld { reward: vec![1.0, 1.0, 0.0], log_ref: vec![(1.0_f64 / 3.0).ln(); 3] };
        let counts = count(&world, Labeller::Noiseless, 9000);
        assert!(counts.kinds().iter().all(|k| k.loser == 2));
        // Five of nine ordered pairs carry no preference.
        assert!((counts.dropped() as f64 / 9000.0 - 5.0 / 9.0).abs() < 0.03);
    }

    #[test]
    fn a_larger_data_set_extends_a_smaller_one() {
        let world = CategoricalWorld::six_answers();
        let mut sampler = world.pair_sampler(Labeller::BradleyTerry, Rng::new(0).fork("pairs"));
        let mut counts = PreferenceCounts::default();
        sampler.sample_into(&mut counts, 40);
        sampler.sample_into(&mut counts, 60);
        assert_eq!(counts.kinds(), count(&world, Labeller::BradleyTerry, 100).kinds());
    }
}
