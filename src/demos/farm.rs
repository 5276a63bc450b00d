//! What the demos on the farm share: the environment of reinforcement learning, and how policies are
//! measured.

use anyhow::Result;
use serde::Serialize;

use crate::algorithms::policy_gradient::Environment;
use crate::algorithms::reward_model::score;
use crate::foundation::rng::Rng;
use crate::foundation::stats::{mean, standard_error};
use crate::model::gpt::Gpt;
use crate::policy::logprob::seq_logprob;
use crate::policy::sampling::{Rollout, sample};
use crate::worlds::farm::evaluation::{Figures, reward, sampled, verdicts};
use crate::worlds::farm::language::{DESCRIBE, Prompt, vocab};
use crate::worlds::farm::response::Fault;

/// Who judges.
#[derive(Clone, Debug)]
pub enum Judge {
    /// People: r*.
    People,
    /// A reward model.
    Model(Gpt),
}

/// Requests for descriptions in trained templates, and a judge of the responses.
#[derive(Clone, Debug)]
pub struct Descriptions {
    /// Who rewards.
    pub judge: Judge,
}

impl Environment for Descriptions {
    type Problem = Prompt;

    fn draw(&self, rng: &mut Rng) -> Prompt {
        Prompt::sample(&DESCRIBE, rng)
    }

    fn prompt(&self, problem: &Prompt) -> Vec<u32> {
        problem.tokens()
    }

    fn rewards(&self, problems: &[Prompt], responses: &[Rollout]) -> Result<Vec<f64>> {
        match &self.judge {
            Judge::People => Ok(verdicts(problems, responses).iter().map(reward).collect()),
            Judge::Model(model) => {
                let prompts: Vec<Vec<u32>> = problems.iter().map(Prompt::tokens).collect();
                score(model, &prompts, &tokens(responses))
            }
        }
    }
}

/// The tokens of each response.
pub fn tokens(responses: &[Rollout]) -> Vec<Vec<u32>> {
    responses.iter().map(|rollout| rollout.tokens.clone()).collect()
}

/// A response as text: without its end token if it stopped, and with `…` if it did not.
pub fn text(response: &[u32], stopped: bool) -> String {
    if stopped {
        vocab().decode(&response[..response.len() - 1])
    } else {
        format!("{} …", vocab().decode(response))
    }
}

/// Fresh prompts that every policy of a run answers.
#[derive(Clone, Debug)]
pub struct Panel {
    prompts: Vec<Prompt>,
    texts: Vec<Vec<u32>>,
    rng: Rng,
}

/// A policy's responses to a panel, judged by both.
#[derive(Clone, Debug)]
pub struct Answers {
    /// What was said.
    pub rollouts: Vec<Rollout>,
    /// What people think of it.
    pub verdicts: Vec<Result<f64, Fault>>,
    /// What the reward model thinks of it.
    pub scores: Vec<f64>,
    /// log π − log π_ref of each response.
    pub log_ratios: Vec<f64>,
}

/// A policy's responses in figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Mean score of the reward model.
    pub rm: f64,
    /// What people think.
    #[serde(flatten)]
    pub figures: Figures,
    /// KL(π ‖ π_ref) in nats per response: the mean of log π − log π_ref, which can be slightly negative.
    pub kl: f64,
    /// Standard error of `rm`.
    pub rm_se: Option<f64>,
    /// Standard error of `true`.
    pub true_se: Option<f64>,
    /// Standard error of `kl`.
    pub kl_se: Option<f64>,
}

impl Panel {
    /// `n` fresh prompts from `rng`, which also gives each response its stream.
    pub fn new(templates: &[&'static str], n: u64, rng: &Rng) -> Self {
        let mut stream = rng.fork("prompts");
        let prompts: Vec<Prompt> = (0..n).map(|_| Prompt::sample(templates, &mut stream)).collect();
        let texts = prompts.iter().map(Prompt::tokens).collect();
        Self { prompts, texts, rng: rng.fork("responses") }
    }

    /// The same prompt `n` times.
    pub fn of_one(prompt: Prompt, n: u64, rng: &Rng) -> Self {
        let prompts = vec![prompt; n as usize];
        let texts = prompts.iter().map(Prompt::tokens).collect();
        Self { prompts, texts, rng: rng.clone() }
    }

    /// The prompts.
    pub fn prompts(&self) -> &[Prompt] {
        &self.prompts
    }

    /// Lets `policy` answer; response i draws from the same stream whoever answers.
    ///
    /// # Errors
    /// If a prompt does not fit the model.
    pub fn ask(&self, policy: &Gpt, reference: &Gpt, reward_model: &Gpt) -> Result<Answers> {
        let rollouts = sample(&policy.no_grad(), &self.texts, 1, &sampled(), &self.rng)?;
        let responses = tokens(&rollouts);
        let reference = seq_logprob(&reference.no_grad(), &self.texts, &responses)?.to_vec1::<f32>()?;
        let log_ratios =
            rollouts.iter().zip(reference).map(|(rollout, lp)| rollout.logprob() - f64::from(lp));
        Ok(Answers {
            log_ratios: log_ratios.collect(),
            verdicts: verdicts(&self.prompts, &rollouts),
            scores: score(reward_model, &self.texts, &responses)?,
            rollouts,
        })
    }
}

impl Answers {
    /// r* of each response.
    pub fn rewards(&self) -> Vec<f64> {
        self.verdicts.iter().map(reward).collect()
    }

    /// The figures; there must be at least one response.
    pub fn measure(&self) -> Measured {
        Measured {
            rm: mean(&self.scores).unwrap_or_default(),
            figures: Figures::new(&self.verdicts),
            kl: mean(&self.log_ratios).unwrap_or_default(),
            rm_se: standard_error(&self.scores),
            true_se: standard_error(&self.rewards()),
            kl_se: standard_error(&self.log_ratios),
        }
    }
}
