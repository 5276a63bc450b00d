//! Best-of-n sampling, exactly: draw n answers from the reference, keep the one of highest score.
//!
//! # Ties
//!
//! Answers of equal score form a *class*. Among n draws the highest class is decided by the scores
//! alone; which of its draws is kept (the first, a random one) does not depend on their identity, and
//! each draw, given its class, is distributed as the reference within that class. So
//!
//! ```text
//! P(class c) = F_c^n − F_{c−1}^n,      π_n(y) = P(class of y) · π_ref(y) / π_ref(class of y)
//! ```
//!
//! with F_c the reference mass of classes up to c. Breaking ties by index instead, as sorting does,
//! would favour whichever answer happens to be numbered last.

use crate::foundation::stats::probabilities;

/// Answers ranked by a score, ready to give π_n for any n.
#[derive(Clone, Debug)]
pub struct BestOfN {
    classes: Vec<Class>,  // from the lowest score to the highest
    class_of: Vec<usize>, // (K)
    reference: Vec<f64>,  // (K)
}

/// All answers of one score.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Class {
    mass: f64,
    log_cumulative: f64,
}

impl BestOfN {
    /// Ranks K answers by `score` (K, finite) under the log-probabilities `log_ref` (K).
    pub fn new(score: &[f64], log_ref: &[f64]) -> Self {
        let reference = probabilities(log_ref);
        let mut order: Vec<usize> = (0..score.len()).collect();
        order.sort_by(|&a, &b| score[a].total_cmp(&score[b]));

        let mut classes: Vec<Class> = Vec::new();
        let mut class_of = vec![0; score.len()];
        for (rank, &y) in order.iter().enumerate() {
            // == and not the bits: −0 and 0 are the same score.
            if rank == 0 || score[y] != score[order[rank - 1]] {
                classes.push(Class { mass: 0.0, log_cumulative: 0.0 });
            }
            let last = classes.len() - 1;
            classes[last].mass += reference[y];
            class_of[y] = last;
        }

        // F_c is accurate as 1 − (mass above) near the top and as (mass up to c) near the bottom.
        let mut above = 0.0_f64;
        for class in classes.iter_mut().rev() {
            class.log_cumulative = (-above).ln_1p();
            above += class.mass;
        }
        let mut below = 0.0_f64;
        for class in &mut classes {
            below += class.mass;
            if below < 0.5 {
                class.log_cumulative = below.ln();
            }
        }
        Self { classes, class_of, reference }
    }

    /// P(the best of n falls in class c), for every class from the lowest score up.
    fn class_probabilities(&self, n: u64) -> Vec<f64> {
        let n = n as f64;
        self.classes
            .iter()
            .enumerate()
            .map(|(c, class)| {
                if c == 0 {
                    return (n * class.log_cumulative).exp();
                }
                // F^n − (F − m)^n = F^n (1 − (1 − m/F)^n), without cancellation for a tiny mass m.
                let share = (class.mass / class.log_cumulative.exp()).min(1.0);
                (n * class.log_cumulative).exp() * -(n * (-share).ln_1p()).exp_m1()
            })
            .collect()
    }

    /// The distribution π_n of best-of-n over the answers, shape (K).
    pub fn policy(&self, n: u64) -> Vec<f64> {
        let class = self.class_probabilities(n);
        self.reference
            .iter()
            .zip(&self.class_of)
            .map(|(p, &c)| if self.classes[c].mass > 0.0 { class[c] * p / self.classes[c].mass } else { 0.0 })
            .collect()
    }

    /// KL(π_n ‖ π_ref) in nats. The ratio π_n/π_ref is one number per class, so this is a sum over classes.
    pub fn kl(&self, n: u64) -> f64 {
        self.class_probabilities(n)
            .iter()
            .zip(&self.classes)
            .map(|(&p, class)| if p > 0.0 && class.mass > 0.0 { p * (p / class.mass).ln() } else { 0.0 })
            .sum()
    }

    /// −log π_ref(top class): what the exact KL converges to as n grows, and never exceeds.
    pub fn kl_ceiling(&self) -> f64 {
        self.classes.last().map_or(0.0, |top| -top.mass.ln())
    }
}

/// log n − (n − 1)/n: the KL of best-of-n if no two answers tied and none had noticeable
/// probability, quoted since Stiennon et al. (2020, appendix G.3). For discrete answers it is an
/// upper bound (Beirami et al. 2024, theorem 1).
pub fn kl_bound(n: u64) -> f64 {
    let n = n as f64;
    n.ln() - (n - 1.0) / n
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foundation::rng::Rng;
    use crate::foundation::stats::{expectation, kl_divergence, log_softmax};
    use proptest::prelude::*;

    /// The obvious version: every sequence of n draws, keeping the first of the highest score.
    fn enumerated(score: &[f64], reference: &[f64], n: u32) -> Vec<f64> {
        let k = score.len();
        let mut policy = vec![0.0; k];
        for mut code in 0..k.pow(n) {
            let (mut best, mut probability) = (usize::MAX, 1.0);
            for _ in 0..n {
                let y = code % k;
                code /= k;
                probability *= reference[y];
                if best == usize::MAX || score[y] > score[best] {
                    best = y;
                }
            }
            policy[best] += probability;
        }
        policy
    }

    proptest! {
        /// Scores from {0, 1, 2}, so that most problems have ties.
        #[test]
        fn policy_and_kl_equal_full_enumeration(
            raw in prop::collection::vec((0_u8..3, -4.0..0.0_f64), 1..5), n in 1_u32..6,
        ) {
            let score: Vec<f64> = raw.iter().map(|r| f64::from(r.0)).collect();
            let log_ref = log_softmax(&raw.iter().map(|r| r.1).collect::<Vec<_>>());
            let reference = probabilities(&log_ref);
            let best = BestOfN::new(&score, &log_ref);
            let policy = best.policy(u64::from(n));
            let want = enumerated(&score, &reference, n);
            for (got, want) in policy.iter().zip(&want) {
                prop_assert!((got - want).abs() < 1e-12, "{policy:?} {want:?}");
            }
            let log_want: Vec<f64> = want.iter().map(|p| p.ln()).collect();
            prop_assert!((best.kl(u64::from(n)) - kl_divergence(&log_want, &log_ref)).abs() < 1e-10);
        }

        #[test]
        fn score_rises_and_kl_stays_under_bound_and_ceiling(
            score in prop::collection::vec(-2.0..2.0_f64, 40), seed: u64,
        ) {
            let log_ref = Rng::new(seed).log_dirichlet(0.3, 40);
            let best = BestOfN::new(&score, &log_ref);
            let mut previous = f64::NEG_INFINITY;
            for n in [1, 2, 3, 10, 100, 10_000, 10_u64.pow(9), 10_u64.pow(18)] {
                let policy = best.policy(n);
                prop_assert!((policy.iter().sum::<f64>() - 1.0).abs() < 1e-9);
                let value = expectation(&policy, &score);
                prop_assert!(value >= previous - 1e-9);
                previous = value;
                prop_assert!(best.kl(n) <= kl_bound(n) + 1e-9);
                prop_assert!(best.kl(n) <= best.kl_ceiling() + 1e-9);
            }
        }
    }

    /// Half of the answers share the score 0: simulated draws, ties broken at random.
    #[test]
    fn tied_answers_keep_their_reference_shares_when_sampled() {
        let (score, n, trials) = ([0.0, 1.0, 0.0, -1.0, 0.0, 1.0], 3, 200_000);
        let reference = [0.3, 0.05, 0.1, 0.25, 0.2, 0.1];
        let exact = BestOfN::new(&score, &reference.map(f64::ln)).policy(n);
        let mut rng = Rng::new(0).fork("ties");
        let mut counts = [0.0; 6];
        for _ in 0..trials {
            let draws: Vec<usize> = (0..n).map(|_| rng.categorical(&reference)).collect();
            let top = draws.iter().map(|&y| score[y]).fold(f64::NEG_INFINITY, f64::max);
            let tied: Vec<usize> = draws.into_iter().filter(|&y| score[y] == top).collect();
            counts[tied[(rng.uniform() * tied.len() as f64) as usize]] += 1.0;
        }
        let chi2: f64 = counts
            .iter()
            .zip(&exact)
            .map(|(c, p)| (c - p * f64::from(trials)).powi(2) / (p * f64::from(trials)))
            .sum();
        assert!(chi2 < 20.5, "chi-square {chi2} with 5 degrees of freedom"); // p = .001
    }

    #[test]
    fn one_draw_is_the_reference() {
        let log_ref = [0.2_f64, 0.3, 0.5].map(f64::ln);
        let best = BestOfN::new(&[1.0, 1.0, 0.0], &log_ref);
        assert!(best.kl(1).abs() < 1e-12 && kl_bound(1) == 0.0);
        assert!(best.policy(1).iter().zip(log_ref).all(|(p, lp)| (p - lp.exp()).abs() < 1e-12));
    }

    /// 2000 equally likely answers, all different: the formula is nearly exact until n nears 2000.
    #[test]
    fn the_bound_is_tight_for_many_rare_answers_and_loose_past_their_number() {
        let score: Vec<f64> = (0..2000).map(f64::from).collect();
        let best = BestOfN::new(&score, &vec![-(2000_f64.ln()); 2000]);
        assert!((kl_bound(16) - best.kl(16)).abs() < 0.01);
        assert!(kl_bound(16_384) - best.kl(16_384) > 1.0);
    }
}
