//! The page of `star`.

use crate::demos::star::{Config, Results, Round};
use crate::report::document::{Axis, Block, Curve, Document, Line, Marks, Plot, Section, Table};
use crate::report::findings::star as findings;
use crate::report::format::{fixed, percent};
use crate::report::json::Figure;
use crate::report::pages::page::Page;

impl Page for Config {
    fn page(&self, results: &Results) -> Document {
        let control = |i: usize| results.controls.get(i).map_or(&[][..], |control| &control.rounds);
        Document {
            title: "STaR: a model that teaches itself to reason".into(),
            summary: format!(
                "A base model has seen {} human chains of thought and many bare answers. Each round it writes \
                 chains for {} fresh problems; those that end at the right answer join the human ones, and the \
                 base is trained on them anew for {} updates. The next round's chains are written by the result.",
                results.human, self.problems, self.steps
            ),
            sections: vec![rounds(self, results), luck(results)],
            curves: vec![
                Curve::from_rows("star", &results.rounds),
                Curve::from_rows("no filter", control(0)),
            ],
        }
    }

    fn headline(&self, results: &Results) -> Vec<Figure> {
        let rounds = results.rounds.iter();
        let controls = results.controls.iter();
        std::iter::once(Figure::new("base, right answers", results.start.acc))
            .chain(rounds.map(|r| Figure::new(format!("STaR, round {}, right answers", r.round), r.acc)))
            .chain(controls.map(|c| Figure::new(format!("{}, right answers", c.name), c.acc)))
            .collect()
    }
}

fn rounds(config: &Config, results: &Results) -> Section {
    let chains = |share: Option<f64>| share.map_or_else(|| "–".to_string(), percent);
    let row = |name: String, round: &Round| {
        let tally = &round.tally;
        vec![
            name,
            tally.sampled.to_string(),
            tally.kept.to_string(),
            percent(round.acc),
            chains(round.chain_ok),
        ]
    };
    let dash = || "–".to_string();
    let start = &results.start;
    let mut rows = vec![vec!["base".to_string(), dash(), dash(), percent(start.acc), chains(start.chain_ok)]];
    rows.extend(results.rounds.iter().map(|round| row(format!("round {}", round.round), round)));
    for control in &results.controls {
        rows.push(match control.rounds.last() {
            Some(last) => row(format!("{}, round {}", control.name, last.round), last),
            None => {
                vec![control.name.to_string(), dash(), dash(), percent(control.acc), chains(control.chain_ok)]
            }
        });
    }
    let over_rounds = |rounds: &[Round]| {
        let rounds = rounds.iter().map(|round| (round.round as f64, round.acc));
        std::iter::once((0.0, results.start.acc)).chain(rounds).collect::<Vec<_>>()
    };
    let mut lines = vec![Line::new("STaR", over_rounds(&results.rounds))];
    for control in &results.controls {
        lines.push(if control.rounds.is_empty() {
            let ends = [0.0, config.rounds as f64].map(|x| (x, control.acc));
            Line::new(control.name, ends.to_vec()).dashed()
        } else {
            Line::new(control.name, over_rounds(&control.rounds))
        });
    }
    Section {
        title: "Round by round".into(),
        text: format!(
            "Chains sampled and kept, then the retrained model made to write full chains for {} fresh problems, \
             greedy: right answers, and chains right in every step. The controls spend the same updates: one \
             keeps every chain, one trains on the human chains alone.",
            config.evaluation
        ),
        blocks: vec![
            Block::Table(Table {
                header: ["", "sampled", "kept", "right answers", "right chains"].map(String::from).to_vec(),
                rows,
            }),
            Block::Plot(Plot {
                id: "rounds".into(),
                title: "Right answers over rounds".into(),
                x: Axis::linear("round"),
                y: Axis::linear("share of right answers"),
                marks: Marks::Lines(lines),
            }),
        ],
        observations: findings::rounds(results),
    }
}

fn luck(results: &Results) -> Section {
    let rows = results.rounds.iter().map(|round| {
        let tally = &round.tally;
        vec![
            round.round.to_string(),
            tally.kept.to_string(),
            tally.kept_wrong_chain.to_string(),
            tally.slipped.to_string(),
            tally.cancelled.to_string(),
            format!(
                "{} ± {}",
                fixed(tally.cancelled_by_chance, 0),
                fixed(tally.cancelled_variance.sqrt(), 0)
            ),
        ]
    });
    let header = ["round", "kept", "kept, wrong chain", "slipped", "slips cancel", "by chance"];
    Section {
        title: "Right for the wrong reasons".into(),
        text: "The filter sees the answer and not the chain. A step that does not follow from the one before is a \
               slip; two slips or more can cancel. If each is off by a uniformly random amount, m slips cancel \
               with probability 0, 1/9, 8/81, .. for m = 1, 2, 3, ..: the last column."
            .into(),
        blocks: vec![Block::Table(Table {
            header: header.map(String::from).to_vec(),
            rows: rows.collect(),
        })],
        observations: findings::luck(results),
    }
}
