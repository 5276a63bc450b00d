//! The page of `reason-grpo`.

use crate::demos::reason_grpo::{Config, CurveRow, Results, Run, Sample};
use crate::demos::reasoning::Examination;
use crate::report::document::{Axis, Block, Curve, Document, Line, Marks, Plot, Section, Table};
use crate::report::findings::reason_grpo as findings;
use crate::report::format::{enumerate, fine_percent, fixed, percent};
use crate::report::json::Figure;
use crate::report::pages::page::Page;
use crate::worlds::digit_sum::evaluation::Evaluation;

impl Page for Config {
    fn page(&self, results: &Results) -> Document {
        let names: Vec<&str> = results.runs.iter().map(|run| run.algo.name()).collect();
        Document {
            title: "Learning to think: reinforcement learning with a rule reward".into(),
            summary: format!(
                "A small model adds up to eight digits modulo 10. It opens each response with a format of its \
                 own choice: the answer at once (direct), a running sum after every second digit (short) or \
                 after every digit (full). The reward is 1 for the right answer and 0.1 for a complete format; \
                 nothing rewards thinking. Every algorithm starts from the same base model and trains for {} steps of \
                 {} x {} responses; here: {}.",
                self.steps,
                self.prompts,
                self.group,
                enumerate(&names)
            ),
            sections: vec![
                base(results),
                outcome(self, results),
                training(results),
                samples(&results.samples),
            ],
            curves: results.runs.iter().map(|run| Curve::from_rows(run.algo.name(), &run.curve)).collect(),
        }
    }

    fn headline(&self, results: &Results) -> Vec<Figure> {
        examined(results)
            .flat_map(|(name, Examination { sampled, .. })| {
                [
                    Figure::new(format!("{name}, right answers"), sampled.acc),
                    Figure::new(format!("{name}, tokens"), sampled.length),
                    Figure::new(format!("{name}, share of direct responses"), sampled.share.direct),
                ]
            })
            .collect()
    }
}

/// The base and every policy that was trained to the end.
fn examined(results: &Results) -> impl Iterator<Item = (&'static str, &Examination)> {
    let runs = results.runs.iter().filter_map(|run| Some((run.algo.name(), run.last.as_ref()?)));
    std::iter::once(("base", &results.base)).chain(runs)
}

fn base(results: &Results) -> Section {
    let forced = &results.base.forced;
    let row = |name: &str, evaluation: &Evaluation| {
        let chains = evaluation.chain_ok.map_or_else(|| "–".to_string(), percent);
        let per_token = fixed(findings::reward_per_token(evaluation), 3);
        vec![name.to_string(), percent(evaluation.acc), chains, fixed(evaluation.length, 1), per_token]
    };
    Section {
        title: "What the base model can, format by format".into(),
        text: "Greedy decoding after a format that is given, then the model left to itself. Chains count as \
               right if every step is; direct responses have none. Reward per token is what an algorithm sees \
               that divides each response by its length."
            .into(),
        blocks: vec![Block::Table(Table {
            header: ["base model", "right answers", "right chains", "tokens", "reward per token"].map(String::from).to_vec(),
            rows: vec![
                row("forced direct", &forced.direct),
                row("forced short", &forced.short),
                row("forced full", &forced.full),
                row("left to itself, greedy", &results.base.greedy),
                row("left to itself, sampled", &results.base.sampled),
            ],
        })],
        observations: findings::base(&results.base),
    }
}

fn outcome(config: &Config, results: &Results) -> Section {
    let examined: Vec<(&str, &Examination)> = examined(results).collect();
    let row = |(name, it): &(&str, &Examination)| {
        let (share, forced) = (&it.sampled.share, &it.forced);
        vec![
            name.to_string(),
            percent(it.sampled.acc),
            percent(it.greedy.acc),
            fixed(it.sampled.length, 1),
            percent(share.direct),
            percent(share.short),
            percent(share.full),
            percent(forced.direct.acc),
            percent(forced.short.acc),
            percent(forced.full.acc),
        ]
    };
    let header = [
        "policy",
        "sampled",
        "greedy",
        "tokens",
        "direct",
        "short",
        "full",
        "if direct",
        "if short",
        "if full",
    ];
    // The base last, so that an algorithm has the colour that its curves have.
    let shares = examined.iter().skip(1).chain(examined.first()).map(|(name, it)| {
        let share = &it.sampled.share;
        (name.to_string(), vec![share.direct, share.short, share.full])
    });
    Section {
        title: "Before and after".into(),
        text: format!(
            "The same {} fresh problems for every policy. Accuracy sampled at temperature 1 and greedy; tokens and \
             shares of the formats when sampled; accuracy (greedy) if the format is forced.",
            config.problems
        ),
        blocks: vec![
            Block::Table(Table {
                header: header.map(String::from).to_vec(),
                rows: examined.iter().map(row).collect(),
            }),
            Block::Plot(Plot {
                id: "formats".into(),
                title: "What the policies choose".into(),
                x: Axis::default(),
                y: Axis::linear("share of responses"),
                marks: Marks::Bars {
                    categories: ["direct", "short", "full"].map(String::from).to_vec(),
                    series: shares.collect(),
                },
            }),
        ],
        observations: findings::outcome(results),
    }
}

fn training(results: &Results) -> Section {
    let lines = |pick: fn(&CurveRow) -> f64| {
        Marks::Lines(results.runs.iter().map(|run| Line::new(run.algo.name(), smooth(run, pick))).collect())
    };
    let plot = |id: &'static str, title: &str, y: &str, marks| {
        Block::Plot(Plot {
            id: id.into(),
            title: title.into(),
            x: Axis::linear("step"),
            y: Axis::linear(y),
            marks,
        })
    };
    let rows = results.runs.iter().flat_map(|run| {
        milestones(&run.curve).into_iter().map(|row| {
            vec![
                format!("{} {}", run.algo.name(), row.step),
                fixed(row.reward, 3),
                percent(row.acc),
                fixed(row.length, 1),
                fixed(row.kl, 4),
                fine_percent(row.clip_fraction),
                fixed(row.gradient_norm, 2),
                percent(row.no_contrast),
            ]
        })
    });
    let header = ["step", "reward", "accuracy", "tokens", "KL", "clipped", "|gradient|", "no contrast"];
    Section {
        title: "On the way".into(),
        text: "Each step measured on its own batch before its updates, so step 1 is the base model: KL 0. KL is \
               per token, in nats, to the base model; clipped is the share of tokens whose gradient the clip \
               holds back, a mean over the step's updates (0 at a batch's first); no contrast is the share of \
               groups with equal rewards. Plots show means over a window of steps."
            .into(),
        blocks: vec![
            Block::Table(Table { header: header.map(String::from).to_vec(), rows: rows.collect() }),
            plot("accuracy", "Right answers while training", "accuracy", lines(|row| row.acc)),
            plot("length", "How much the policies think", "tokens per response", lines(|row| row.length)),
            plot("lazy", "How lazy they get", "share of direct responses", lines(|row| row.share.direct)),
            plot("kl", "How far they go", "KL to the base model, nats per token", lines(|row| row.kl)),
        ],
        observations: results.runs.iter().flat_map(findings::training).collect(),
    }
}

/// Means over consecutive windows, so that a curve has at most about sixty points.
fn smooth(run: &Run, pick: fn(&CurveRow) -> f64) -> Vec<(f64, f64)> {
    let window = run.curve.len().div_ceil(60).max(1);
    let mean =
        |x: &dyn Fn(&CurveRow) -> f64, rows: &[CurveRow]| rows.iter().map(x).sum::<f64>() / rows.len() as f64;
    run.curve.chunks(window).map(|rows| (mean(&|row| row.step as f64, rows), mean(&pick, rows))).collect()
}

/// The first step, the last, and a few between.
fn milestones(curve: &[CurveRow]) -> Vec<&CurveRow> {
    let every = curve.len().div_ceil(6).max(1);
    let last = curve.len().saturating_sub(1);
    curve.iter().enumerate().filter(|(i, _)| i % every == 0 || *i == last).map(|(_, row)| row).collect()
}

fn samples(samples: &[Sample]) -> Section {
    let rows = samples.iter().flat_map(|sample| {
        sample
            .responses
            .iter()
            .map(|(who, response)| vec![format!("{} {response}", sample.prompt), who.clone()])
    });
    Section {
        title: "In their own words".into(),
        text: "The first problems, with one sampled response of each policy. A opens a direct response and \
               announces the answer in the others, S opens a short chain, T a full one."
            .into(),
        blocks: vec![Block::Table(Table {
            header: ["problem and response", "policy"].map(String::from).to_vec(),
            rows: rows.collect(),
        })],
        observations: Vec::new(),
    }
}
