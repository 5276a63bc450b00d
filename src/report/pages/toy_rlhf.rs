//! The page of `toy-rlhf`.

use crate::demos::toy_rlhf::{
    ClosedForm, Config, DpoResult, DpoRow, DpoTrap, ImplicitReward, ReinforceResult, Results, TrapRow,
};
use crate::foundation::stats::total_variation;
use crate::report::document::{Axis, Block, Curve, Document, Line, Marks, Plot, Section, Table};
use crate::report::format::{fixed, plain};
use crate::report::pages::page::Page;

impl Page for Config {
    fn page(&self, results: &Results) -> Document {
        let beta = plain(self.beta);
        Document {
            title: "RLHF and DPO on six answers, next to the exact optimum".into(),
            summary: format!(
                "One prompt, six possible answers, a known true reward r* and a reference policy π_ref. \
                 RLHF maximises E[r*] − β KL(π ‖ π_ref); its optimum π* is known in closed form, so every \
                 trained policy below stands next to the policy it should become (β\u{a0}=\u{a0}{beta})."
            ),
            sections: vec![
                closed_form(&results.closed_form),
                reinforce(&results.closed_form, &results.reinforce),
                dpo(&results.closed_form, &results.reinforce, &results.dpo),
                implicit_reward(&results.closed_form, &results.implicit_reward),
                trap(&results.dpo_trap),
            ],
            curves: vec![
                Curve::from_rows("closed_form", &results.closed_form.rows),
                Curve::from_rows("reinforce", &results.reinforce.curve),
                Curve::from_rows("dpo", &results.dpo.rows),
                Curve::from_rows("dpo_trap", &results.dpo_trap.rows),
                Curve::from_rows("ipo_trap", &results.dpo_trap.ipo),
            ],
        }
    }
}

fn closed_form(closed: &ClosedForm) -> Section {
    let mut header = vec!["policy".to_string(), "E[r*]".into(), "KL".into()];
    header.extend(closed.answers.iter().map(ToString::to_string));
    let mut rows = vec![
        with_cells(["r*", "", ""], &closed.r_true, 1),
        with_cells(["π_ref", &fixed(closed.reference_reward, 2), "0.000"], &closed.pi_ref, 4),
    ];
    rows.extend(closed.rows.iter().map(|row| {
        let label = format!("π*, β\u{a0}=\u{a0}{}", plain(row.beta));
        with_cells([&label, &fixed(row.expected_reward, 2), &fixed(row.kl, 3)], &row.policy, 4)
    }));

    let mut by_kl: Vec<(f64, f64)> = closed.rows.iter().map(|row| (row.kl, row.expected_reward)).collect();
    by_kl.push((0.0, closed.reference_reward));
    by_kl.sort_by(|a, b| a.0.total_cmp(&b.0));
    let frontier = Plot {
        id: "frontier",
        title: "What reward costs: the optima of the sweep".into(),
        x: Axis::linear("KL(π* ‖ π_ref), nats"),
        y: Axis::linear("expected true reward E[r*]"),
        marks: Marks::Lines(vec![Line::new("π* from β = ∞ (left) to the smallest β", by_kl)]),
    };

    let extreme = |pick: fn(f64, f64) -> bool| {
        closed.rows.iter().reduce(|a, b| if pick(b.beta, a.beta) { b } else { a })
    };
    let mut observations = Vec::new();
    if let (Some(loose), Some(tight)) = (extreme(|a, b| a < b), extreme(|a, b| a > b)) {
        let best = argmax(&loose.policy);
        observations.push(format!(
            "From β\u{a0}=\u{a0}{} to β\u{a0}=\u{a0}{} the optimum moves from total variation {} to {} away from π_ref: E[r*] goes from {} \
             to {}, KL from {} to {} nats, and \"{}\" ends at probability {}.",
            plain(tight.beta),
            plain(loose.beta),
            fixed(total_variation(&tight.policy, &closed.pi_ref), 3),
            fixed(total_variation(&loose.policy, &closed.pi_ref), 3),
            fixed(tight.expected_reward, 2),
            fixed(loose.expected_reward, 2),
            fixed(tight.kl, 3),
            fixed(loose.kl, 3),
            closed.answers[best],
            fixed(loose.policy[best], 4),
        ));
    }
    Section {
        title: "The optimum in closed form".into(),
        text: "π*(y) ∝ π_ref(y) exp(r*(y)/β): the reference, reweighted by the exponential of the reward. KL is \
               KL(π* ‖ π_ref) in nats, 0 at the reference. A small β buys reward with distance; an answer that π_ref \
               excludes would stay excluded at every β."
            .into(),
        blocks: vec![Block::Table(Table { header, rows }), Block::Plot(frontier)],
        observations,
    }
}

fn reinforce(closed: &ClosedForm, result: &ReinforceResult) -> Section {
    let rows = answer_rows(closed, |y| {
        vec![fixed(closed.pi_ref[y], 4), fixed(result.target[y], 4), fixed(result.policy[y], 4)]
    });
    let tv = result.curve.iter().map(|row| (row.step as f64, row.tv)).collect();
    let curve = Plot {
        id: "reinforce",
        title: "REINFORCE approaches the optimum".into(),
        x: Axis::linear("update"),
        y: Axis::log("total variation to π*"),
        marks: Marks::Lines(vec![Line::new("REINFORCE", tv)]),
    };
    let start = result.curve.first().map_or(f64::NAN, |row| row.tv);
    let steps = result.curve.last().map_or(0, |row| row.step);
    let close = result.curve.iter().find(|row| row.tv <= CLOSE);
    let stays =
        close.is_some_and(|first| result.curve.iter().all(|row| row.step < first.step || row.tv <= CLOSE));
    let observation = match close {
        Some(row) => format!(
            "The distance to π* falls from {} to {} in {steps} updates; it is first seen within {CLOSE} at update {}{}.",
            fixed(start, 3),
            fixed(result.tv, 4),
            row.step,
            if stays { " and stays there" } else { ", but does not stay there" },
        ),
        None => format!(
            "After {steps} updates the distance to π* is {} (it began at {}): it never came within {CLOSE}.",
            fixed(result.tv, 3),
            fixed(start, 3),
        ),
    };
    Section {
        title: "REINFORCE, sampling its way there".into(),
        text: format!(
            "Policy gradient on samples with R = r* − β log(π/π_ref), the batch mean as baseline, β\u{a0}=\u{a0}{}. At π* every \
             answer has the same R, so the gradient's noise vanishes there too. The distance is total variation, ½ Σ|π − π*|: \
             0 when equal, 1 when disjoint.",
            plain(result.beta)
        ),
        blocks: vec![
            Block::Table(Table { header: strings(&["answer", "π_ref", "π*", "REINFORCE"]), rows }),
            Block::Plot(curve),
        ],
        observations: vec![observation],
    }
}

fn dpo(closed: &ClosedForm, reinforce: &ReinforceResult, dpo: &DpoResult) -> Section {
    let mut rows = vec![strings(&["π* itself", "", "0.0000", "", "", ""])];
    rows.extend(dpo.rows.iter().map(|row| {
        vec![
            row.pairs.to_string(),
            row.kept.to_string(),
            fixed(row.tv, 4),
            fixed(row.tv_expected, 4),
            fixed(row.expected_reward, 2),
            fixed(row.kl, 3),
        ]
    }));
    let mut blocks = vec![Block::Table(Table {
        header: strings(&["pairs sampled", "kept", "TV to π*", "expected TV", "E[r*]", "KL"]),
        rows,
    })];
    let over_pairs = |y: fn(&DpoRow) -> f64| -> Vec<(f64, f64)> {
        dpo.rows.iter().map(|row| (row.pairs as f64, y(row))).collect()
    };
    let mut observations = Vec::new();
    if let (Some(first), Some(last)) = (dpo.rows.first(), dpo.rows.last()) {
        blocks.push(Block::Plot(Plot {
            id: "policies",
            title: "Two roads to one optimum".into(),
            x: Axis::linear(""),
            y: Axis::linear("probability"),
            marks: Marks::Bars {
                categories: closed.answers.iter().map(ToString::to_string).collect(),
                series: vec![
                    ("π_ref".into(), closed.pi_ref.clone()),
                    ("π* (exact)".into(), reinforce.target.clone()),
                    ("REINFORCE".into(), reinforce.policy.clone()),
                    ("DPO".into(), last.policy.clone()),
                ],
            },
        }));
        if dpo.rows.len() > 1 {
            blocks.push(Block::Plot(Plot {
                id: "dpo",
                title: "DPO nears the optimum as preferences accumulate".into(),
                x: Axis::log("preference pairs sampled"),
                y: Axis::log("total variation to π*"),
                marks: Marks::Lines(vec![
                    Line::new("DPO", over_pairs(|row| row.tv)),
                    Line::new("expected of so many pairs", over_pairs(|row| row.tv_expected)).dashed(),
                ]),
            }));
            let steady = dpo.rows.windows(2).all(|pair| pair[1].tv <= pair[0].tv);
            observations.push(format!(
                "From {} to {} pairs the distance to π* goes from {} to {}{}.",
                first.pairs,
                last.pairs,
                fixed(first.tv, 3),
                fixed(last.tv, 4),
                if steady {
                    ", falling at every size"
                } else {
                    ", though not at every size: fewer pairs can be lucky"
                },
            ));
        }
        observations.push(format!(
            "On {} pairs DPO ends {} from π*; the noise of so many labels alone leaves the best estimate {} away on average, \
             and this run came out {} that.",
            last.pairs,
            fixed(last.tv, 4),
            fixed(last.tv_expected, 4),
            if last.tv <= last.tv_expected { "below" } else { "above" },
        ));
    }
    Section {
        title: "DPO, from preferences alone".into(),
        text: format!(
            "No reward model, no sampling from the policy: −log σ(β[log π/π_ref(winner) − log π/π_ref(loser)]), β\u{a0}=\u{a0}{}, on \
             pairs drawn from π_ref and labelled by Bradley-Terry. Each data set extends the one before; pairs of one answer \
             twice carry no preference and are not kept. Expected TV is the theory of maximum likelihood: the average distance \
             that the labels' noise leaves, falling as 1/√pairs.",
            plain(dpo.beta)
        ),
        blocks,
        observations,
    }
}

fn implicit_reward(closed: &ClosedForm, rewards: &ImplicitReward) -> Section {
    let rows = answer_rows(closed, |y| {
        let (truth, implied) = (rewards.true_centered[y], rewards.implicit_centered[y]);
        vec![fixed(truth, 3), fixed(implied, 3), fixed(implied - truth, 3)]
    });
    let differences =
        rewards.true_centered.iter().zip(&rewards.implicit_centered).map(|(a, b)| (a - b).abs());
    let (worst, error) =
        differences.enumerate().fold((0, 0.0), |worst, (y, d)| if d > worst.1 { (y, d) } else { worst });
    let order = |x: &[f64]| {
        let mut order: Vec<usize> = (0..x.len()).collect();
        order.sort_by(|&a, &b| x[b].total_cmp(&x[a]));
        order
    };
    let same_order = order(&rewards.true_centered) == order(&rewards.implicit_centered);
    Section {
        title: "The reward hidden in the DPO policy".into(),
        text: "β log(π/π_ref) of the last DPO policy, less its mean: preferences fix a reward only up to a constant."
            .into(),
        blocks: vec![
            Block::Table(Table { header: strings(&["answer", "true r*", "implied", "difference"]), rows }),
            Block::Plot(Plot {
                id: "implicit_reward",
                title: "True and implied reward".into(),
                x: Axis::linear(""),
                y: Axis::linear("reward less its mean"),
                marks: Marks::Bars {
                    categories: closed.answers.iter().map(ToString::to_string).collect(),
                    series: vec![
                        ("true r*".into(), rewards.true_centered.clone()),
                        ("implied by DPO".into(), rewards.implicit_centered.clone()),
                    ],
                },
            }),
        ],
        observations: vec![format!(
            "The policy implies a reward at most {} off the true one (for \"{}\") and {} all six answers in its order.",
            fixed(error, 3),
            closed.answers[worst],
            if same_order { "ranks" } else { "does not rank" },
        )],
    }
}

fn trap(trap: &DpoTrap) -> Section {
    let rows = trap
        .rows
        .iter()
        .zip(&trap.ipo)
        .map(|(dpo, ipo)| {
            vec![dpo.step.to_string(), fixed(dpo.p0, 4), fixed(dpo.kl, 3), fixed(ipo.p0, 4), fixed(ipo.kl, 3)]
        })
        .collect();
    let kl = |rows: &[TrapRow]| rows.iter().map(|row| (row.step as f64, row.kl)).collect();
    let (dpo, ipo) = (trap.rows.last(), trap.ipo.last());
    let last_step = dpo.map_or(0.0, |row| row.step as f64);
    let optimum = Line::new("KL of π*", vec![(0.0, trap.target_kl), (last_step, trap.target_kl)]).dashed();
    let plot = Plot {
        id: "dpo_trap",
        title: "Preferences without noise".into(),
        x: Axis::linear("full-batch step"),
        y: Axis::linear("KL(π ‖ π_ref), nats"),
        marks: Marks::Lines(vec![Line::new("DPO", kl(&trap.rows)), Line::new("IPO", kl(&trap.ipo)), optimum]),
    };
    let verdict = |name: &str, row: Option<&TrapRow>| {
        row.map(|row| {
            let (kl, target) = (fixed(row.kl, 2), fixed(trap.target_kl, 2));
            if row.kl > trap.target_kl {
                format!("{name} passes the optimum's KL of {target} and ends at {kl}, with probability {} on the best answer (π*: {}).", fixed(row.p0, 3), fixed(trap.target_p0, 3))
            } else {
                format!("{name} ends at KL {kl}, below the optimum's {target}, with probability {} on the best answer (π*: {}).", fixed(row.p0, 3), fixed(trap.target_p0, 3))
            }
        })
    };
    let growing = match trap.rows.as_slice() {
        [.., before, last] if last.kl > before.kl => Some(format!(
            "DPO's KL was still growing in the last interval (by {:.1e} nats): a pair that always goes one way pushes its margin without end.",
            last.kl - before.kl
        )),
        _ => None,
    };
    Section {
        title: "A trap: preferences without noise".into(),
        text: format!(
            "The better answer now wins every one of {} pairs. DPO's likelihood then has no finite maximum, whatever β; \
             IPO (Azar et al. 2023), on the same pairs with τ = β\u{a0}=\u{a0}{}, asks for the finite margin 1/(2τ) instead. P is the \
             probability of the best answer.",
            trap.kept,
            plain(trap.beta)
        ),
        blocks: vec![
            Block::Table(Table {
                header: strings(&["step", "P, DPO", "KL, DPO", "P, IPO", "KL, IPO"]),
                rows,
            }),
            Block::Plot(plot),
        ],
        observations: [verdict("DPO", dpo), growing, verdict("IPO", ipo)].into_iter().flatten().collect(),
    }
}

/// The distance to π* that counts as having arrived.
const CLOSE: f64 = 0.02;

fn strings(cells: &[&str]) -> Vec<String> {
    cells.iter().map(ToString::to_string).collect()
}

fn with_cells(first: [&str; 3], values: &[f64], digits: usize) -> Vec<String> {
    let mut row = strings(&first);
    row.extend(values.iter().map(|&v| fixed(v, digits)));
    row
}

/// One row per answer: its name, then `cells(index)`.
fn answer_rows(closed: &ClosedForm, cells: impl Fn(usize) -> Vec<String>) -> Vec<Vec<String>> {
    let row = |(y, name): (usize, &&str)| {
        let mut row = vec![name.to_string()];
        row.extend(cells(y));
        row
    };
    closed.answers.iter().enumerate().map(row).collect()
}

fn argmax(x: &[f64]) -> usize {
    (0..x.len()).reduce(|best, i| if x[i] > x[best] { i } else { best }).unwrap_or(0)
}
