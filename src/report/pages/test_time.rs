//! The page of `test-time`.

use crate::demos::test_time::{Config, Policy, Results, Row, Rule};
use crate::report::document::{Axis, Block, Curve, Document, Line, Marks, Plot, Section, Table};
use crate::report::findings::test_time as findings;
use crate::report::format::{fine_percent, fixed, percent};
use crate::report::json::Figure;
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

    fn headline(&self, results: &Results) -> Vec<Figure> {
        let most = results.rows.iter().map(|row| row.k).max();
        let ends =
            results.rows.iter().filter(|row| row.k == 1 && row.rule == Rule::Vote || Some(row.k) == most);
        ends.map(|row| {
            let of =
                if row.k == 1 { row.format.to_string() } else { format!("{} of {}", row.strategy, row.k) };
            Figure::new(format!("{}, {of}, right answers", row.policy.name()), row.acc)
        })
        .collect()
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

fn section(results: &Results, policy: Policy) -> Section {
    let (name, id) = match policy {
        Policy::Base => ("reason-base", "vote_base"),
        Policy::Grpo => ("reason-base after GRPO", "vote_grpo"),
        Policy::Star => ("star-base, whose chains are often wrong", "vote_star"),
    };
    let votes: Vec<(&str, Vec<&Row>)> = ["free", "direct", "short", "full"]
        .into_iter()
        .map(|format| (format, strategy(results, policy, format, Rule::Vote)))
        .filter(|(_, rows)| !rows.is_empty())
        .collect();
    let rows = votes.first().map_or(&[][..], |(_, rows)| rows).iter().enumerate().map(|(i, first)| {
        let cells = votes.iter().flat_map(|(_, rows)| [percent(rows[i].acc), fixed(rows[i].tokens, 1)]);
        std::iter::once(first.k.to_string()).chain(cells).collect()
    });
    let header = votes.iter().flat_map(|(format, _)| [(*format).to_string(), "tokens".to_string()]);
    let lines = votes
        .iter()
        .map(|(format, rows)| Line::new(*format, rows.iter().map(|row| (row.tokens, row.acc)).collect()));
    let spent = votes.iter().flat_map(|(_, rows)| rows).map(|row| row.tokens);
    let (least, most) = spent.fold((f64::INFINITY, 0.0), |(low, high), x| (x.min(low), x.max(high)));
    let limit = results.limits.iter().find(|limit| limit.policy == policy).map(|limit| {
        Line::new("direct, k → ∞", vec![(least, limit.direct_vote), (most, limit.direct_vote)]).dashed()
    });
    Section {
        title: format!("Voting over k answers of {name}"),
        text: "Right answers of a majority vote, and the tokens that its k responses take together. Free lets the \
               policy choose its format; the others force it."
            .into(),
        blocks: vec![
            Block::Table(Table {
                header: std::iter::once("k".to_string()).chain(header).collect(),
                rows: rows.collect(),
            }),
            Block::Plot(Plot {
                id: id.into(),
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
    let rows = verified.filter_map(|row| {
        let votes = strategy(results, row.policy, row.format, Rule::Vote);
        let vote = votes.iter().find(|vote| vote.k == row.k)?;
        let name = format!("{} {} {}", row.policy.name(), row.format, row.k);
        let cells = vec![name, fixed(row.tokens, 1), percent(vote.acc), percent(row.acc)];
        (votes.first()?.acc < findings::SETTLED).then_some(cells)
    });
    Section {
        title: "With a verifier of steps".into(),
        text: format!(
            "Best-of-k: the first response whose every step is right, the vote where there is none. The verifier \
             needs the problem and not the answer. Direct responses have no steps: among free ones they can \
             only vote. Left out is what a single vote settles in {} or more.",
            fine_percent(findings::SETTLED)
        ),
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
