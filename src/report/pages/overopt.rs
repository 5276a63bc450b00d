//! The page of `overopt`.

use crate::demos::overopt::{Config, DECLINE, LOOSE, Mean, Results, World};
use crate::report::document::{Axis, Block, Curve, Document, Line, Marks, Plot, Section, Table};
use crate::report::format::{fixed, optional};
use crate::report::pages::page::Page;

impl Page for Config {
    fn page(&self, results: &Results) -> Document {
        Document {
            title: "Goodhart's law, exactly: best-of-n under a learned reward".into(),
            summary: format!(
                "{} possible answers with true rewards N(0, 1) and a long-tailed reference; a reward model learns from {} \
                 preference pairs; best-of-n keeps the answer that the model scores highest. Given the model, every figure \
                 is exact: no answer is sampled.",
                self.answers, self.pairs
            ),
            sections: vec![mean_section(results), first_world(&results.seed0), bound(&results.seed0)],
            curves: vec![
                Curve::from_rows("world 0", &results.seed0.rows),
                Curve::from_rows("worlds", &results.worlds),
                mean_curve(&results.mean),
            ],
        }
    }
}

fn mean_section(results: &Results) -> Section {
    let mean = &results.mean;
    let rows = (0..mean.n.len())
        .map(|i| {
            vec![
                mean.n[i].to_string(),
                fixed(mean.kl[i], 2),
                fixed(mean.proxy[i], 2),
                fixed(mean.gold[i], 2),
                optional(mean.gold_se[i], 2),
                fixed(mean.gold_select[i], 2),
            ]
        })
        .collect();
    let over_n = |y: &[f64]| mean.n.iter().map(|&n| n as f64).zip(y.iter().copied()).collect::<Vec<_>>();
    let plot = Plot {
        id: "mean",
        title: format!(
            "What is optimised and what is wanted: mean of {}, 95 % intervals",
            plural(results.seeds, "world")
        ),
        x: Axis::log("n of best-of-n"),
        y: Axis::linear("expected reward"),
        marks: Marks::Lines(vec![
            Line::new("learned reward (optimised)", over_n(&mean.proxy))
                .with_band(mean.proxy_interval.clone()),
            Line::new("true reward (wanted)", over_n(&mean.gold)).with_band(mean.gold_interval.clone()),
            Line::new("true reward if it selected", over_n(&mean.gold_select)).dashed(),
        ]),
    };
    Section {
        title: format!("The mean of {}", plural(results.seeds, "world")),
        text: "The learned reward is what the selection maximises, so it cannot fall with n; the true reward owes it \
               nothing. Each world has its own answers, preferences and reward model; s.e. is the standard error over \
               worlds. The last column selects by the true reward instead."
            .into(),
        blocks: vec![
            Block::Table(Table {
                header: ["n", "KL", "learned", "true", "s.e.", "true selects"].map(String::from).to_vec(),
                rows,
            }),
            Block::Plot(plot),
        ],
        observations: mean_observations(results),
    }
}

fn mean_observations(results: &Results) -> Vec<String> {
    let mean = &results.mean;
    let last = mean.n.len() - 1;
    let peak = (0..=last).fold(0, |best, i| if mean.gold[i] > mean.gold[best] { i } else { best });
    let gain = |y: &[f64], from: usize, to: usize| fixed(y[to] - y[from], 2);
    let mut observations = Vec::new();
    if peak == last {
        observations.push(format!(
            "The mean true reward still rises at n = {}: it has gained {} since n = {} while the learned reward gained {}.",
            mean.n[last],
            gain(&mean.gold, 0, last),
            mean.n[0],
            gain(&mean.proxy, 0, last),
        ));
    } else {
        observations.push(format!(
            "The mean true reward peaks at {} for n = {} and is {} at n = {}, while the learned reward gains another {} on that way.",
            fixed(mean.gold[peak], 2),
            mean.n[peak],
            fixed(mean.gold[last], 2),
            mean.n[last],
            gain(&mean.proxy, peak, last),
        ));
    }
    let lowest_interval = mean.gold_interval[last];
    observations.push(format!(
        "In {} of {} the true reward ends more than {DECLINE} below its own highest{}; the 95 % interval of the mean at the largest n is {} to {}.",
        results.declined,
        plural(results.seeds, "world"),
        match results.declined {
            0 => ": none declines".to_string(),
            d if d == results.seeds => ": all decline".to_string(),
            _ => ": over-optimisation is a risk, not a certainty".to_string(),
        },
        fixed(lowest_interval.0, 2),
        fixed(lowest_interval.1, 2),
    ));
    let falls = mean.gold_select.windows(2).any(|pair| pair[1] < pair[0] - 1e-9);
    observations.push(if falls {
        "Selecting by the true reward, it falls somewhere: that must not happen.".to_string()
    } else {
        format!(
            "Selecting by the true reward, it never falls and reaches {}: the fault is the reward model's, not best-of-n's.",
            fixed(mean.gold_select[last], 2)
        )
    });
    observations
}

fn first_world(world: &World) -> Section {
    let rows = world
        .rows
        .iter()
        .map(|row| {
            vec![
                row.n.to_string(),
                fixed(row.kl, 3),
                fixed(row.proxy, 2),
                fixed(row.gold, 2),
                fixed(row.gold_select, 2),
            ]
        })
        .collect();
    let over_kl = |y: &dyn Fn(&crate::demos::overopt::Row) -> f64| {
        world.rows.iter().map(|row| (row.kl, y(row))).collect::<Vec<_>>()
    };
    let plot = Plot {
        id: "world0",
        title: "One world over the distance travelled".into(),
        x: Axis::linear("exact KL(π_n ‖ π_ref), nats"),
        y: Axis::linear("expected reward"),
        marks: Marks::Lines(vec![
            Line::new("learned reward (optimised)", over_kl(&|row| row.proxy)),
            Line::new("true reward (wanted)", over_kl(&|row| row.gold)),
        ]),
    };
    let last = world.rows.len() - 1;
    let peak =
        (0..=last).fold(0, |best, i| if world.rows[i].gold > world.rows[best].gold { i } else { best });
    let (top, end) = (&world.rows[peak], &world.rows[last]);
    let verdict = if end.gold < top.gold - DECLINE {
        format!(
            "In this world the true reward peaks at {} (n = {}) and falls to {}: selected too hard, answers win that the model misjudges.",
            fixed(top.gold, 2),
            top.n,
            fixed(end.gold, 2)
        )
    } else {
        format!(
            "In this world the true reward ends at {}, within {DECLINE} of its highest ({} at n = {}): here the model does not misjudge its favourites badly enough to show.",
            fixed(end.gold, 2),
            fixed(top.gold, 2),
            top.n
        )
    };
    Section {
        title: "One world in full".into(),
        text: format!(
            "Of {} labelled pairs {} compare two different answers, and {} answers occur in them. The other answers keep the \
             learned reward 0 exactly: {} answers with {} of the reference mass tie, and best-of-n treats a tie as one class, \
             within which the reference decides. Correlation of learned and true reward: {} weighted by the reference, {} unweighted.",
            world.pairs_kept + world.pairs_dropped,
            world.pairs_kept,
            world.n_seen,
            world.tied,
            fixed(world.tied_mass, 3),
            optional(world.corr_weighted, 2),
            optional(world.corr, 2),
        ),
        blocks: vec![
            Block::Table(Table {
                header: ["n", "KL", "learned", "true", "true selects"].map(String::from).to_vec(),
                rows,
            }),
            Block::Plot(plot),
        ],
        observations: vec![verdict],
    }
}

fn bound(world: &World) -> Section {
    let rows = world
        .rows
        .iter()
        .map(|row| {
            vec![
                row.n.to_string(),
                fixed(row.kl, 4),
                fixed(row.kl_formula, 4),
                fixed(row.kl_formula - row.kl, 4),
            ]
        })
        .collect();
    let over_n = |y: &dyn Fn(&crate::demos::overopt::Row) -> f64| {
        world.rows.iter().map(|row| (row.n as f64, y(row))).collect::<Vec<_>>()
    };
    let ends = |y: f64| world.rows.iter().map(|row| (row.n as f64, y)).collect::<Vec<_>>();
    let plot = Plot {
        id: "kl_bound",
        title: "The KL of best-of-n and its bound".into(),
        x: Axis::log("n of best-of-n"),
        y: Axis::linear("KL(π_n ‖ π_ref), nats"),
        marks: Marks::Lines(vec![
            Line::new("exact", over_n(&|row| row.kl)),
            Line::new("bound log n − (n − 1)/n", over_n(&|row| row.kl_formula)).dashed(),
            Line::new("ceiling −log π_ref(top answers)", ends(world.kl_ceiling)).dashed(),
        ]),
    };
    let largest = world.rows.last().map_or(0.0, |row| row.kl_formula - row.kl);
    let verdict = match world.loose_from {
        Some(n) => format!(
            "The bound is within {LOOSE} nats of the exact KL below n = {n} and loose from there; at the largest n it is {} nats too high. \
             The exact KL cannot pass {}, the surprise of the top answers under the reference.",
            fixed(largest, 2),
            fixed(world.kl_ceiling, 2)
        ),
        None => format!("At every n listed the bound is within {LOOSE} nats of the exact KL."),
    };
    Section {
        title: "How far the formula for the KL can be trusted".into(),
        text: "log n − (n − 1)/n is often quoted as the KL of best-of-n. It is an upper bound, exact only where no answer has \
               noticeable probability (Beirami et al. 2024)."
            .into(),
        blocks: vec![
            Block::Table(Table { header: ["n", "exact KL", "bound", "excess"].map(String::from).to_vec(), rows }),
            Block::Plot(plot),
        ],
        observations: vec![verdict],
    }
}

fn mean_curve(mean: &Mean) -> Curve {
    let mut points = Vec::new();
    for (i, &n) in mean.n.iter().enumerate() {
        let mut metric = |name: &str, value: f64| points.push((n as f64, name.to_string(), value));
        metric("kl", mean.kl[i]);
        metric("proxy", mean.proxy[i]);
        metric("proxy_low", mean.proxy_interval[i].0);
        metric("proxy_high", mean.proxy_interval[i].1);
        metric("gold", mean.gold[i]);
        metric("gold_low", mean.gold_interval[i].0);
        metric("gold_high", mean.gold_interval[i].1);
        metric("gold_select", mean.gold_select[i]);
    }
    Curve { name: "mean", x_name: "n".into(), points }
}

fn plural(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}
