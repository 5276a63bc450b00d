//! `star`: the self-taught reasoner. Sample chains, keep those that end at the right answer, retrain from
//! the base, repeat (Zelikman et al. 2022).

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::algorithms::supervised::Supervised;
use crate::demos::args::{count, defaults, number};
use crate::demos::demo::{Demo, Lab};
use crate::demos::reasoning::ALL_LENGTHS;
use crate::demos::star_base::StarBase;
use crate::foundation::demonstration::Demonstration;
use crate::foundation::rng::Rng;
use crate::model::gpt::Gpt;
use crate::worlds::digit_sum::evaluation::{Evaluation, evaluate, forced, greedy, respond, sampled};
use crate::worlds::digit_sum::problem::{Format, Problem};
use crate::worlds::digit_sum::response::{Parsed, chance_of_cancelling, slips};

/// Hyperparameters of `star`.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Config {
    /// Rounds of sampling, filtering and retraining
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = count(1..=100))]
    pub rounds: u64,

    /// Fresh problems that each round samples a chain for
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = count(1..=1_000_000))]
    pub problems: u64,

    /// Updates of each retraining
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = count(1..=1_000_000))]
    pub steps: u64,

    /// Demonstrations per update
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = count(1..=4096))]
    pub batch: u64,

    /// Largest learning rate of AdamW
    #[arg(long, value_name = "X", default_value_t = 1e-3, value_parser = number(0.0..=1e30))]
    pub lr: f64,

    /// Fresh problems of each evaluation
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = count(1..=1_000_000))]
    pub evaluation: u64,
}

impl Default for Config {
    fn default() -> Self {
        defaults()
    }
}

/// What `star` measures.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// Human chains in every training set.
    pub human: u64,
    /// The base model, made to write full chains.
    pub start: Evaluation,
    /// STaR, round by round.
    pub rounds: Vec<Round>,
    /// The same budget spent otherwise.
    pub controls: Vec<Control>,
}

/// One round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Round {
    /// 1, 2, ..
    pub round: u64,
    /// What was sampled and kept.
    #[serde(flatten)]
    pub tally: Tally,
    /// Right answers of the retrained model, made to write full chains, greedy.
    pub acc: f64,
    /// Right chains among its responses.
    pub chain_ok: Option<f64>,
}

/// The chains sampled in one round.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Tally {
    /// Chains sampled.
    pub sampled: u64,
    /// Chains kept for training.
    pub kept: u64,
    /// Of those, chains with a wrong step.
    pub kept_wrong_chain: u64,
    /// Sampled chains whose slips can be counted, complete and of the right number of steps, and that
    /// have at least one.
    pub slipped: u64,
    /// Of those, the ones whose slips cancel, so that the answer is right.
    pub cancelled: u64,
    /// How many would if every slip had a uniform size.
    pub cancelled_by_chance: f64,
    /// The variance of that number.
    pub cancelled_variance: f64,
}

/// A control at its end.
#[derive(Clone, Debug, Serialize)]
pub struct Control {
    /// What it does instead.
    pub name: &'static str,
    /// Right answers after the last round.
    pub acc: f64,
    /// Right chains after the last round.
    pub chain_ok: Option<f64>,
    /// Round by round; empty if nothing is sampled.
    pub rounds: Vec<Round>,
}

/// What becomes of a sampled chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filter {
    /// Kept if complete and its answer is right: STaR.
    RightAnswer,
    /// Kept whatever it says.
    None,
}

impl Demo for Config {
    const COMMAND: &'static str = "star";
    const QUICK: &'static [(&'static str, &'static str)] =
        &[("rounds", "2"), ("problems", "100"), ("steps", "10"), ("evaluation", "50")];
    type Results = Results;

    fn run(&self, lab: &Lab) -> Result<Results> {
        let recipe = StarBase::default();
        let base = lab.checkpoints.obtain(&recipe, lab.progress)?;
        let rng = Rng::new(lab.seed).fork(Self::COMMAND);
        let star = Star {
            config: self,
            human: recipe.human_chains(),
            recipe,
            base,
            evaluation: ALL_LENGTHS.problems(self.evaluation, &mut rng.fork("evaluation")),
            lab,
        };
        let start = star.evaluate(&star.base)?;
        let rounds = star.rounds("STaR", Filter::RightAnswer, &rng)?;
        let unfiltered = star.rounds("no filter", Filter::None, &rng)?;
        let last = unfiltered.last().expect("--rounds is at least 1");
        let (acc, chain_ok) = (last.acc, last.chain_ok);
        lab.progress.begin("human chains alone", self.steps);
        let alone = star.evaluate(&star.retrain(&star.human, &rng.fork("human chains alone"))?)?;
        let controls = vec![
            Control { name: "no filter", acc, chain_ok, rounds: unfiltered },
            Control {
                name: "human chains alone",
                acc: alone.acc,
                chain_ok: alone.chain_ok,
                rounds: Vec::new(),
            },
        ];
        Ok(Results { human: star.human.len() as u64, start, rounds, controls })
    }
}

/// What all arms of the experiment share.
struct Star<'a> {
    config: &'a Config,
    recipe: StarBase,
    base: Gpt,
    human: Vec<Demonstration>,
    evaluation: Vec<Problem>,
    lab: &'a Lab<'a>,
}

impl Star<'_> {
    /// Samples with the current model, filters, retrains from the base: `config.rounds` times.
    fn rounds(&self, name: &str, filter: Filter, rng: &Rng) -> Result<Vec<Round>> {
        self.lab.progress.begin(name, self.config.rounds * self.config.steps);
        let mut current = self.base.duplicate()?;
        let mut rounds = Vec::new();
        for round in 1..=self.config.rounds {
            let rng = rng.fork("round").fork(round);
            let problems = ALL_LENGTHS.problems(self.config.problems, &mut rng.fork("problems"));
            let how = forced(Format::Full, sampled());
            let responses = respond(&current.no_grad(), &problems, &how, &rng.fork("chains"))?;
            let mut tally = Tally::default();
            let mut chains = self.human.clone();
            for (problem, response) in problems.iter().zip(responses) {
                if tally.count(problem, &Parsed::new(&response.tokens), filter) {
                    chains.push(Demonstration { prompt: problem.prompt(), response: response.tokens });
                }
            }
            current = self.retrain(&chains, &rng.fork("training"))?;
            let Evaluation { acc, chain_ok, .. } = self.evaluate(&current)?;
            rounds.push(Round { round, tally, acc, chain_ok });
        }
        Ok(rounds)
    }

    /// A copy of the base, trained on `chains` and bare answers.
    fn retrain(&self, chains: &[Demonstration], rng: &Rng) -> Result<Gpt> {
        let Config { steps, batch, lr, .. } = *self.config;
        let training = Supervised::cosine(steps as usize, batch as usize, lr, steps.div_ceil(20) as usize);
        let model = self.base.duplicate()?;
        self.recipe.imitate(&model, chains, &training, rng, self.lab.progress)?;
        Ok(model)
    }

    fn evaluate(&self, model: &Gpt) -> Result<Evaluation> {
        evaluate(&model.no_grad(), &self.evaluation, &forced(Format::Full, greedy()), &Rng::new(0))
    }
}

impl Tally {
    /// Counts one sampled chain; returns whether the filter keeps it.
    fn count(&mut self, problem: &Problem, response: &Parsed, filter: Filter) -> bool {
        self.sampled += 1;
        let right = response.is_right(problem);
        if let Some(slips) = slips(problem, response).filter(|&slips| slips > 0) {
            let chance = chance_of_cancelling(slips);
            self.slipped += 1;
            self.cancelled += u64::from(right);
            self.cancelled_by_chance += chance;
            self.cancelled_variance += chance * (1.0 - chance);
        }
        let kept = match filter {
            Filter::RightAnswer => response.complete && right,
            Filter::None => true,
        };
        self.kept += u64::from(kept);
        self.kept_wrong_chain += u64::from(kept && response.verify(problem) != Some(true));
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worlds::digit_sum::problem::vocab;

    #[test]
    fn the_filter_sees_the_answer_alone() {
        let problem = Problem::new(&[3, 5, 9, 2, 7]);
        let chains = [
            ("T 3 8 7 9 6 A 6 </s>", true),  // right
            ("T 3 9 7 9 6 A 6 </s>", true),  // two slips that cancel
            ("T 3 9 8 0 7 A 7 </s>", false), // one slip
            ("T 3 8 7 9 A 6 </s>", true),    // a step too few
            ("T 3 8 7 9 6 A 6", false),      // no end
        ];
        let (mut tally, mut all) = (Tally::default(), Tally::default());
        for (text, kept) in chains {
            let response = Parsed::new(&vocab().encode(text).unwrap());
            assert_eq!(tally.count(&problem, &response, Filter::RightAnswer), kept, "{text}");
            assert!(all.count(&problem, &response, Filter::None));
        }
        let Tally { sampled, kept, kept_wrong_chain, slipped, cancelled, .. } = tally;
        assert_eq!((sampled, kept, kept_wrong_chain, slipped, cancelled), (5, 3, 2, 2, 1));
        assert!((tally.cancelled_by_chance - 1.0 / 9.0).abs() < 1e-12);
        assert_eq!((all.kept, all.kept_wrong_chain), (5, 4));
    }
}
