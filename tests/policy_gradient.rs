//! The policy-gradient loop on a task of one-token answers, small enough to know everything about.

use anyhow::Result;
use rlhf_lab::algorithms::divergence::Divergence;
use rlhf_lab::algorithms::estimators::KlEstimator;
use rlhf_lab::algorithms::grpo::Grpo;
use rlhf_lab::algorithms::policy_gradient::{Environment, Objective, PolicyGradient};
use rlhf_lab::algorithms::ppo::Ppo;
use rlhf_lab::algorithms::reinforce::{Baseline, Reduction, Reinforce};
use rlhf_lab::foundation::rng::Rng;
use rlhf_lab::foundation::stats::{kl_divergence, log_softmax, probabilities, total_variation};
use rlhf_lab::model::batch::{Batch, Read};
use rlhf_lab::model::config::Config;
use rlhf_lab::model::gpt::Gpt;
use rlhf_lab::policy::logprob::seq_logprob;
use rlhf_lab::policy::optimal::log_optimal_policy;
use rlhf_lab::policy::sampling::{Rollout, Sampling};

const V: usize = 6;

/// One prompt; the first token is paid for.
struct Bandit {
    pays: [f64; V],
}

impl Environment for Bandit {
    type Problem = ();

    fn draw(&self, _rng: &mut Rng) {}

    fn prompt(&self, (): &()) -> Vec<u32> {
        vec![1, 3]
    }

    fn rewards(&self, _problems: &[()], responses: &[Rollout]) -> Result<Vec<f64>> {
        Ok(responses.iter().map(|response| self.pays[response.tokens[0] as usize]).collect())
    }
}

fn model(seed: u64) -> Gpt {
    let config = Config { n_embd: 16, n_layer: 1, n_head: 2, initializer_range: 0.3, ..Config::mini(V, 4) };
    Gpt::new(config, &Rng::new(seed)).unwrap()
}

/// log π of the six possible answers.
fn answers(model: &Gpt) -> Vec<f64> {
    let batch = Batch::new(&[[1, 3]], &[[0_u32; 0]], Read::Last).unwrap();
    let logits = model.no_grad().logits(batch).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
    log_softmax(&logits.into_iter().map(f64::from).collect::<Vec<_>>())
}

fn options(steps: usize, lr: f64) -> PolicyGradient {
    let sampling = Sampling { end: u32::MAX, ..Sampling::policy(1) };
    PolicyGradient { steps, prompts: 16, group: 8, lr, sampling }
}

fn train(
    policy: &Gpt,
    reference: &Gpt,
    options: &PolicyGradient,
    pays: [f64; V],
    how: &impl Objective,
) -> Option<Divergence> {
    options.train(policy, reference, &Bandit { pays }, how, &Rng::new(5), |_| Ok(())).unwrap()
}

fn grpo() -> Grpo {
    Grpo { inner: 2, clip: 0.2, beta: 0.04, kl: KlEstimator::K3 }
}

fn reinforce(beta: f64) -> Reinforce {
    Reinforce { baseline: Baseline::Batch, reduction: Reduction::Sum, beta }
}

fn ppo(beta: f64) -> Ppo {
    Ppo { epochs: 4, clip: 0.2, beta }
}

#[test]
fn every_method_finds_what_pays() {
    fn finds(how: &impl Objective) {
        let policy = model(1);
        let reference = policy.duplicate().unwrap().no_grad();
        let diverged = train(&policy, &reference, &options(60, 3e-3), [0.0, 0.0, 0.0, 0.0, 1.0, 0.5], how);
        assert_eq!(diverged, None);
        let (before, after) = (answers(&reference)[4].exp(), answers(&policy)[4].exp());
        assert!(before < 0.5 && after > 0.9, "{before} to {after}");
    }
    finds(&reinforce(0.0));
    finds(&ppo(0.0));
    finds(&grpo());
}

/// Nothing is paid, the policy is not the reference: the penalty alone must bring it nearer.
#[test]
fn the_kl_penalty_pulls_to_the_reference() {
    for kl in [KlEstimator::K2, KlEstimator::K3] {
        let (policy, reference) = (model(1), model(2).no_grad());
        let distance = || kl_divergence(&answers(&policy), &answers(&reference));
        let before = distance();
        train(&policy, &reference, &options(1, 1e-3), [0.0; V], &Grpo { beta: 1.0, inner: 1, kl, ..grpo() });
        let after = distance();
        assert!(after < before, "{kl:?}: {before} to {after}");
    }
}

/// Every response of two tokens, 36 of them, with what a policy gives to each.
fn all_responses(model: &Gpt) -> Vec<f64> {
    let responses: Vec<[u32; 2]> = (0..36).map(|i| [i / 6, i % 6]).collect();
    let logprobs = seq_logprob(&model.no_grad(), &vec![[1, 3]; 36], &responses).unwrap();
    logprobs.to_vec1::<f32>().unwrap().into_iter().map(f64::from).collect()
}

/// The same for the penalties that are part of the reward, with responses of two tokens.
#[test]
fn a_kl_penalty_in_the_reward_pulls_to_the_reference() {
    fn pulls(how: &impl Objective, more: &impl Objective) {
        let after = |how: &dyn Fn(&Gpt, &Gpt, &PolicyGradient)| {
            let (policy, reference) = (model(1), model(2).no_grad());
            let mut options = options(1, 1e-3);
            options.sampling.max_tokens = 2;
            how(&policy, &reference, &options);
            kl_divergence(&all_responses(&policy), &all_responses(&reference))
        };
        let before = after(&|_, _, _| ());
        let without = after(&|policy, reference, options| {
            assert_eq!(train(policy, reference, options, [0.0; V], how), None);
        });
        assert!((without - before).abs() < 1e-6, "{before} to {without} without reward or penalty");
        let with = after(&|policy, reference, options| {
            assert_eq!(train(policy, reference, options, [0.0; V], more), None);
        });
        assert!(with < before - 1e-3, "{before} to {with}");
    }
    pulls(&reinforce(0.0), &reinforce(1.0));
    pulls(&ppo(0.0), &ppo(1.0));
}

/// The optimum of the penalised reward is known, and both methods get there.
#[test]
fn the_penalised_methods_end_near_the_closed_form() {
    fn ends(how: &impl Objective) {
        let pays = [0.0, 0.5, 0.0, -0.5, 1.0, 0.5];
        let policy = model(1);
        let reference = policy.duplicate().unwrap().no_grad();
        let star = probabilities(&log_optimal_policy(&answers(&reference), &pays, 0.5));
        let distance = || total_variation(&probabilities(&answers(&policy)), &star);
        let before = distance();
        train(&policy, &reference, &options(150, 1e-3), pays, how);
        let after = distance();
        assert!(before > 0.25 && after < 0.05, "{before} to {after}");
    }
    ends(&reinforce(0.5));
    ends(&ppo(0.5));
}

/// Groups without contrast and no penalty: nothing to learn, not even from rounding.
#[test]
fn equal_rewards_change_nothing() {
    let policy = model(3);
    let reference = policy.duplicate().unwrap().no_grad();
    train(&policy, &reference, &options(3, 1.0), [1.1; V], &Grpo { beta: 0.0, ..grpo() });
    let bits = |model: &Gpt| model.parameters().to_vec1::<f32>().unwrap();
    assert_eq!(bits(&policy), bits(&reference));
}

#[test]
fn each_step_is_watched_and_begins_at_ratio_one() {
    let policy = model(4);
    let reference = policy.duplicate().unwrap().no_grad();
    let mut steps = Vec::new();
    let how = Grpo { inner: 1, clip: 0.0, ..grpo() };
    let bandit = Bandit { pays: [0.0, 1.0, 0.0, 1.0, 0.0, 1.0] };
    options(4, 1e-2)
        .train(&policy, &reference, &bandit, &how, &Rng::new(5), |step| {
            assert_eq!(step.problems.len(), 16 * 8);
            assert_eq!(step.experience.rollouts.len(), 16 * 8);
            if step.step == 1 {
                assert_eq!(step.experience.old, step.experience.reference); // Bit for bit.
            }
            // Even at a clip of 0 no ratio of a first update is outside.
            assert_eq!(step.clip_fraction, 0.0);
            assert!(step.gradient_norm > 0.0);
            steps.push(step.step);
            Ok(())
        })
        .unwrap();
    assert_eq!(steps, [1, 2, 3, 4]);
}

/// At a learning rate of 0 every update of a batch sees ratio 1: even at a clip of 0 nothing is outside.
#[test]
fn ppo_that_does_not_move_clips_nothing() {
    let policy = model(4);
    let reference = policy.duplicate().unwrap().no_grad();
    let bandit = Bandit { pays: [0.0, 1.0, 0.0, 1.0, 0.0, 1.0] };
    let mut still = options(3, 0.0);
    still.sampling = Sampling::policy(2); // Lengths 1 and 2.
    let how = Ppo { clip: 0.0, ..ppo(0.5) };
    still
        .train(&policy, &reference, &bandit, &how, &Rng::new(5), |step| {
            assert_eq!(step.clip_fraction, 0.0);
            assert!(step.experience.log_ratios().iter().all(|&log_ratio| log_ratio == 0.0));
            assert!(step.gradient_norm > 0.0);
            let lengths = step.experience.rollouts.iter().map(|rollout| rollout.tokens.len());
            assert!((1..=2).all(|length| lengths.clone().any(|l| l == length)));
            Ok(())
        })
        .unwrap();
}

#[test]
fn divergence_is_reported_with_its_step() {
    let policy = model(4);
    let reference = policy.duplicate().unwrap().no_grad();
    let diverged = train(&policy, &reference, &options(50, 1e30), [0.0, 1.0, 0.0, 1.0, 0.0, 1.0], &grpo());
    let diverged = diverged.expect("a learning rate of 1e30 diverges");
    assert!(diverged.step <= 3, "{diverged}");
    assert!(diverged.to_string().contains("not finite at step"), "{diverged}");
}

#[test]
fn rewards_that_are_no_numbers_are_divergence_too() {
    let policy = model(4);
    let reference = policy.duplicate().unwrap().no_grad();
    let diverged = train(&policy, &reference, &options(2, 1e-3), [f64::NAN; V], &grpo());
    assert_eq!(diverged.map(|d| d.step), Some(1));
}
