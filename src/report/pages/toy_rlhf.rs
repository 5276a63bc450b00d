//! The page of `toy-rlhf`.

use crate::demos::toy_rlhf::{
    ClosedForm, Config, DpoResult, DpoRow, DpoTrap, ImplicitReward, OptimumRow, ReinforceResult, Results,
    TrapRow,
};
use crate::report::document::{Axis, Block, Curve, Document, Line, Marks, Plot, Section, Table};
use crate::report::findings::toy_rlhf as findings;
use crate::report::format::{count, fixed, optional, plain};
use crate::report::json::Figure;
use crate::report::pages::page::Page;

impl Page for Config {
    fn page(&self, results: &Results) -> Document {
        let (closed, reinforced) = (&results.closed_form, &results.reinforce);
        Document {
            title: "RLHF and DPO on six answers, next to the exact optimum".into(),
            summary: format!(
                "One prompt, six possible answers, a known true reward r* and a reference policy π_ref. RLHF \
                 maximises E[r*] − β KL(π ‖ π_ref); its optimum π* is known in closed form, so every trained \
                 policy below stands next to the policy it should become (β\u{a0}=\u{a0}{}).",
                plain(self.beta)
            ),
            sections: vec![
                closed_form(closed),
                reinforce(closed, reinforced),
                dpo(closed, reinforced, &results.dpo),
                implicit_reward(closed, &results.implicit_reward),
                trap(&results.dpo_trap),
            ],
            curves: vec![
                Curve::from_rows("closed_form", &closed.rows),
                Curve::from_rows("reinforce", &reinforced.curve),
                Curve::from_rows("dpo", &results.dpo.rows),
                Curve::from_rows("dpo_trap", &results.dpo_trap.rows),
                Curve::from_rows("ipo_trap", &results.dpo_trap.ipo),
            ],
        }
    }

    fn headline(&self, results: &Results) -> Vec<Figure> {
        let dpo = results.dpo.rows.iter();
        std::iter::once(Figure::new("REINFORCE, distance to π*", results.reinforce.tv))
            .chain(
                dpo.map(|row| Figure::new(format!("DPO from {} pairs, distance to π*", row.pairs), row.tv)),
            )
            .collect()
    }
}

fn closed_form(closed: &ClosedForm) -> Section {
    let mut header = strings(&["answer", "r*", "π_ref"]);
    header.extend(closed.rows.iter().map(|at| format!("π* β={}", plain(at.beta))));
    let mut rows = answer_rows(closed, |y| {
        let mut cells = vec![fixed(closed.r_true[y], 1), fixed(closed.pi_ref[y], 4)];
        cells.extend(closed.rows.iter().map(|at| fixed(at.policy[y], 4)));
        cells
    });
    let summary = |name: &str, reference: String, of: &dyn Fn(&OptimumRow) -> String| {
        let mut row = vec![name.to_string(), String::new(), reference];
        row.extend(closed.rows.iter().map(of));
        row
    };
    rows.push(summary("E[r*]", fixed(closed.reference_reward, 2), &|at| fixed(at.expected_reward, 2)));
    rows.push(summary("KL, nats", fixed(0.0, 3), &|at| fixed(at.kl, 3)));

    let mut by_kl: Vec<(f64, f64)> = closed.rows.iter().map(|row| (row.kl, row.expected_reward)).collect();
    by_kl.push((0.0, closed.reference_reward));
    by_kl.sort_by(|a, b| a.0.total_cmp(&b.0));
    Section {
        title: "The optimum in closed form".into(),
        text: "π*(y) ∝ π_ref(y) exp(r*(y)/β): the reference, reweighted by the exponential of the reward. KL is \
               KL(π* ‖ π_ref) in nats, 0 at the reference. A small β buys reward with distance; an answer that \
               π_ref excludes would stay excluded at every β."
            .into(),
        blocks: vec![
            Block::Table(Table { header, rows }),
            Block::Plot(Plot {
                id: "frontier".into(),
                title: "What reward costs: the optima of the sweep".into(),
                x: Axis::linear("KL(π* ‖ π_ref), nats"),
                y: Axis::linear("expected true reward E[r*]"),
                marks: Marks::Lines(vec![Line::new("π_ref (left), then π*", by_kl)]),
            }),
        ],
        observations: findings::closed_form(closed),
    }
}

fn reinforce(closed: &ClosedForm, result: &ReinforceResult) -> Section {
    let rows = answer_rows(closed, |y| {
        vec![fixed(closed.pi_ref[y], 4), fixed(result.target[y], 4), fixed(result.policy[y], 4)]
    });
    let tv = result.curve.iter().map(|row| (row.step as f64, row.tv)).collect();
    Section {
        title: "REINFORCE, sampling its way there".into(),
        text: format!(
            "Policy gradient on samples with R = r* − β log(π/π_ref), the batch mean as baseline, \
             β\u{a0}=\u{a0}{}. At π* every answer has the same R, so the gradient's noise vanishes there too. \
             The distance is total variation, ½ Σ|π − π*|: 0 when equal, 1 when disjoint.",
            plain(result.beta)
        ),
        blocks: vec![
            Block::Table(Table { header: strings(&["answer", "π_ref", "π*", "REINFORCE"]), rows }),
            Block::Plot(Plot {
                id: "reinforce".into(),
                title: "REINFORCE's distance to the optimum".into(),
                x: Axis::linear("update"),
                y: Axis::log("total variation to π*"),
                marks: Marks::Lines(vec![Line::new("REINFORCE", tv)]),
            }),
        ],
        observations: findings::reinforce(result),
    }
}

fn dpo(closed: &ClosedForm, reinforced: &ReinforceResult, dpo: &DpoResult) -> Section {
    let mut rows = vec![strings(&["π* itself", "", "0.0000", "", "", ""])];
    rows.extend(dpo.rows.iter().map(|row| {
        vec![
            row.pairs.to_string(),
            row.kept.to_string(),
            fixed(row.tv, 4),
            optional(row.tv_expected, 4),
            fixed(row.expected_reward, 2),
            fixed(row.kl, 3),
        ]
    }));
    let over_pairs = |y: fn(&DpoRow) -> Option<f64>| -> Vec<(f64, f64)> {
        dpo.rows.iter().filter_map(|row| Some((row.pairs as f64, y(row)?))).collect()
    };
    let mut policies = vec![
        ("π_ref".to_string(), closed.pi_ref.clone()),
        ("π* (exact)".into(), reinforced.target.clone()),
        ("REINFORCE".into(), reinforced.policy.clone()),
    ];
    policies.extend(dpo.rows.last().map(|row| ("DPO".into(), row.policy.clone())));
    Section {
        title: "DPO, from preferences alone".into(),
        text: format!(
            "No reward model, no sampling from the policy: −log σ(β[log π/π_ref(winner) − log π/π_ref(loser)]), \
             β\u{a0}=\u{a0}{}, on pairs drawn from π_ref and labelled by Bradley-Terry. Each data set extends \
             the one before; pairs of one answer twice carry no preference and are not kept. Expected TV is the \
             theory of maximum likelihood: the average distance that the labels' noise leaves, falling as \
             1/√pairs.",
            plain(dpo.beta)
        ),
        blocks: vec![
            Block::Table(Table {
                header: strings(&["pairs sampled", "kept", "TV to π*", "expected TV", "E[r*]", "KL"]),
                rows,
            }),
            Block::Plot(bars("policies", "The policies side by side", "probability", closed, policies)),
            Block::Plot(Plot {
                id: "dpo".into(),
                title: "DPO's distance to the optimum over data".into(),
                x: Axis::log("preference pairs sampled"),
                y: Axis::log("total variation to π*"),
                marks: Marks::Lines(vec![
                    Line::new("DPO", over_pairs(|row| Some(row.tv))),
                    Line::new("expected of the labels", over_pairs(|row| row.tv_expected)).dashed(),
                ]),
            }),
        ],
        observations: findings::dpo(&dpo.rows),
    }
}

fn implicit_reward(closed: &ClosedForm, rewards: &ImplicitReward) -> Section {
    let rows = answer_rows(closed, |y| {
        let (truth, implied) = (rewards.true_centered[y], rewards.implicit_centered[y]);
        vec![fixed(truth, 3), fixed(implied, 3), fixed(implied - truth, 3)]
    });
    let series = vec![
        ("true r*".to_string(), rewards.true_centered.clone()),
        ("implied by DPO".into(), rewards.implicit_centered.clone()),
    ];
    Section {
        title: "The reward hidden in the DPO policy".into(),
        text: "β log(π/π_ref) of the last DPO policy, less its mean: preferences fix a reward only up to a \
               constant."
            .into(),
        blocks: vec![
            Block::Table(Table { header: strings(&["answer", "true r*", "implied", "difference"]), rows }),
            Block::Plot(bars(
                "implicit_reward",
                "True and implied reward",
                "reward less its mean",
                closed,
                series,
            )),
        ],
        observations: findings::implicit_reward(&closed.answers, rewards),
    }
}

fn trap(trap: &DpoTrap) -> Section {
    let cells = |row: &TrapRow| [fixed(row.p0, 4), fixed(row.kl, 3), fixed(row.tv, 3)];
    let rows = trap.rows.iter().zip(&trap.ipo).map(|(dpo, ipo)| {
        let mut row = vec![dpo.step.to_string()];
        row.extend(cells(dpo));
        row.extend(cells(ipo));
        row
    });
    let kl = |rows: &[TrapRow]| rows.iter().map(|row| (row.step as f64, row.kl)).collect();
    let steps = trap.rows.iter().map(|row| (row.step as f64, trap.target_kl)).collect();
    Section {
        title: "A trap: preferences without noise".into(),
        text: format!(
            "The better answer now always wins ({} of two different answers). A pair that always goes one way \
             has no finite most likely margin, so DPO pushes it on, whatever β. IPO (Azar et al. 2023), on the \
             same pairs with τ = β\u{a0}=\u{a0}{}, asks for the finite margin 1/(2τ) instead: that keeps it near \
             the reference, which is not the same as reaching π*. P is the probability of the best answer, TV \
             the total variation to π*.",
            count(trap.kept, "pair"),
            plain(trap.beta)
        ),
        blocks: vec![
            Block::Table(Table {
                header: strings(&["step", "DPO: P", "KL", "TV", "IPO: P", "KL", "TV"]),
                rows: rows.collect(),
            }),
            Block::Plot(Plot {
                id: "dpo_trap".into(),
                title: "Preferences without noise".into(),
                x: Axis::linear("full-batch step"),
                y: Axis::linear("KL(π ‖ π_ref), nats"),
                marks: Marks::Lines(vec![
                    Line::new("DPO", kl(&trap.rows)),
                    Line::new("IPO", kl(&trap.ipo)),
                    Line::new("KL of π*", steps).dashed(),
                ]),
            }),
        ],
        observations: findings::trap(trap),
    }
}

/// A bar for each answer and series.
fn bars(
    id: &'static str,
    title: &str,
    y: &str,
    closed: &ClosedForm,
    series: Vec<(String, Vec<f64>)>,
) -> Plot {
    let categories = closed.answers.iter().map(ToString::to_string).collect();
    let (x, y) = (Axis::linear(""), Axis::linear(y));
    Plot { id: id.into(), title: title.into(), x, y, marks: Marks::Bars { categories, series } }
}

/// One row per answer: its name, then `cells(index)`.
fn answer_rows(closed: &ClosedForm, cells: impl Fn(usize) -> Vec<String>) -> Vec<Vec<String>> {
    let row = |(y, name): (usize, &&str)| [vec![name.to_string()], cells(y)].concat();
    closed.answers.iter().enumerate().map(row).collect()
}

fn strings(cells: &[&str]) -> Vec<String> {
    cells.iter().map(ToString::to_string).collect()
}
