//! `reason-grpo`: reinforcement learning with a rule reward teaches a model to think, or to be lazy.

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::algorithms::divergence::Divergence;
use crate::algorithms::estimators::{KlEstimator, share_without_contrast};
use crate::algorithms::grpo::Grpo;
use crate::algorithms::policy_gradient::{PolicyGradient, Step};
use crate::algorithms::reinforce::{Baseline, Reduction, Reinforce};
use crate::demos::args::{count, defaults, number};
use crate::demos::demo::{Demo, Lab};
use crate::demos::reason_base::ReasonBase;
use crate::demos::reasoning::{DigitSums, Examination};
use crate::foundation::rng::Rng;
use crate::foundation::stats::mean;
use crate::model::gpt::Gpt;
use crate::policy::sampling::Rollout;
use crate::worlds::digit_sum::evaluation::{Evaluation, Shares, respond, sampled};
use crate::worlds::digit_sum::problem::{K_MAX, K_MIN, Problem, vocab};
use crate::worlds::digit_sum::response::Parsed;

/// Hyperparameters of `reason-grpo`.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Config {
    /// Algorithms, each starting from the same base model
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_enum, ignore_case = true,
          default_values_t = Algorithm::value_variants().to_vec())]
    pub algo: Vec<Algorithm>,

    /// Batches of responses
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = count(1..=100_000))]
    pub steps: u64,

    /// Problems per batch
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = count(1..=4096))]
    pub prompts: u64,

    /// Responses per problem, at least two: they are each other's baseline
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = count(2..=4096))]
    pub group: u64,

    /// Learning rate of Adam
    #[arg(long, value_name = "X", default_value_t = 3e-5, value_parser = number(0.0..=1e30))]
    pub lr: f64,

    /// Weight of GRPO's KL penalty
    #[arg(long, value_name = "X", default_value_t = 0.04, value_parser = number(0.0..=1e3))]
    pub beta: f64,

    /// Estimator of that KL
    #[arg(long, value_name = "NAME", value_enum, ignore_case = true, default_value_t = Estimator::K3)]
    pub kl: Estimator,

    /// Clip of GRPO's importance ratio
    #[arg(long, value_name = "X", default_value_t = 0.2, value_parser = number(0.0..=1.0))]
    pub clip: f64,

    /// GRPO updates per batch
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = count(1..=64))]
    pub inner: u64,

    /// Fewest digits of a problem
    #[arg(long, value_name = "N", default_value_t = K_MIN as u64, value_parser = count(1..=K_MAX as u64))]
    pub k_min: u64,

    /// Most digits of a problem
    #[arg(long, value_name = "N", default_value_t = K_MAX as u64, value_parser = count(1..=K_MAX as u64))]
    pub k_max: u64,

    /// Fresh problems of the examination before and after
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = count(1..=1_000_000))]
    pub problems: u64,
}

impl Default for Config {
    fn default() -> Self {
        defaults()
    }
}

/// What can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Group-relative advantages, clipped ratios, KL penalty
    Grpo,
    /// The control: REINFORCE on the raw reward, without baseline, clip or penalty; like GRPO it divides
    /// each response by its length
    Reinforce,
    /// The control of the control: the same without the division
    ReinforceSum,
}

impl Algorithm {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Grpo => "GRPO",
            Self::Reinforce => "REINFORCE",
            Self::ReinforceSum => "REINFORCE-sum",
        }
    }
}

/// Estimators of the KL penalty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Estimator {
    /// log-ratio; as a penalty it has no expected gradient
    K1,
    /// half the squared log-ratio; its gradient is that of KL(policy || reference)
    K2,
    /// DeepSeekMath's; its gradient is that of KL(reference || policy)
    K3,
}

/// What `reason-grpo` measures.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// The base model, examined.
    pub base: Examination,
    /// One entry per algorithm.
    pub runs: Vec<Run>,
    /// A few problems with a response of each policy.
    pub samples: Vec<Sample>,
}

/// One trained policy.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// What trained it.
    pub algo: Algorithm,
    /// Each step, measured on its own batch before its updates.
    pub curve: Vec<CurveRow>,
    /// The policy at the end, examined on the same problems as the base; none if it diverged.
    #[serde(rename = "final")]
    pub last: Option<Examination>,
    /// Where training left the finite numbers, if it did.
    pub diverged: Option<Divergence>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CurveRow {
    /// Steps begun.
    pub step: u64,
    /// Mean rule reward.
    pub reward: f64,
    /// Share of right answers.
    pub acc: f64,
    /// Mean tokens of a response.
    pub length: f64,
    /// Shares of the formats.
    pub share: Shares,
    /// KL(π ‖ π_ref) per token, nats: the mean of k3 over all tokens of the batch. 0 at step 1.
    pub kl: f64,
    /// Share of tokens without gradient because of the clip, mean over the step's updates; 0 where there
    /// is one update per batch.
    pub clip_fraction: f64,
    /// Norm of the gradient before clipping, mean over the step's updates.
    pub gradient_norm: f64,
    /// Share of groups with equal rewards.
    pub no_contrast: f64,
}

/// A problem and what each policy answers, sampled from the same stream.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// The prompt in words.
    pub prompt: String,
    /// Whose response, in words; `base` first, then the algorithms.
    pub responses: Vec<(String, String)>,
}

impl Demo for Config {
    const COMMAND: &'static str = "reason-grpo";
    const QUICK: &'static [(&'static str, &'static str)] =
        &[("steps", "5"), ("prompts", "4"), ("problems", "50")];
    type Results = Results;

    fn check(&self) -> Result<(), String> {
        if self.k_min > self.k_max {
            return Err(format!(
                "--k-min {} is above --k-max {}: no problem has so few and so many digits",
                self.k_min, self.k_max
            ));
        }
        let batch = self.prompts * self.group;
        if batch > 4096 {
            // Training keeps about 0.2 MB per response.
            return Err(format!("--prompts x --group is {batch}; at most 4096 responses fit a batch"));
        }
        Ok(())
    }

    fn run(&self, lab: &Lab) -> Result<Results> {
        let base = lab.checkpoints.obtain(&ReasonBase::default(), lab.progress)?;
        let rng = Rng::new(lab.seed).fork(Self::COMMAND);
        let environment = DigitSums { lengths: (self.k_min as usize, self.k_max as usize) };
        let problems = environment.problems(self.problems, &mut rng.fork("problems"));
        let examine = |model: &Gpt| Examination::of(model, &problems, &rng.fork("examination"));
        let show = |model: &Gpt| -> Result<Vec<String>> {
            let problems = &problems[..problems.len().min(SAMPLES)];
            let rollouts = respond(&model.no_grad(), problems, &sampled(), &rng.fork("samples"))?;
            Ok(rollouts.iter().map(|rollout| vocab().decode(&rollout.tokens)).collect())
        };
        lab.progress.begin("examination", 1);
        let before = examine(&base)?;
        let mut samples: Vec<Sample> = std::iter::zip(&problems, show(&base)?)
            .map(|(problem, response)| Sample {
                prompt: vocab().decode(&problem.prompt()),
                responses: vec![("base".into(), response)],
            })
            .collect();
        let mut runs = Vec::new();
        for &algo in &self.algo {
            let policy = base.duplicate()?;
            let (curve, diverged) =
                self.train(algo, &policy, &base, environment, &rng.fork("training"), lab)?;
            let last = if diverged.is_none() { Some(examine(&policy)?) } else { None };
            if diverged.is_none() {
                for (sample, response) in samples.iter_mut().zip(show(&policy)?) {
                    sample.responses.push((algo.name().into(), response));
                }
            }
            runs.push(Run { algo, curve, last, diverged });
        }
        Ok(Results { base: before, runs, samples })
    }
}

/// Problems shown with their responses.
const SAMPLES: usize = 5;

impl Config {
    /// A copy of `base` after GRPO under these settings.
    ///
    /// # Errors
    /// If training diverges.
    pub fn trained(&self, base: &Gpt, rng: &Rng, lab: &Lab) -> Result<Gpt> {
        let policy = base.duplicate()?;
        let environment = DigitSums { lengths: (self.k_min as usize, self.k_max as usize) };
        match self.train(Algorithm::Grpo, &policy, base, environment, rng, lab)? {
            (_, None) => Ok(policy),
            (_, Some(divergence)) => Err(anyhow::anyhow!("GRPO diverged: {divergence}")),
        }
    }

    fn train(
        &self,
        algo: Algorithm,
        policy: &Gpt,
        reference: &Gpt,
        environment: DigitSums,
        rng: &Rng,
        lab: &Lab,
    ) -> Result<(Vec<CurveRow>, Option<Divergence>)> {
        let options = PolicyGradient {
            steps: self.steps as usize,
            prompts: self.prompts as usize,
            group: self.group as usize,
            lr: self.lr,
            sampling: sampled(),
        };
        let mut curve = Vec::new();
        lab.progress.begin(algo.name(), self.steps);
        let watch = |step: &Step<Problem>| {
            let row = curve_row(step);
            lab.progress.metric(&format!("accuracy {:.2}, length {:.1}", row.acc, row.length));
            lab.progress.advance(1);
            curve.push(row);
            Ok(())
        };
        let diverged = match algo {
            Algorithm::Grpo => {
                let kl = match self.kl {
                    Estimator::K1 => KlEstimator::K1,
                    Estimator::K2 => KlEstimator::K2,
                    Estimator::K3 => KlEstimator::K3,
                };
                let grpo = Grpo { inner: self.inner as usize, clip: self.clip, beta: self.beta, kl };
                options.train(policy, reference, &environment, &grpo, rng, watch)?
            }
            Algorithm::Reinforce | Algorithm::ReinforceSum => {
                let reduction = match algo {
                    Algorithm::ReinforceSum => Reduction::Sum,
                    _ => Reduction::TokenMean,
                };
                let reinforce = Reinforce { baseline: Baseline::None, reduction, beta: 0.0 };
                options.train(policy, reference, &environment, &reinforce, rng, watch)?
            }
        };
        Ok((curve, diverged))
    }
}

fn curve_row(step: &Step<Problem>) -> CurveRow {
    let experience = step.experience;
    let parse = |rollout: &Rollout| Parsed::new(&rollout.tokens);
    let Evaluation { acc, length, share, .. } =
        Evaluation::new(step.problems, &experience.rollouts.iter().map(parse).collect::<Vec<_>>());
    CurveRow {
        step: step.step as u64,
        reward: mean(&experience.rewards).unwrap_or_default(),
        acc,
        length,
        share,
        kl: experience.kl_per_token(),
        clip_fraction: step.clip_fraction,
        gradient_norm: step.gradient_norm,
        no_contrast: share_without_contrast(&experience.rewards, experience.group),
    }
}
