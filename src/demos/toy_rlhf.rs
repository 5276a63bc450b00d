//! `toy-rlhf`: RLHF and DPO on one prompt with six possible answers, next to the exact optimum.

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::algorithms::tabular::bradley_terry::PairLoss;
use crate::algorithms::tabular::dpo::{centered, dpo_loss, implicit_rewards};
use crate::algorithms::tabular::dpo_limit::expected_total_variation;
use crate::algorithms::tabular::ipo::ipo_loss;
use crate::algorithms::tabular::preference_fit::{PreferenceFit, fit_preferences};
use crate::algorithms::tabular::reinforce::{Reinforce, train_reinforce};
use crate::demos::args::{ascending, count, defaults, number};
use crate::demos::demo::{Demo, Lab};
use crate::foundation::preferences::{PairKind, PreferenceCounts};
use crate::foundation::progress::Progress;
use crate::foundation::rng::Rng;
use crate::foundation::stats::{kl_divergence, probabilities, total_variation};
use crate::policy::optimal::{expected_reward, log_optimal_policy, objective};
use crate::worlds::categorical::{CategoricalWorld, Labeller, SIX_ANSWERS};

/// Hyperparameters of `toy-rlhf`.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Config {
    /// KL weights of the closed-form table; 0 is the greedy limit
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [10.0, 2.0, 1.0, 0.5, 0.2, 0.05],
          value_parser = number(0.0..=1e9))]
    pub sweep: Vec<f64>,

    /// KL weight beta of the trained policies
    #[arg(long, value_name = "X", default_value_t = 0.5, value_parser = number(1e-3..=1e3))]
    pub beta: f64,

    /// Learning rate of Adam, for every trained policy
    #[arg(long, value_name = "X", default_value_t = 0.05, value_parser = number(1e-6..=10.0))]
    pub lr: f64,

    /// REINFORCE updates
    #[arg(long, value_name = "N", default_value_t = 3000, value_parser = count(1..=10_000_000))]
    pub steps: u64,

    /// Answers sampled per REINFORCE update
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = count(2..=100_000))]
    pub batch: u64,

    /// Preference pairs sampled for DPO, one data set extending the other
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [100, 1000, 10_000, 100_000],
          value_parser = count(1..=100_000_000))]
    pub pairs: Vec<u64>,

    /// Full-batch steps of DPO and IPO
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = count(1..=10_000_000))]
    pub dpo_steps: u64,

    /// Noiseless preference pairs for the trap
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = count(1..=100_000_000))]
    pub trap_pairs: u64,
}

impl Default for Config {
    fn default() -> Self {
        defaults()
    }
}

/// What `toy-rlhf` measures.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// Demo 1: the optimum over a sweep of β.
    pub closed_form: ClosedForm,
    /// Demo 2: REINFORCE on the true reward.
    pub reinforce: ReinforceResult,
    /// Demo 3: DPO on growing data sets.
    pub dpo: DpoResult,
    /// Demo 4: the reward that the last DPO policy implies.
    pub implicit_reward: ImplicitReward,
    /// Demo 5: DPO and IPO on preferences without noise.
    pub dpo_trap: DpoTrap,
}

/// π* for every β of the sweep.
#[derive(Clone, Debug, Serialize)]
pub struct ClosedForm {
    /// What the answers are like.
    pub answers: Vec<&'static str>,
    /// True reward of each.
    pub r_true: Vec<f64>,
    /// Reference probability of each.
    pub pi_ref: Vec<f64>,
    /// E\[r*\] under the reference.
    pub reference_reward: f64,
    /// One row per β.
    pub rows: Vec<OptimumRow>,
}

/// The optimum at one β.
#[derive(Clone, Debug, Serialize)]
pub struct OptimumRow {
    /// KL weight.
    pub beta: f64,
    /// E\[r*\] under π*.
    pub expected_reward: f64,
    /// KL(π* ‖ π_ref), nats.
    pub kl: f64,
    /// π*.
    pub policy: Vec<f64>,
}

/// A policy's standing at one moment of training.
#[derive(Clone, Debug, Serialize)]
pub struct CurveRow {
    /// Updates done.
    pub step: u64,
    /// Total variation distance to π*.
    pub tv: f64,
    /// E\[r*\].
    pub expected_reward: f64,
    /// KL(π ‖ π_ref), nats.
    pub kl: f64,
}

/// REINFORCE against π*.
#[derive(Clone, Debug, Serialize)]
pub struct ReinforceResult {
    /// KL weight.
    pub beta: f64,
    /// π*.
    pub target: Vec<f64>,
    /// The trained policy.
    pub policy: Vec<f64>,
    /// Its total variation distance to π*.
    pub tv: f64,
    /// E\[r*\] − β KL, what RLHF maximises, under the trained policy.
    pub objective: f64,
    /// The same under π*: the most that is possible.
    pub optimum: f64,
    /// Training, from the reference (step 0) to the last update.
    pub curve: Vec<CurveRow>,
}

/// DPO on growing data.
#[derive(Clone, Debug, Serialize)]
pub struct DpoResult {
    /// KL weight.
    pub beta: f64,
    /// One row per data set, from the smallest to the largest.
    pub rows: Vec<DpoRow>,
}

/// DPO on one data set.
#[derive(Clone, Debug, Serialize)]
pub struct DpoRow {
    /// Pairs sampled.
    pub pairs: u64,
    /// Pairs left without those of one answer twice.
    pub kept: u64,
    /// Total variation distance to π*.
    pub tv: f64,
    /// The distance expected of the maximum-likelihood policy on so many pairs; `null` for too few to say.
    pub tv_expected: Option<f64>,
    /// The largest entry of the gradient at the end: 0 where training has converged.
    pub gradient: f64,
    /// E\[r*\].
    pub expected_reward: f64,
    /// KL(π ‖ π_ref), nats.
    pub kl: f64,
    /// The trained policy.
    pub policy: Vec<f64>,
}

/// True and implied rewards, each less its mean over the answers.
#[derive(Clone, Debug, Serialize)]
pub struct ImplicitReward {
    /// r* − mean.
    pub true_centered: Vec<f64>,
    /// β log(π/π_ref) − mean, for DPO on the largest data set.
    pub implicit_centered: Vec<f64>,
}

/// Training on preferences that never err.
#[derive(Clone, Debug, Serialize)]
pub struct DpoTrap {
    /// KL weight β of DPO, and τ of IPO.
    pub beta: f64,
    /// π* of the best answer.
    pub target_p0: f64,
    /// KL(π* ‖ π_ref), nats.
    pub target_kl: f64,
    /// Pairs left without those of one answer twice.
    pub kept: u64,
    /// DPO along training.
    pub rows: Vec<TrapRow>,
    /// IPO on the same pairs.
    pub ipo: Vec<TrapRow>,
}

/// One moment of training in the trap.
#[derive(Clone, Debug, Serialize)]
pub struct TrapRow {
    /// Full-batch steps done.
    pub step: u64,
    /// Probability of the best answer.
    pub p0: f64,
    /// Total variation distance to π*.
    pub tv: f64,
    /// KL(π ‖ π_ref), nats.
    pub kl: f64,
}

impl Demo for Config {
    const COMMAND: &'static str = "toy-rlhf";
    const QUICK: &'static [(&'static str, &'static str)] =
        &[("steps", "300"), ("pairs", "100,1000"), ("dpo_steps", "400"), ("trap_pairs", "1000")];
    type Results = Results;

    fn check(&self) -> Result<(), String> {
        let samples = self.steps.saturating_mul(self.batch);
        if samples > 1_000_000_000 {
            return Err(format!("--steps x --batch is {samples} samples; at most 1000000000 are allowed"));
        }
        // A full-batch step costs about two microseconds, and the trap takes two fits.
        let steps = self.dpo_steps.saturating_mul(self.pairs.len() as u64 + 2);
        if steps > 200_000_000 {
            return Err(format!(
                "--dpo-steps for each of --pairs and twice for the trap are {steps} steps; \
                 at most 200000000 are allowed"
            ));
        }
        if self.sweep.len() > 1000 {
            return Err(format!("--sweep lists {} numbers; at most 1000 are allowed", self.sweep.len()));
        }
        Ok(())
    }

    fn run(&self, lab: &Lab) -> Result<Results> {
        let experiment = Experiment::new(self, lab.seed);
        let progress = lab.progress;
        progress.begin("closed form", 1);
        let closed_form = experiment.closed_form();
        progress.begin("REINFORCE", self.steps);
        let reinforce = experiment.reinforce(progress);
        progress.begin("DPO", self.pairs.len() as u64);
        let (dpo, log_pi) = experiment.dpo(progress);
        let implicit_reward = experiment.implicit_reward(&log_pi);
        progress.begin("noiseless preferences", 2);
        let dpo_trap = experiment.trap(progress);
        Ok(Results { closed_form, reinforce, dpo, implicit_reward, dpo_trap })
    }
}

/// The world, its optimum and the random streams that the five demos share.
struct Experiment<'a> {
    config: &'a Config,
    world: CategoricalWorld,
    log_star: Vec<f64>,
    rng: Rng,
}

impl<'a> Experiment<'a> {
    fn new(config: &'a Config, seed: u64) -> Self {
        let world = CategoricalWorld::six_answers();
        let log_star = log_optimal_policy(&world.log_ref, &world.reward, config.beta);
        let rng = Rng::new(seed).fork(Config::COMMAND);
        Self { config, world, log_star, rng }
    }

    fn tv_to_optimum(&self, log_pi: &[f64]) -> f64 {
        total_variation(&probabilities(log_pi), &probabilities(&self.log_star))
    }

    fn closed_form(&self) -> ClosedForm {
        let CategoricalWorld { reward, log_ref } = &self.world;
        let row = |&beta: &f64| {
            let log_star = log_optimal_policy(log_ref, reward, beta);
            OptimumRow {
                beta,
                expected_reward: expected_reward(&log_star, reward),
                kl: kl_divergence(&log_star, log_ref),
                policy: probabilities(&log_star),
            }
        };
        ClosedForm {
            answers: SIX_ANSWERS.to_vec(),
            r_true: reward.clone(),
            pi_ref: self.world.reference(),
            reference_reward: expected_reward(log_ref, reward),
            rows: self.config.sweep.iter().map(row).collect(),
        }
    }

    fn reinforce(&self, progress: &dyn Progress) -> ReinforceResult {
        let CategoricalWorld { reward, log_ref } = &self.world;
        let config = self.config;
        let settings =
            Reinforce { steps: config.steps, batch: config.batch as usize, lr: config.lr, beta: config.beta };
        let every = recording_interval(config.steps, 60);
        let mut curve = Vec::new();
        let mut rng = self.rng.fork("reinforce");
        let log_pi = train_reinforce(log_ref, reward, settings, &mut rng, |step, log_pi| {
            if step % every == 0 || step == config.steps {
                let tv = self.tv_to_optimum(log_pi);
                curve.push(CurveRow {
                    step,
                    tv,
                    expected_reward: expected_reward(log_pi, reward),
                    kl: kl_divergence(log_pi, log_ref),
                });
                progress.metric(&format!("TV to the optimum {tv:.4}"));
                progress.reach(step);
            }
        });
        ReinforceResult {
            beta: config.beta,
            target: probabilities(&self.log_star),
            policy: probabilities(&log_pi),
            tv: self.tv_to_optimum(&log_pi),
            objective: objective(&log_pi, log_ref, reward, config.beta),
            optimum: objective(&self.log_star, log_ref, reward, config.beta),
            curve,
        }
    }

    /// DPO on every data set, and log π after the largest.
    fn dpo(&self, progress: &dyn Progress) -> (DpoResult, Vec<f64>) {
        let CategoricalWorld { reward, log_ref } = &self.world;
        let beta = self.config.beta;
        let mut sampler = self.world.pair_sampler(Labeller::BradleyTerry, self.rng.fork("preferences"));
        let mut counts = PreferenceCounts::default();
        let mut rows = Vec::new();
        let mut log_pi = log_ref.clone();
        for pairs in ascending(&self.config.pairs) {
            let fresh = pairs - counts.kept() - counts.dropped();
            sampler.sample_into(&mut counts, fresh);
            let loss = |margin| dpo_loss(margin, beta);
            let fitted = fit_preferences(log_ref, &counts.kinds(), loss, self.fit(), |_, _| {});
            log_pi = fitted.log_pi;
            let n = pairs as f64;
            rows.push(DpoRow {
                pairs,
                kept: counts.kept(),
                tv: self.tv_to_optimum(&log_pi),
                tv_expected: expected_total_variation(log_ref, &self.log_star, reward, beta, n),
                gradient: fitted.gradient,
                expected_reward: expected_reward(&log_pi, reward),
                kl: kl_divergence(&log_pi, log_ref),
                policy: probabilities(&log_pi),
            });
            progress.advance(1);
        }
        (DpoResult { beta, rows }, log_pi)
    }

    fn implicit_reward(&self, log_pi: &[f64]) -> ImplicitReward {
        ImplicitReward {
            true_centered: centered(&self.world.reward),
            implicit_centered: implicit_rewards(log_pi, &self.world.log_ref, self.config.beta),
        }
    }

    fn trap(&self, progress: &dyn Progress) -> DpoTrap {
        let log_ref = &self.world.log_ref;
        let beta = self.config.beta;
        let mut counts = PreferenceCounts::default();
        self.world
            .pair_sampler(Labeller::Noiseless, self.rng.fork("noiseless preferences"))
            .sample_into(&mut counts, self.config.trap_pairs);
        let kinds = counts.kinds();
        DpoTrap {
            beta,
            target_p0: self.log_star[0].exp(),
            target_kl: kl_divergence(&self.log_star, log_ref),
            kept: counts.kept(),
            rows: self.trap_curve(&kinds, |margin| dpo_loss(margin, beta), progress),
            ipo: self.trap_curve(&kinds, |margin| ipo_loss(margin, beta), progress),
        }
    }

    fn trap_curve(
        &self,
        kinds: &[PairKind],
        loss: impl Fn(f64) -> PairLoss,
        progress: &dyn Progress,
    ) -> Vec<TrapRow> {
        let (log_ref, steps) = (&self.world.log_ref, self.config.dpo_steps);
        let every = recording_interval(steps, 10);
        let mut rows = Vec::new();
        fit_preferences(log_ref, kinds, loss, self.fit(), |step, log_pi| {
            if step % every == 0 || step == steps {
                let kl = kl_divergence(log_pi, log_ref);
                rows.push(TrapRow { step, p0: log_pi[0].exp(), tv: self.tv_to_optimum(log_pi), kl });
            }
        });
        progress.advance(1);
        rows
    }

    fn fit(&self) -> PreferenceFit {
        PreferenceFit { steps: self.config.dpo_steps, lr: self.config.lr }
    }
}

/// Every how many of `steps` steps to record, for about `rows` rows.
fn recording_interval(steps: u64, rows: u64) -> u64 {
    (steps / rows).max(1)
}
