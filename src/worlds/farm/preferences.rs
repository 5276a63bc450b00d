//! People who compare responses: what a reward model learns from.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::evaluation::{reward, sampled, verdicts};
use super::language::{DESCRIBE, Prompt};
use crate::foundation::ranking::Ranking;
use crate::foundation::rng::Rng;
use crate::foundation::stats::{mean, sigmoid};
use crate::model::gpt::Gpt;
use crate::policy::sampling::sample;

/// How preferences are collected: a policy answers each prompt several times, and a labeller ranks the
/// responses by r* with noise.
///
/// With Gumbel noise of scale s the ranking follows Plackett and Luce, and each of its pairs Bradley and
/// Terry: P(a before b) = σ((r*(a) − r*(b))/s). A reward model that fits the pairs perfectly is r*/s, up
/// to a constant per prompt.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Labelling {
    /// Prompts, each a uniform trained template and subject.
    pub prompts: u64,
    /// Responses per prompt, K.
    pub responses: u64,
    /// Scale s of the labeller's Gumbel noise.
    pub noise: f64,
}

impl Default for Labelling {
    fn default() -> Self {
        Self { prompts: 400, responses: 4, noise: 0.5 }
    }
}

/// What a labeller said.
#[derive(Clone, Debug, Default)]
pub struct Preferences {
    /// One ranking per prompt.
    pub rankings: Vec<Ranking>,
    /// Pairs of different responses in all rankings.
    pub pairs: u64,
    /// Pairs of equal responses, which carry no preference.
    pub dropped: u64,
    /// Share of the pairs that r* itself is expected to order as the labeller did, the most that any
    /// scores can reach; none if there are no pairs.
    pub ceiling: Option<f64>,
}

impl Labelling {
    /// Lets `policy` answer at temperature 1, and has the responses ranked. Prompts, responses and
    /// labels have a stream each.
    ///
    /// # Errors
    /// If a prompt does not fit the model.
    pub fn collect(&self, policy: &Gpt, rng: &Rng) -> Result<Preferences> {
        let mut stream = rng.fork("prompts");
        let prompts: Vec<Prompt> =
            (0..self.prompts).map(|_| Prompt::sample(&DESCRIBE, &mut stream)).collect();
        let k = self.responses as usize;
        let texts: Vec<Vec<u32>> = prompts.iter().map(Prompt::tokens).collect();
        let rollouts = sample(&policy.no_grad(), &texts, k, &sampled(), &rng.fork("responses"))?;
        let mut labels = rng.fork("labels");
        let (mut preferences, mut certainty) = (Preferences::default(), Vec::new());
        for ((prompt, text), rollouts) in prompts.iter().zip(texts).zip(rollouts.chunks(k.max(1))) {
            let verdicts = verdicts(&vec![*prompt; rollouts.len()], rollouts);
            let rewards: Vec<f64> = verdicts.iter().map(reward).collect();
            let order = rank(&rewards, self.noise, &mut labels);
            let gap = |i: usize, j: usize| (rewards[order[i]] - rewards[order[j]]).abs();
            let responses = order.iter().map(|&i| rollouts[i].tokens.clone()).collect();
            let ranking = Ranking { prompt: text, responses };
            let before = certainty.len();
            certainty.extend(ranking.comparisons().map(|(i, j)| match gap(i, j) {
                0.0 => 0.5, // Also without noise, where the quotient would be 0/0.
                gap => sigmoid(gap / self.noise),
            }));
            preferences.dropped += (k * (k - 1) / 2 + before - certainty.len()) as u64;
            preferences.rankings.push(ranking);
        }
        preferences.pairs = certainty.len() as u64;
        preferences.ceiling = mean(&certainty);
        Ok(preferences)
    }
}

/// Indices by utility r* + s · Gumbel, the best first.
fn rank(rewards: &[f64], noise: f64, rng: &mut Rng) -> Vec<usize> {
    let utilities: Vec<f64> = rewards.iter().map(|reward| reward + noise * gumbel(rng)).collect();
    let mut order: Vec<usize> = (0..rewards.len()).collect();
    order.sort_by(|&a, &b| utilities[b].total_cmp(&utilities[a]));
    order
}

/// A draw from the standard Gumbel distribution, always finite.
fn gumbel(rng: &mut Rng) -> f64 {
    -(-rng.uniform().max(f64::MIN_POSITIVE).ln()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::config::Config;
    use crate::worlds::farm::language::{N_POSITIONS, vocab};

    /// Each pair of a ranking is a Bradley-Terry choice at scale s, whatever else was ranked with it.
    #[test]
    fn rankings_follow_bradley_and_terry() {
        let (rewards, noise, n) = ([1.0, 0.5, -1.0], 0.5, 20_000);
        let mut rng = Rng::new(5);
        let mut before = [[0.0; 3]; 3];
        for _ in 0..n {
            let ranking = rank(&rewards, noise, &mut rng);
            for (i, &a) in ranking.iter().enumerate() {
                ranking[i + 1..].iter().for_each(|&b| before[a][b] += 1.0 / f64::from(n));
            }
        }
        for (a, b) in [(0, 1), (0, 2), (1, 2)] {
            let want = sigmoid((rewards[a] - rewards[b]) / noise);
            assert!((before[a][b] - want).abs() < 0.014, "{a} before {b}: {} is not {want}", before[a][b]);
        }
    }

    /// An untrained model of few words says the same often enough.
    #[test]
    fn equal_responses_are_dropped_and_counted() {
        let mut config = Config::mini(vocab().len(), N_POSITIONS);
        config.initializer_range = 4.0; // Sharp enough to repeat itself.
        let model = Gpt::new(config, &Rng::new(1)).unwrap();
        let labelling = Labelling { prompts: 30, responses: 4, noise: 0.5 };
        let preferences = labelling.collect(&model, &Rng::new(2)).unwrap();
        let pairs = || preferences.rankings.iter().flat_map(Ranking::pairs);
        assert_eq!(preferences.pairs + preferences.dropped, 30 * 6);
        assert_eq!(preferences.pairs, pairs().count() as u64);
        assert!(preferences.dropped > 0 && pairs().all(|pair| pair.chosen != pair.rejected));
        let again = labelling.collect(&model, &Rng::new(2)).unwrap();
        assert_eq!(again.rankings, preferences.rankings);
    }
}
