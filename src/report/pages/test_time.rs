//! The page of `test-time`.

use crate::demos::test_time::{Config, Policy, Results, Row, Rule};
use crate::report::document::{Axis, Block, Curve, Document, Line, Marks, Plot, Section, Table};
use crate::report::findings::test_time as findings;
use crate::report::format::{fixed, percent};
use crate::report::pages::page::Page;

impl Page for Config {
    fn page(&self, results: &Results) -> Document {
        let mut sections: Vec<Section> = self.policy.iter().map(|&policy| section(results, policy)).collect();
        sections.push(verifier(results));
        Document {
            title: "Test-time compute: accuracy bought with tokens".into(),
            summary: format!(
                "{} fresh digit sums. Tokens can be spent on longer thoughts (short and full chains instead of \
                 direct answers), or on more of them: the most frequent of k sampled answers, or the first \
                 whose every step verifies. Each accuracy is a mean over all disjoint blocks of k samples.",
                self.problems
            ),
            sections,
            curves: self.policy.iter().flat_map(|&policy| curves(results, policy)).collect(),
        }
    }
}

/// The rows of one policy that answer by `rule` in `format`.
fn strategy<'a>(results: &'a Results, policy: Policy, format: &str, rule: Rule) -> Vec<&'a Row> {
    results
        .rows
        .iter()
        .filter(|row| row.policy == policy && row.format == format && row.rule == rule)
        .collect()
}

const FORMATS: [&str; 4] = ["free", "direct", "short", "full"];

fn section(results: &Results, policy: Policy) -> Section {
    let name = match policy {
        Policy::Base => "the base model",
        Policy::Grpo => "the model after GRPO",
    };
    let votes = FORMATS.map(|format| strategy(results, policy, format, Rule::Vote));
    let rows = (0..votes[0].len()).map(|i| {
        let cells = votes.iter().flat_map(|rows| [percent(rows[i].acc), fixed(rows[i].tokens, 1)]);
        std::iter::once(votes[0][i].k.to_string()).chain(cells).collect()
    });
    let header = ["k", "free", "tokens", "direct", "tokens", "short", "tokens", "full", "tokens"];
    let lines = FORMATS
        .iter()
        .zip(&votes)
        .map(|(format, rows)| Line::new(*format, rows.iter().map(|row| (row.tokens, row.acc)).collect()));
    let limit = results.limits.iter().find(|limit| limit.policy == policy);
    let reach = votes.iter().flatten().map(|row| row.tokens);
    let (left, right) = reach.fold((f64::INFINITY, 0.0), |(low, high), x| (x.min(low), x.max(high)));
    let limit = limit.map(|limit| {
        Line::new("direct, k → ∞", vec![(left, limit.direct_vote), (right, limit.direct_vote)]).dashed()
    });
    Section {
        title: format!("Voting over k answers of {name}"),
        text: "Right answers of a majority vote, and the tokens that its k responses take together. Free lets the \
               policy choose its format; the others force it."
            .into(),
        blocks: vec![
            Block::Table(Table { header: header.map(String::from).to_vec(), rows: rows.collect() }),
            Block::Plot(Plot {
                id: match policy {
                    Policy::Base => "vote_base",
                    Policy::Grpo => "vote_grpo",
                },
                title: format!("What tokens buy: majority votes of {name}"),
                x: Axis::log("tokens per problem"),
                y: Axis::linear("share of right answers"),
                marks: Marks::Lines(lines.chain(limit).collect()),
            }),
        ],
        observations: findings::purchases(results, policy),
    }
}

fn verifier(results: &Results) -> Section {
    let verified = results.rows.iter().filter(|row| row.rule == Rule::Verified);
    let rows = verified.map(|row| {
        let vote = strategy(results, row.policy, row.format, Rule::Vote);
        let vote =
            vote.iter().find(|vote| vote.k == row.k).map_or_else(String::new, |vote| percent(vote.acc));
        let name = format!("{} {} {}", row.policy.name(), row.format, row.k);
        vec![name, fixed(row.tokens, 1), vote, percent(row.acc)]
    });
    Section {
        title: "With a verifier of steps".into(),
        text: "Best-of-k: the first response whose every step is right, the vote where there is none. The verifier \
               needs the problem and not the answer. Direct responses have no steps: among free ones they can \
               only vote."
            .into(),
        blocks: vec![Block::Table(Table {
            header: ["policy, format, k", "tokens", "vote", "verified"].map(String::from).to_vec(),
            rows: rows.collect(),
        })],
        observations: findings::verifier(results),
    }
}

/// One curve per strategy, over tokens.
fn curves(results: &Results, policy: Policy) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for row in results.rows.iter().filter(|row| row.policy == policy) {
        let name = format!("{} {}", policy.name(), row.strategy);
        if curves.last().is_none_or(|curve| curve.name != name) {
            curves.push(Curve { name, x_name: "tokens".into(), points: Vec::new() });
        }
        let points = curves.last_mut().map(|curve| &mut curve.points);
        let metrics = [("k", row.k as f64), ("acc", row.acc), ("se", row.se)];
        points.into_iter().for_each(|points| {
            points.extend(metrics.map(|(name, value)| (row.tokens, name.to_string(), value)));
        });
    }
    curves
}
