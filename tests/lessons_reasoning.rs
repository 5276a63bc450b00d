//! What the demos on digit sums are there to show, at their defaults, on seeds that nothing was tuned on.

use rlhf_lab::demos::base_model::{BaseModel, Checkpoints};
use rlhf_lab::demos::demo::{Demo, Lab};
use rlhf_lab::demos::reason_base::ReasonBase;
use rlhf_lab::demos::reason_grpo::{self, Algorithm};
use rlhf_lab::demos::star_base::StarBase;
use rlhf_lab::demos::test_time::{self, Policy, Rule};
use rlhf_lab::demos::{reasoning::Examination, star};
use rlhf_lab::foundation::progress::Silent;
use rlhf_lab::model::checkpoint::{Lookup, lookup};

/// The committed models are those of the recipes in the code, and measure here what they measured when
/// they were made.
#[test]
fn the_committed_models_are_those_of_the_recipes() {
    fn committed<B: BaseModel<Metrics = Examination>>(recipe: &B) -> (Examination, serde_json::Value) {
        let directory = std::path::Path::new("checkpoints").join(B::NAME);
        let Lookup::Found(checkpoint) = lookup(&directory, recipe).unwrap() else {
            panic!("{} is not the model of the recipe in the code: run pretrain", B::NAME);
        };
        (
            recipe.measure(&checkpoint.model, &Checkpoints::default(), &Silent).unwrap(),
            checkpoint.recipe.metrics,
        )
    }
    let near = |x: f64, recorded: &serde_json::Value| {
        let recorded = recorded.as_f64().unwrap();
        assert!((x - recorded).abs() <= 0.01, "{x} is not {recorded}");
        x
    };
    let (base, recorded) = committed(&ReasonBase::default());
    assert!(near(base.forced.short.acc, &recorded["forced"]["short"]["acc"]) > 0.98);
    assert!(near(base.forced.full.acc, &recorded["forced"]["full"]["acc"]) > 0.98);
    assert!((0.5..0.75).contains(&near(base.forced.direct.acc, &recorded["forced"]["direct"]["acc"])));
    assert!(near(base.sampled.share.direct, &recorded["sampled"]["share"]["direct"]) > 0.4);
    let (star, recorded) = committed(&StarBase::default());
    assert!((0.2..0.6).contains(&near(star.forced.full.acc, &recorded["forced"]["full"]["acc"])));
}

#[test]
fn grpo_learns_to_think_and_reinforce_to_be_lazy() {
    let results = reason_grpo::Config::default().run(&Lab::quiet(7)).unwrap();
    let base = &results.base.sampled;
    let after = |algo| {
        let run = results.runs.iter().find(|run| run.algo == algo).unwrap();
        &run.last.as_ref().expect("the defaults do not diverge").sampled
    };
    let (grpo, reinforce) = (after(Algorithm::Grpo), after(Algorithm::Reinforce));
    assert!((0.7..0.85).contains(&base.acc), "{base:?}");
    assert!(grpo.acc >= 0.95 && grpo.length > base.length + 1.0, "{grpo:?}");
    assert!(reinforce.acc < 0.75 && reinforce.share.direct > 0.7, "{reinforce:?}");
    // What makes it lazy is the division by length: without it, it learns to think, and has no baseline
    // either.
    let whole = after(Algorithm::ReinforceSum);
    assert!(whole.acc >= 0.9 && whole.share.direct < 0.2, "{whole:?}");
    let first = |algo| &results.runs.iter().find(|run| run.algo == algo).unwrap().curve[0];
    assert_eq!(first(Algorithm::Grpo).kl, 0.0);
    let end = &results.runs[0].curve[290];
    assert!(end.kl > 0.0 && end.no_contrast > 0.5, "{end:?}");
}

#[test]
fn star_teaches_itself_what_neither_control_learns() {
    let config = star::Config { rounds: 4, ..star::Config::default() };
    let results = config.run(&Lab::quiet(7)).unwrap();
    let last = results.rounds.last().unwrap();
    assert!(last.acc >= results.start.acc + 0.3, "{} to {}", results.start.acc, last.acc);
    for control in &results.controls {
        assert!(last.acc > control.acc + 0.1, "{} is not above {}: {}", last.acc, control.name, control.acc);
    }
    // Chains that slip and are right all the same: about as many as chance has it.
    let (cancelled, chance, variance) = results.rounds.iter().fold((0.0, 0.0, 0.0), |(c, e, v), round| {
        let tally = &round.tally;
        (c + tally.cancelled as f64, e + tally.cancelled_by_chance, v + tally.cancelled_variance)
    });
    // Slips of a real model are not quite uniform: a factor of two, and the sampling error.
    assert!(cancelled < 2.0 * chance + 3.0 * f64::sqrt(variance), "{cancelled} against {chance}");
    assert!(cancelled > 0.5 * chance - 3.0 * f64::sqrt(variance), "{cancelled} against {chance}");
}

#[test]
fn thinking_buys_more_than_voting() {
    let config =
        test_time::Config { policy: vec![Policy::Base, Policy::Star], ..test_time::Config::default() };
    let results = config.run(&Lab::quiet(7)).unwrap();
    let acc = |policy, format: &str, rule, k| {
        let row = results
            .rows
            .iter()
            .find(|r| r.policy == policy && r.format == format && r.rule == rule && r.k == k);
        row.unwrap().acc
    };
    let vote = |format, k| acc(Policy::Base, format, Rule::Vote, k);
    assert!(vote("short", 1) > vote("direct", 2) + 0.2); // 6.6 tokens against 6.
    // A vote of 32 is near that of infinitely many, which is known exactly.
    let limit = results.limits[0].direct_vote;
    assert!((vote("direct", 32) - limit).abs() < 0.03, "{} is not {limit}", vote("direct", 32));
    // Where chains are often wrong, and wrong in the same way, a verifier finds more than a vote.
    let star = |rule, k| acc(Policy::Star, "full", rule, k);
    assert_eq!(star(Rule::Verified, 1), star(Rule::Vote, 1));
    assert!(star(Rule::Verified, 32) > star(Rule::Vote, 32) + 0.05);
}
