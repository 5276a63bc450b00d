//! The loop that all policy-gradient methods share: sample, reward, turn rewards into advantages, take
//! a few steps. What sets the methods apart is an [`Objective`]; what they are trained on is an
//! [`Environment`].

use anyhow::Result;
use candle_core::Tensor;

use super::divergence::{Divergence, descend};
use super::estimators::{in_f64, k3};
use crate::foundation::rng::Rng;
use crate::model::gpt::Gpt;
use crate::model::optim::{Adam, AdamConfig};
use crate::policy::logprob::{TokenLogProbs, token_logprobs};
use crate::policy::sampling::{Rollout, Sampling, sample};

/// What a policy is trained on.
pub trait Environment {
    /// What a prompt is made from and a response judged by.
    type Problem: Clone;

    /// A fresh problem.
    fn draw(&self, rng: &mut Rng) -> Self::Problem;

    /// What the policy reads.
    fn prompt(&self, problem: &Self::Problem) -> Vec<u32>;

    /// The reward of `responses[i]` to `problems[i]`, `[B]`.
    fn rewards(&self, problems: &[Self::Problem], responses: &[Rollout]) -> Result<Vec<f64>>;
}

/// A policy-gradient method: how rewards become advantages, and those a loss. Both are functions of
/// numbers alone and see neither model nor task.
pub trait Objective {
    /// Updates per batch of responses.
    fn updates(&self) -> usize;

    /// One advantage per response, `[B]`.
    fn advantages(&self, experience: &Experience) -> Vec<f64>;

    /// What is minimised, given the policy's log-probabilities with gradient.
    fn loss(&self, logprobs: &TokenLogProbs, experience: &Experience, advantages: &[f64]) -> Result<Loss>;
}

/// The value of an objective.
#[derive(Clone, Debug)]
pub struct Loss {
    /// A scalar with gradient.
    pub value: Tensor,
    /// Share of tokens (or responses) whose gradient the clip holds back; 0 at a batch's first update.
    pub clip_fraction: f64,
}

/// A batch of responses and all that is known of them: constants of the batch's updates.
#[derive(Clone, Debug)]
pub struct Experience {
    /// What was sampled, B responses, those to one prompt in a row.
    pub rollouts: Vec<Rollout>,
    /// Responses per prompt.
    pub group: usize,
    /// What each earned, `[B]`.
    pub rewards: Vec<f64>,
    /// log π_old of every token, from sampling, `[Σ lengths]`.
    pub old: Vec<f64>,
    /// log π_ref of every token, `[Σ lengths]`.
    pub reference: Vec<f64>,
}

impl Experience {
    /// KL(π_old ‖ π_ref) per token, nats: the mean of k3 over all tokens.
    pub fn kl_per_token(&self) -> f64 {
        let k3: f64 = self.old.iter().zip(&self.reference).map(|(old, reference)| k3(reference - old)).sum();
        k3 / self.old.len().max(1) as f64
    }

    /// log π_old(y|x) of each response, `[B]`.
    pub fn old_per_response(&self) -> Vec<f64> {
        self.per_response(&self.old)
    }

    /// log π_old(y|x) − log π_ref(y|x) of each response, `[B]`: their mean estimates KL(π_old ‖ π_ref).
    pub fn log_ratios(&self) -> Vec<f64> {
        let (old, reference) = (self.per_response(&self.old), self.per_response(&self.reference));
        old.iter().zip(reference).map(|(old, reference)| old - reference).collect()
    }

    /// The sum of each response's tokens: `[Σ lengths]` to `[B]`.
    fn per_response(&self, values: &[f64]) -> Vec<f64> {
        let mut rest = values.iter();
        let lengths = self.rollouts.iter().map(|rollout| rollout.tokens.len());
        lengths.map(|length| rest.by_ref().take(length).sum()).collect()
    }
}

/// How to train.
#[derive(Clone, Debug)]
pub struct PolicyGradient {
    /// Batches of responses.
    pub steps: usize,
    /// Prompts per batch.
    pub prompts: usize,
    /// Responses per prompt.
    pub group: usize,
    /// Learning rate of Adam, constant.
    pub lr: f64,
    /// How responses are sampled.
    pub sampling: Sampling,
}

/// What one step did, for whoever watches.
#[derive(Debug)]
pub struct Step<'a, P> {
    /// 1, 2, ..
    pub step: usize,
    /// The problem of each response, `[B]`.
    pub problems: &'a [P],
    /// The responses, sampled before the step's updates.
    pub experience: &'a Experience,
    /// Mean over the step's updates of [`Loss::clip_fraction`].
    pub clip_fraction: f64,
    /// Mean over the step's updates of the gradient's norm before clipping.
    pub gradient_norm: f64,
}

impl PolicyGradient {
    /// Trains `policy` in place and calls `watch` after every step. Step s draws from `rng.fork(s)`.
    ///
    /// Old log-probabilities come from sampling, and reference ones are computed once per batch.
    /// Training that diverges stops there and says so: `Ok(Some(divergence))`.
    ///
    /// # Errors
    /// As the environment, the objective and `watch`.
    pub fn train<E: Environment>(
        &self,
        policy: &Gpt,
        reference: &Gpt,
        environment: &E,
        objective: &impl Objective,
        rng: &Rng,
        mut watch: impl FnMut(&Step<E::Problem>) -> Result<()>,
    ) -> Result<Option<Divergence>> {
        let (frozen, reference) = (policy.no_grad(), reference.no_grad());
        let mut adam = Adam::for_model(AdamConfig::adam(), policy);
        for step in 1..=self.steps {
            let diverged = |what| Ok(Some(Divergence { step, what }));
            let rng = rng.fork(step);
            let problems = self.problems(environment, &mut rng.fork("problems"));
            let prompts: Vec<Vec<u32>> = problems.iter().map(|problem| environment.prompt(problem)).collect();
            let rollouts = sample(&frozen, &prompts, 1, &self.sampling, &rng.fork("responses"))?;
            let rewards = environment.rewards(&problems, &rollouts)?;
            let responses: Vec<Vec<u32>> = rollouts.iter().map(|rollout| rollout.tokens.clone()).collect();
            let experience = Experience {
                old: rollouts.iter().flat_map(|rollout| &rollout.logprobs).map(|&x| f64::from(x)).collect(),
                reference: in_f64(&token_logprobs(&reference, &prompts, &responses)?.values)?.to_vec1()?,
                group: self.group,
                rewards,
                rollouts,
            };
            if !experience.old.iter().all(|logprob| logprob.is_finite()) {
                return diverged("the policy's log-probabilities are");
            }
            let advantages = objective.advantages(&experience);
            let (mut clip_fraction, mut gradient_norm) = (0.0, 0.0);
            for _ in 0..objective.updates() {
                let logprobs = token_logprobs(policy, &prompts, &responses)?;
                let loss = objective.loss(&logprobs, &experience, &advantages)?;
                match descend(&mut adam, policy, &loss.value, self.lr)? {
                    Ok(norm) => gradient_norm += norm / objective.updates() as f64,
                    Err(what) => return diverged(what),
                }
                clip_fraction += loss.clip_fraction / objective.updates() as f64;
            }
            watch(&Step {
                step,
                problems: &problems,
                experience: &experience,
                clip_fraction,
                gradient_norm,
            })?;
        }
        Ok(None)
    }

    /// Fresh problems, each repeated for every response of its group.
    fn problems<E: Environment>(&self, environment: &E, rng: &mut Rng) -> Vec<E::Problem> {
        let problems = (0..self.prompts).map(|_| environment.draw(rng));
        problems.flat_map(|problem| std::iter::repeat_n(problem, self.group)).collect()
    }
}
