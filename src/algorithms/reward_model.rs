//! Reward modelling from rankings (Ouyang et al. 2022, section 3.5): a language model's trunk with a
//! scalar head, trained by the likelihood of all comparisons that a ranking contains.

use anyhow::{Result, ensure};
use candle_core::{Device, Tensor};
use serde::{Deserialize, Serialize};

use super::divergence::{Divergence, descend};
use super::estimators::in_f64;
use super::preference::{Ordering, preference_loss};
use crate::foundation::ranking::Ranking;
use crate::foundation::rng::Rng;
use crate::model::batch::{Batch, Read};
use crate::model::gpt::Gpt;
use crate::model::optim::{Adam, AdamConfig};

/// The score of each response to its prompt, `[B]` in f64: read at the last token, without gradient.
///
/// # Errors
/// If `model` is no reward model or a pair does not fit it.
pub fn score<P: AsRef<[u32]>, R: AsRef<[u32]>>(
    model: &Gpt,
    prompts: &[P],
    responses: &[R],
) -> Result<Vec<f64>> {
    let scores = model.no_grad().scores(Batch::new(prompts, responses, Read::Last)?)?;
    Ok(in_f64(&scores)?.to_vec1()?)
}

/// −mean log σ(r_w − r_l) over all comparisons (Ouyang et al. 2022, equation 1); a scalar.
///
/// `scores` `[N]` has every ranked response once, however many comparisons it is in; these are
/// (winner, loser) indices into it.
///
/// # Errors
/// If there is no comparison, or one points outside the scores.
pub fn reward_loss(scores: &Tensor, comparisons: &[(usize, usize)]) -> Result<Tensor> {
    preference_loss(&margins(scores, comparisons)?)
}

/// r_w − r_l of each comparison.
fn margins(scores: &Tensor, comparisons: &[(usize, usize)]) -> Result<Tensor> {
    let side = |pick: fn(&(usize, usize)) -> usize| -> Result<Tensor> {
        let index: Vec<u32> = comparisons.iter().map(|pair| pick(pair) as u32).collect();
        Ok(scores.index_select(&Tensor::from_slice(&index, index.len(), &Device::Cpu)?, 0)?)
    };
    Ok((side(|pair| pair.0)? - side(|pair| pair.1)?)?)
}

/// How a reward model is trained: Adam, its gradient's norm clipped at 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RewardModelling {
    /// Passes over the rankings, each in an order of its own.
    pub epochs: usize,
    /// Rankings per update; the last batch of an epoch takes what is left.
    pub batch: usize,
    /// Learning rate, constant.
    pub lr: f64,
}

/// What one update did, for whoever watches.
#[derive(Clone, Copy, Debug)]
pub struct RewardStep {
    /// 1, 2, ..
    pub step: usize,
    /// The pass that the update belongs to: 1, 2, ..
    pub epoch: usize,
    /// Whether that pass is now complete.
    pub epoch_done: bool,
    /// The batch as the model saw it before the update.
    pub batch: Ordering,
    /// The gradient's norm before clipping.
    pub gradient_norm: f64,
}

impl RewardModelling {
    /// Trains `model` in place and calls `watch` after every update. Epoch e is shuffled by
    /// `rng.fork(e)`. Rankings without a comparison are left out. Training that diverges stops there
    /// and says so: `Ok(Some(divergence))`.
    ///
    /// # Errors
    /// If the batch is 0, there is no comparison, `model` is no reward model or a ranking does not fit
    /// it; as `watch`.
    pub fn train(
        &self,
        model: &Gpt,
        rankings: &[Ranking],
        rng: &Rng,
        mut watch: impl FnMut(&RewardStep) -> Result<()>,
    ) -> Result<Option<Divergence>> {
        ensure!(self.batch > 0, "a batch of 0 rankings trains nothing");
        let rankings: Vec<&Ranking> =
            rankings.iter().filter(|ranking| ranking.comparisons().next().is_some()).collect();
        ensure!(!rankings.is_empty(), "there are no comparisons to train on");
        let mut adam = Adam::for_model(AdamConfig::adam(), model);
        let batches = rankings.len().div_ceil(self.batch);
        for epoch in 1..=self.epochs {
            let order = rng.fork(epoch).permutation(rankings.len());
            for (i, batch) in order.chunks(self.batch).enumerate() {
                let step = (epoch - 1) * batches + i + 1;
                let batch: Vec<&Ranking> = batch.iter().map(|&i| rankings[i]).collect();
                let (scores, comparisons) = ranked_scores(model, &batch)?;
                let loss = reward_loss(&scores, &comparisons)?;
                let gradient_norm = match descend(&mut adam, model, &loss, self.lr)? {
                    Ok(norm) => norm,
                    Err(what) => return Ok(Some(Divergence { step, what })),
                };
                if let Some(batch) = Ordering::of(&margins(&scores, &comparisons)?.to_vec1()?) {
                    watch(&RewardStep { step, epoch, epoch_done: i + 1 == batches, batch, gradient_norm })?;
                }
            }
        }
        Ok(None)
    }
}

/// How well `model` orders the comparisons of `rankings`; none if there are none.
///
/// # Errors
/// If `model` is no reward model or a ranking does not fit it.
pub fn ordering(model: &Gpt, rankings: &[Ranking]) -> Result<Option<Ordering>> {
    let (scores, comparisons) = ranked_scores(&model.no_grad(), &rankings.iter().collect::<Vec<_>>())?;
    Ok(Ordering::of(&margins(&scores, &comparisons)?.to_vec1()?))
}

/// The scores of all responses, ranking by ranking, in f64, and the comparisons between them.
fn ranked_scores(model: &Gpt, rankings: &[&Ranking]) -> Result<(Tensor, Vec<(usize, usize)>)> {
    let (mut prompts, mut responses, mut comparisons) = (Vec::new(), Vec::new(), Vec::new());
    for ranking in rankings {
        let start = responses.len();
        comparisons.extend(ranking.comparisons().map(|(winner, loser)| (start + winner, start + loser)));
        prompts.extend(std::iter::repeat_n(ranking.prompt.as_slice(), ranking.responses.len()));
        responses.extend(ranking.responses.iter().map(Vec::as_slice));
    }
    let scores = model.scores(Batch::new(&prompts, &responses, Read::Last)?)?;
    Ok((in_f64(&scores)?, comparisons))
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Var;

    const SCORES: [f64; 5] = [0.3, -0.2, 1.0, 0.0, 2.0];
    const COMPARISONS: [(usize, usize); 4] = [(0, 1), (0, 2), (1, 2), (4, 3)];

    /// Margins .5, −.7, −1.2 and 2; a score's gradient is the sum over its comparisons, −σ(−Δ)/4 where
    /// it wins and the opposite where it loses.
    #[test]
    fn loss_and_gradient_by_hand() {
        let scores = Var::new(&SCORES, &Device::Cpu).unwrap();
        let loss = reward_loss(&scores, &COMPARISONS).unwrap();
        let margins = [0.5_f64, -0.7, -1.2, 2.0];
        let value = margins.iter().map(|m| (1.0 + (-m).exp()).ln()).sum::<f64>() / 4.0;
        assert!((loss.to_scalar::<f64>().unwrap() - value).abs() < 1e-12);
        let pull = margins.map(|m| 1.0 / (1.0 + m.exp()) / 4.0);
        let want = [-pull[0] - pull[1], pull[0] - pull[2], pull[1] + pull[2], pull[3], -pull[3]];
        let gradients = loss.backward().unwrap();
        let gradient = gradients.get(&scores).unwrap().to_vec1::<f64>().unwrap();
        assert!(
            gradient.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-12),
            "{gradient:?} is not {want:?}"
        );
    }

    #[test]
    fn equal_scores_cost_log_two_and_no_comparison_is_an_error() {
        let scores = Tensor::new(&[0.7_f64; 3], &Device::Cpu).unwrap();
        let loss = reward_loss(&scores, &[(0, 1), (2, 1)]).unwrap().to_scalar::<f64>().unwrap();
        assert!((loss - std::f64::consts::LN_2).abs() < 1e-15);
        assert!(reward_loss(&scores, &[]).is_err());
        assert!(reward_loss(&scores, &[(0, 3)]).is_err());
    }
}
