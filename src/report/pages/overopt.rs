//! The page of `overopt`.

use crate::demos::overopt::{Config, Mean, Results, Row, World, WorldSummary};
use crate::report::document::{Axis, Block, Curve, Document, Line, Marks, Plot, Section, Table};
use crate::report::findings::overopt as findings;
use crate::report::format::{count, fixed, optional};
use crate::report::json::Figure;
use crate::report::pages::page::Page;

impl Page for Config {
    fn page(&self, results: &Results) -> Document {
        Document {
            title: "Goodhart's law, exactly: best-of-n under a learned reward".into(),
            summary: format!(
                "{} possible answers with true rewards N(0, 1) and a long-tailed reference; a reward model \
                 learns from {}; best-of-n keeps the answer that the model scores highest. Given the model, \
                 every figure is exact: no answer is sampled.",
                self.answers,
                count(self.pairs, "preference pair"),
            ),
            sections: vec![
                mean_section(results),
                first_world(&results.seed0, &results.worlds[0]),
                bound(&results.seed0),
            ],
            curves: vec![
                Curve::from_rows("world 0", &results.seed0.rows),
                Curve::from_rows("worlds", &results.worlds),
                mean_curve(&results.mean),
            ],
        }
    }

    fn headline(&self, results: &Results) -> Vec<Figure> {
        let mean = &results.mean;
        let over_n = |what: &str, values: &[f64]| {
            let figure = |(n, value): (&u64, &f64)| Figure::new(format!("{what}, best of {n}"), *value);
            mean.n.iter().zip(values).map(figure).collect::<Vec<_>>()
        };
        [over_n("learned reward", &mean.proxy), over_n("true reward", &mean.gold)].concat()
    }
}

fn mean_section(results: &Results) -> Section {
    let mean = &results.mean;
    let rows = (0..mean.n.len()).map(|i| {
        vec![
            mean.n[i].to_string(),
            fixed(mean.kl[i], 2),
            fixed(mean.proxy[i], 2),
            fixed(mean.gold[i], 2),
            optional(mean.gold_se[i], 2),
            fixed(mean.gold_select[i], 2),
        ]
    });
    let over_n = |y: &[f64]| mean.n.iter().map(|&n| n as f64).zip(y.iter().copied()).collect::<Vec<_>>();
    let worlds = count(results.seeds, "world");
    let shaded = if results.seeds > 1 { ", 95 % intervals" } else { "" };
    Section {
        title: format!("The mean of {worlds}"),
        text: "The learned reward is what the selection maximises, so it cannot fall with n; the true reward owes it \
               nothing. Each world has its own answers, preferences and reward model; s.e. is the standard error \
               over worlds. The last column selects by the true reward instead."
            .into(),
        blocks: vec![
            Block::Table(Table {
                header: ["n", "KL", "learned", "true", "s.e.", "true selects"].map(String::from).to_vec(),
                rows: rows.collect(),
            }),
            Block::Plot(Plot {
                id: "mean".into(),
                title: format!("What is optimised and what is wanted: mean of {worlds}{shaded}"),
                x: Axis::log("n of best-of-n"),
                y: Axis::linear("expected reward"),
                marks: Marks::Lines(vec![
                    Line::new("learned reward (optimised)", over_n(&mean.proxy)).with_band(&mean.proxy_interval),
                    Line::new("true reward (wanted)", over_n(&mean.gold)).with_band(&mean.gold_interval),
                    Line::new("true reward if it selected", over_n(&mean.gold_select)).dashed(),
                ]),
            }),
        ],
        observations: findings::mean(results),
    }
}

fn first_world(world: &World, summary: &WorldSummary) -> Section {
    let row = |row: &Row| {
        vec![
            row.n.to_string(),
            fixed(row.kl, 3),
            fixed(row.proxy, 2),
            fixed(row.gold, 2),
            fixed(row.gold_select, 2),
        ]
    };
    let unseen = match world.n_unseen {
        0 => String::new(),
        n => format!(
            "The other {n}, with {} of the reference mass, keep the learned reward 0 exactly. ",
            fixed(world.unseen_mass, 3)
        ),
    };
    let over_kl = |y: fn(&Row) -> f64| world.rows.iter().map(|row| (row.kl, y(row))).collect();
    Section {
        title: "One world in full".into(),
        text: format!(
            "Of {} labelled, {} compared two different answers; {} occur in them. {unseen}Best-of-n treats \
             answers of equal learned reward as one class, within which the reference decides. Correlation of \
             learned and true reward: {} weighted by the reference, {} unweighted.",
            count(world.pairs_kept + world.pairs_dropped, "pair"),
            world.pairs_kept,
            count(world.n_seen, "answer"),
            optional(world.corr_weighted, 2),
            optional(world.corr, 2),
        ),
        blocks: vec![
            Block::Table(Table {
                header: ["n", "KL", "learned", "true", "true selects"].map(String::from).to_vec(),
                rows: world.rows.iter().map(row).collect(),
            }),
            Block::Plot(Plot {
                id: "world0".into(),
                title: "One world over the distance travelled".into(),
                x: Axis::linear("exact KL(π_n ‖ π_ref), nats"),
                y: Axis::linear("expected reward"),
                marks: Marks::Lines(vec![
                    Line::new("learned reward (optimised)", over_kl(|row| row.proxy)),
                    Line::new("true reward (wanted)", over_kl(|row| row.gold)),
                ]),
            }),
        ],
        observations: findings::first_world(world, summary),
    }
}

fn bound(world: &World) -> Section {
    let row = |row: &Row| {
        let excess = row.kl_formula - row.kl;
        vec![row.n.to_string(), fixed(row.kl, 4), fixed(row.kl_formula, 4), fixed(excess, 4)]
    };
    let over_n = |y: &dyn Fn(&Row) -> f64| world.rows.iter().map(|row| (row.n as f64, y(row))).collect();
    Section {
        title: "How far the formula for the KL can be trusted".into(),
        text: "log n − (n − 1)/n is often quoted as the KL of best-of-n. It is an upper bound, exact only where no \
               answer has noticeable probability (Beirami et al. 2024)."
            .into(),
        blocks: vec![
            Block::Table(Table {
                header: ["n", "exact KL", "bound", "excess"].map(String::from).to_vec(),
                rows: world.rows.iter().map(row).collect(),
            }),
            Block::Plot(Plot {
                id: "kl_bound".into(),
                title: "The KL of best-of-n and its bound".into(),
                x: Axis::log("n of best-of-n"),
                y: Axis::linear("KL(π_n ‖ π_ref), nats"),
                marks: Marks::Lines(vec![
                    Line::new("exact", over_n(&|row| row.kl)),
                    Line::new("bound log n − (n − 1)/n", over_n(&|row| row.kl_formula)).dashed(),
                    Line::new("ceiling −log π_ref(top answers)", over_n(&|_| world.kl_ceiling)).dashed(),
                ]),
            }),
        ],
        observations: findings::bound(world),
    }
}

fn mean_curve(mean: &Mean) -> Curve {
    let mut points = Vec::new();
    for (i, &n) in mean.n.iter().enumerate() {
        let low = |interval: &[Option<(f64, f64)>]| interval[i].map(|(low, _)| low);
        let high = |interval: &[Option<(f64, f64)>]| interval[i].map(|(_, high)| high);
        let metrics = [
            ("kl", Some(mean.kl[i])),
            ("proxy", Some(mean.proxy[i])),
            ("proxy_low", low(&mean.proxy_interval)),
            ("proxy_high", high(&mean.proxy_interval)),
            ("gold", Some(mean.gold[i])),
            ("gold_low", low(&mean.gold_interval)),
            ("gold_high", high(&mean.gold_interval)),
            ("gold_select", Some(mean.gold_select[i])),
        ];
        let present = metrics.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?)));
        points.extend(present.map(|(name, value)| (n as f64, name, value)));
    }
    Curve { name: "mean".into(), x_name: "n".into(), points }
}
