//! `test-time`: accuracy bought with tokens, by thinking longer or by sampling more often.

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::demos::args::{ascending, count, defaults};
use crate::demos::demo::{Demo, Lab};
use crate::demos::reason_base::ReasonBase;
use crate::demos::reason_grpo;
use crate::demos::reasoning::ALL_LENGTHS;
use crate::demos::star_base::StarBase;
use crate::foundation::rng::Rng;
use crate::foundation::stats::{mean, standard_error};
use crate::model::gpt::Gpt;
use crate::policy::sampling::{Sampling, sample};
use crate::worlds::digit_sum::evaluation::{evaluate, forced, greedy, sampled};
use crate::worlds::digit_sum::problem::{Format, Problem};
use crate::worlds::digit_sum::response::Parsed;
use crate::worlds::digit_sum::voting::{first_verified, majority};

/// Hyperparameters of `test-time`.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Config {
    /// Policies
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_enum, ignore_case = true,
          default_values_t = Policy::value_variants().to_vec())]
    pub policy: Vec<Policy>,

    /// Samples per problem
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32],
          value_parser = count(1..=1024))]
    pub k: Vec<u64>,

    /// Fresh problems
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = count(2..=100_000))]
    pub problems: u64,

    /// GRPO steps
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = count(1..=100_000))]
    pub steps: u64,
}

impl Default for Config {
    fn default() -> Self {
        defaults()
    }
}

/// Whose responses are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// The model that thinks well and is lazy
    Base,
    /// The same after GRPO with the defaults of reason-grpo
    Grpo,
    /// The base model of star, whose chains are often wrong
    Star,
}

impl Policy {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Grpo => "GRPO",
            Self::Star => "star-base",
        }
    }
}

impl Policy {
    /// What it can be made to write; `None` is its own choice.
    fn formats(self) -> &'static [Option<Format>] {
        match self {
            Self::Base | Self::Grpo => &[None, Some(Format::Direct), Some(Format::Short), Some(Format::Full)],
            Self::Star => &[None, Some(Format::Direct), Some(Format::Full)], // It never saw a short chain.
        }
    }
}

/// How k responses become one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// The most frequent answer (self-consistency).
    Vote,
    /// The answer of the first chain whose every step is right; the most frequent one if there is none.
    Verified,
}

/// What `test-time` measures.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// One row per policy, strategy and k.
    pub rows: Vec<Row>,
    /// Where voting ends with ever more samples.
    pub limits: Vec<Limit>,
}

/// Accuracy at a price.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Whose responses.
    pub policy: Policy,
    /// The format that is forced, or `free` for the policy's own choice.
    pub format: &'static str,
    /// How the responses become one answer.
    pub rule: Rule,
    /// Format and rule in one word.
    pub strategy: String,
    /// Responses per problem.
    pub k: u64,
    /// Share of right answers: the mean over all disjoint blocks of k among a problem's samples.
    pub acc: f64,
    /// Standard error of `acc` over problems.
    pub se: f64,
    /// Mean tokens spent per problem, all k responses together.
    pub tokens: f64,
}

/// The vote of infinitely many direct answers: that for the most probable digit, exactly.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// Whose answers.
    pub policy: Policy,
    /// Share of problems whose most probable direct answer is right.
    pub direct_vote: f64,
}

impl Demo for Config {
    const COMMAND: &'static str = "test-time";
    const QUICK: &'static [(&'static str, &'static str)] =
        &[("k", "1,4"), ("problems", "40"), ("steps", "3")];
    type Results = Results;

    fn check(&self) -> Result<(), String> {
        let most = self.k.iter().max().copied().unwrap_or(1);
        if most.saturating_mul(self.problems) > 2_000_000 {
            return Err(format!(
                "--problems x the largest --k is {}; at most 2000000 responses per strategy are allowed",
                most * self.problems
            ));
        }
        Ok(())
    }

    fn run(&self, lab: &Lab) -> Result<Results> {
        let rng = Rng::new(lab.seed).fork(Self::COMMAND);
        let problems = ALL_LENGTHS.problems(self.problems, &mut rng.fork("problems"));
        let mut results = Results { rows: Vec::new(), limits: Vec::new() };
        for &policy in &self.policy {
            let model = match policy {
                Policy::Base => lab.checkpoints.obtain(&ReasonBase::default(), lab.progress)?,
                Policy::Star => lab.checkpoints.obtain(&StarBase::default(), lab.progress)?,
                Policy::Grpo => {
                    let base = lab.checkpoints.obtain(&ReasonBase::default(), lab.progress)?;
                    let grpo = reason_grpo::Config { steps: self.steps, ..reason_grpo::Config::default() };
                    grpo.trained(&base, &rng.fork("grpo"), lab)?
                }
            };
            let model = model.no_grad();
            let formats = policy.formats();
            lab.progress.begin(&format!("sampling, {}", policy.name()), formats.len() as u64);
            for &format in formats {
                let rng = rng.fork("responses").fork(format.map_or("free", Format::name));
                results.rows.extend(self.rows(policy, &model, &problems, format, &rng)?);
                lab.progress.advance(1);
            }
            let direct = evaluate(&model, &problems, &forced(Format::Direct, greedy()), &rng)?;
            results.limits.push(Limit { policy, direct_vote: direct.acc });
        }
        Ok(results)
    }
}

impl Config {
    /// Every rule and k for one policy and format, from the same samples.
    fn rows(
        &self,
        policy: Policy,
        model: &Gpt,
        problems: &[Problem],
        format: Option<Format>,
        rng: &Rng,
    ) -> Result<Vec<Row>> {
        let sizes = ascending(&self.k);
        let most = sizes.last().copied().unwrap_or(1) as usize;
        let how: Sampling = format.map_or_else(sampled, |format| forced(format, sampled()));
        let prompts: Vec<Vec<u32>> = problems.iter().map(Problem::prompt).collect();
        let responses: Vec<Parsed> = sample(model, &prompts, most, &how, rng)?
            .iter()
            .map(|rollout| Parsed::new(&rollout.tokens))
            .collect();
        let mut rows = Vec::new();
        for rule in [Rule::Vote, Rule::Verified] {
            if rule == Rule::Verified && format == Some(Format::Direct) {
                continue; // There is no step to verify.
            }
            for &k in &sizes {
                rows.push(row(policy, format, rule, k, problems, responses.chunks_exact(most)));
            }
        }
        Ok(rows)
    }
}

/// One row, from all responses to each problem.
fn row<'a>(
    policy: Policy,
    format: Option<Format>,
    rule: Rule,
    k: u64,
    problems: &[Problem],
    responses: impl Iterator<Item = &'a [Parsed]>,
) -> Row {
    let (mut accuracies, mut tokens) = (Vec::new(), Vec::new());
    for (problem, responses) in problems.iter().zip(responses) {
        let blocks = responses.chunks_exact(k as usize);
        let right = blocks.clone().map(|block| {
            let answer = match rule {
                Rule::Vote => majority(block),
                Rule::Verified => first_verified(problem, block).or_else(|| majority(block)),
            };
            f64::from(u8::from(answer == Some(problem.answer())))
        });
        accuracies.push(mean(&right.collect::<Vec<_>>()).expect("at least one block"));
        let lengths: Vec<f64> = blocks.flatten().map(|response| response.length as f64).collect();
        tokens.push(k as f64 * mean(&lengths).expect("at least one response"));
    }
    let format = format.map_or("free", Format::name);
    Row {
        policy,
        format,
        rule,
        strategy: match rule {
            Rule::Vote => format!("{format} vote"),
            Rule::Verified => format!("{format} verified"),
        },
        k,
        acc: mean(&accuracies).expect("--problems is at least 2"),
        se: standard_error(&accuracies).expect("--problems is at least 2"),
        tokens: mean(&tokens).expect("--problems is at least 2"),
    }
}
