//! Direct Preference Optimization (Rafailov et al. 2023) of a language model: the policy is its own
//! reward model, and preferences train it without sampling.

use anyhow::{Result, ensure};
use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use super::divergence::{Divergence, descend};
use super::estimators::in_f64;
use super::preference::{Ordering, preference_loss};
use crate::foundation::preference_pair::PreferencePair;
use crate::foundation::rng::Rng;
use crate::foundation::stats::mean;
use crate::model::gpt::Gpt;
use crate::model::optim::{Adam, AdamConfig};
use crate::policy::logprob::seq_logprob;

/// log π(y|x) of the responses of P pairs.
#[derive(Clone, Debug)]
pub struct PairLogProbs {
    /// Of the preferred responses, `[P]` in f64.
    pub chosen: Tensor,
    /// Of the others, `[P]` in f64.
    pub rejected: Tensor,
}

impl PairLogProbs {
    /// What `model` gives to `pairs`, with gradient unless it has none. Both responses of a pair share
    /// the computation of their prompt.
    ///
    /// # Errors
    /// If a pair does not fit the model.
    pub fn of(model: &Gpt, pairs: &[&PreferencePair]) -> Result<Self> {
        let prompts = pairs.iter().chain(pairs).map(|pair| pair.prompt.as_slice());
        let chosen = pairs.iter().map(|pair| pair.chosen.as_slice());
        let responses = chosen.chain(pairs.iter().map(|pair| pair.rejected.as_slice()));
        let (prompts, responses): (Vec<_>, Vec<_>) = prompts.zip(responses).unzip();
        let logprobs = in_f64(&seq_logprob(model, &prompts, &responses)?)?; // [2P]
        let side = |start| logprobs.narrow(0, start, pairs.len());
        Ok(Self { chosen: side(0)?, rejected: side(pairs.len())? })
    }

    /// Those of some pairs, without gradient.
    fn select(&self, pairs: &[usize]) -> Result<Self> {
        let index: Vec<u32> = pairs.iter().map(|&i| i as u32).collect();
        let index = Tensor::new(index, self.chosen.device())?;
        Ok(Self {
            chosen: self.chosen.index_select(&index, 0)?,
            rejected: self.rejected.index_select(&index, 0)?,
        })
    }
}

/// β (log π − log π_ref): the reward that a policy implies, up to a constant of each prompt (equation 5).
/// 0 everywhere for the reference itself.
///
/// # Errors
/// If the shapes differ.
pub fn implicit_rewards(policy: &Tensor, reference: &Tensor, beta: f64) -> Result<Tensor> {
    Ok(((policy - reference)? * beta)?)
}

/// By how much the chosen response's implicit reward exceeds the rejected one's, `[P]`.
///
/// # Errors
/// If the shapes differ.
pub fn margins(policy: &PairLogProbs, reference: &PairLogProbs, beta: f64) -> Result<Tensor> {
    let chosen = implicit_rewards(&policy.chosen, &reference.chosen, beta)?;
    Ok((chosen - implicit_rewards(&policy.rejected, &reference.rejected, beta)?)?)
}

/// −mean log σ(β [(log π_w − log π_ref,w) − (log π_l − log π_ref,l)]), equation 7; a scalar. log 2 at the
/// reference.
///
/// # Errors
/// If the shapes differ or there is no pair.
pub fn dpo_loss(policy: &PairLogProbs, reference: &PairLogProbs, beta: f64) -> Result<Tensor> {
    preference_loss(&margins(policy, reference, beta)?)
}

/// How DPO is trained: Adam, its gradient's norm clipped at 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dpo {
    /// Strength of the implied KL penalty, β.
    pub beta: f64,
    /// Passes over the pairs, each in an order of its own.
    pub epochs: usize,
    /// Pairs per update; the last batch of an epoch takes what is left.
    pub batch: usize,
    /// Learning rate, constant.
    pub lr: f64,
}

/// A policy's view of P pairs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PairMetrics {
    /// Loss, accuracy and margin of the implicit rewards.
    #[serde(flatten)]
    pub ordering: Ordering,
    /// Mean log π − log π_ref of the chosen responses, nats: whether winners became more likely at all.
    pub chosen: f64,
    /// The same of the rejected ones.
    pub rejected: f64,
}

impl PairMetrics {
    /// From log-probabilities; none of no pairs.
    ///
    /// # Errors
    /// If the shapes differ.
    pub fn of(policy: &PairLogProbs, reference: &PairLogProbs, beta: f64) -> Result<Option<Self>> {
        let drift = |policy: &Tensor, reference: &Tensor| -> Result<Option<f64>> {
            Ok(mean(&(policy - reference)?.to_vec1::<f64>()?))
        };
        let ordering = Ordering::of(&margins(policy, reference, beta)?.to_vec1::<f64>()?);
        let chosen = drift(&policy.chosen, &reference.chosen)?;
        let rejected = drift(&policy.rejected, &reference.rejected)?;
        Ok(ordering.zip(chosen.zip(rejected)).map(|(ordering, (chosen, rejected))| Self {
            ordering,
            chosen,
            rejected,
        }))
    }
}

/// What one update did, for whoever watches.
#[derive(Clone, Copy, Debug)]
pub struct DpoStep {
    /// 1, 2, ..
    pub step: usize,
    /// The pass that the update belongs to: 1, 2, ..
    pub epoch: usize,
    /// Whether that pass is now complete.
    pub epoch_done: bool,
    /// The batch as the policy saw it before the update.
    pub batch: PairMetrics,
    /// The gradient's norm before clipping.
    pub gradient_norm: f64,
}

impl Dpo {
    /// Trains `policy` in place on `pairs` and calls `watch` after every update. Epoch e is shuffled by
    /// `rng.fork(e)`.
    ///
    /// Reference log-probabilities are computed once. Training that diverges stops there and says so:
    /// `Ok(Some(divergence))`.
    ///
    /// # Errors
    /// If the batch is 0, there is no pair or one does not fit the model; as `watch`.
    pub fn train(
        &self,
        policy: &Gpt,
        reference: &Gpt,
        pairs: &[PreferencePair],
        rng: &Rng,
        mut watch: impl FnMut(&DpoStep) -> Result<()>,
    ) -> Result<Option<Divergence>> {
        ensure!(self.batch > 0, "a batch of 0 pairs trains nothing");
        ensure!(!pairs.is_empty(), "there are no preference pairs to train on");
        let reference = PairLogProbs::of(&reference.no_grad(), &pairs.iter().collect::<Vec<_>>())?;
        let mut adam = Adam::for_model(AdamConfig::adam(), policy);
        let batches = pairs.len().div_ceil(self.batch);
        for epoch in 1..=self.epochs {
            let order = rng.fork(epoch).permutation(pairs.len());
            for (i, batch) in order.chunks(self.batch).enumerate() {
                let step = (epoch - 1) * batches + i + 1;
                let reference = reference.select(batch)?;
                let batch: Vec<&PreferencePair> = batch.iter().map(|&i| &pairs[i]).collect();
                let logprobs = PairLogProbs::of(policy, &batch)?;
                let loss = dpo_loss(&logprobs, &reference, self.beta)?;
                let gradient_norm = match descend(&mut adam, policy, &loss, self.lr)? {
                    Ok(norm) => norm,
                    Err(what) => return Ok(Some(Divergence { step, what })),
                };
                if let Some(batch) = PairMetrics::of(&logprobs, &reference, self.beta)? {
                    watch(&DpoStep { step, epoch, epoch_done: i + 1 == batches, batch, gradient_norm })?;
                }
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};
    use std::f64::consts::LN_2;

    const REFERENCE: [[f64; 2]; 3] = [[-4.0, -3.0], [-7.5, -2.0], [-1.0, -6.0]];
    const POLICY: [[f64; 2]; 3] = [[-3.5, -3.6], [-9.0, -2.5], [-1.2, -5.0]];

    /// From rows of (chosen, rejected).
    fn logprobs(rows: &[[f64; 2]]) -> (PairLogProbs, [Var; 2]) {
        let column = |side: usize| {
            let values: Vec<f64> = rows.iter().map(|row| row[side]).collect();
            Var::new(values.as_slice(), &Device::Cpu).unwrap()
        };
        let sides = [column(0), column(1)];
        let [chosen, rejected] = sides.each_ref().map(|side| side.as_tensor().clone());
        (PairLogProbs { chosen, rejected }, sides)
    }

    fn loss(policy: &PairLogProbs, beta: f64) -> f64 {
        dpo_loss(policy, &logprobs(&REFERENCE).0, beta).unwrap().to_scalar().unwrap()
    }

    #[test]
    fn the_loss_is_log_two_at_the_reference() {
        for beta in [0.01, 0.5, 10.0] {
            assert!((loss(&logprobs(&REFERENCE).0, beta) - LN_2).abs() < 1e-15);
        }
        let metrics =
            PairMetrics::of(&logprobs(&REFERENCE).0, &logprobs(&REFERENCE).0, 0.5).unwrap().unwrap();
        assert_eq!((metrics.ordering.accuracy, metrics.ordering.margin), (None, 0.0));
        assert_eq!((metrics.chosen, metrics.rejected), (0.0, 0.0));
    }

    /// Log-ratios (.5, −.6), (−1.5, −.5), (−.2, 1): margins 1.1, −1 and −1.2 times β.
    #[test]
    fn loss_and_metrics_by_hand() {
        let (policy, reference) = (logprobs(&POLICY).0, logprobs(&REFERENCE).0);
        let cost = |margin: f64| (1.0 + (-margin).exp()).ln();
        let want = (cost(0.55) + cost(-0.5) + cost(-0.6)) / 3.0;
        assert!((loss(&policy, 0.5) - want).abs() < 1e-12);
        let metrics = PairMetrics::of(&policy, &reference, 0.5).unwrap().unwrap();
        assert!((metrics.ordering.loss - want).abs() < 1e-12);
        assert!((metrics.ordering.margin + 0.55 / 3.0).abs() < 1e-12);
        assert_eq!(metrics.ordering.accuracy, Some(1.0 / 3.0));
        assert!((metrics.chosen + 0.4).abs() < 1e-12 && (metrics.rejected + 0.1 / 3.0).abs() < 1e-12);
        let chosen = implicit_rewards(&policy.chosen, &reference.chosen, 0.5).unwrap();
        let want = [0.25, -0.75, -0.1];
        assert!(chosen.to_vec1::<f64>().unwrap().iter().zip(want).all(|(x, w)| (x - w).abs() < 1e-12));
    }

    #[test]
    fn its_gradient_agrees_with_finite_differences_and_lifts_winners() {
        let (policy, sides) = logprobs(&POLICY);
        let reference = logprobs(&REFERENCE).0;
        let gradients = dpo_loss(&policy, &reference, 0.5).unwrap().backward().unwrap();
        for (side, var) in sides.iter().enumerate() {
            let gradient = gradients.get(var).unwrap().to_vec1::<f64>().unwrap();
            for (i, g) in gradient.iter().enumerate() {
                let moved = |by: f64| {
                    let mut rows = POLICY;
                    rows[i][side] += by;
                    loss(&logprobs(&rows).0, 0.5)
                };
                let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                assert!((g - difference).abs() < 1e-9, "{side} {i}: {g} is not {difference}");
                assert!(if side == 0 { *g < 0.0 } else { *g > 0.0 });
            }
        }
    }

    #[test]
    fn a_log_ratio_of_ten_thousand_overflows_nothing() {
        for (chosen, want) in [(1e4, 0.0), (-1e4, 1e4)] {
            let (policy, sides) = logprobs(&[[chosen, 0.0]]);
            let loss = dpo_loss(&policy, &logprobs(&[[0.0, 0.0]]).0, 1.0).unwrap();
            assert_eq!(loss.to_scalar::<f64>().unwrap(), want);
            let gradients = loss.backward().unwrap();
            assert_eq!(gradients.get(&sides[0]).unwrap().to_vec1::<f64>().unwrap(), [-want / 1e4]);
        }
    }
}
