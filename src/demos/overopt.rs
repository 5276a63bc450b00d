//! `overopt`: Goodhart's law, exactly. Best-of-n under a learned reward model, against the true reward.

use anyhow::Result;
use clap::Args;
use rayon::prelude::{IntoParallelIterator, ParallelIterator};
use serde::Serialize;

use crate::algorithms::tabular::bradley_terry::{RewardFit, fit_rewards};
use crate::demos::args::{ascending, count, defaults, number};
use crate::demos::demo::{Demo, Lab};
use crate::foundation::preferences::PreferenceCounts;
use crate::foundation::rng::Rng;
use crate::foundation::stats::{
    bootstrap_mean_interval, expectation, mean, standard_error, weighted_correlation,
};
use crate::worlds::best_of_n::{BestOfN, kl_bound};
use crate::worlds::categorical::{CategoricalWorld, Labeller};

/// Hyperparameters of `overopt`.
#[derive(Args, Clone, Debug, Serialize)]
pub struct Config {
    /// Worlds, each with its own answers, preferences and reward model
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = count(1..=10_000))]
    pub seeds: u64,

    /// Possible answers in each world
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = count(2..=100_000))]
    pub answers: u64,

    /// Dirichlet concentration of the reference: the smaller, the longer its tail
    #[arg(long, value_name = "X", default_value_t = 0.3, value_parser = number(0.05..=1000.0))]
    pub concentration: f64,

    /// Preference pairs that the reward model learns from
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = count(1..=10_000_000))]
    pub pairs: u64,

    /// Adam steps of the reward model
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = count(1..=1_000_000))]
    pub steps: u64,

    /// Learning rate of Adam
    #[arg(long, value_name = "X", default_value_t = 0.1, value_parser = number(1e-6..=10.0))]
    pub lr: f64,

    /// L2 penalty on the learned rewards
    #[arg(long, value_name = "X", default_value_t = 1e-5, value_parser = number(0.0..=1e3))]
    pub l2: f64,

    /// Sizes n of best-of-n
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS",
          default_values_t = [1, 2, 4, 8, 16, 32, 64, 256, 1024, 4096, 16_384],
          value_parser = count(1..=1_000_000_000_000_000_000))]
    pub n: Vec<u64>,
}

impl Default for Config {
    fn default() -> Self {
        defaults()
    }
}

/// A world counts as declined when its true reward at the largest n is below its highest by more.
pub const DECLINE: f64 = 0.1;

/// The KL bound counts as loose where it exceeds the exact KL by more, in nats.
pub const LOOSE: f64 = 0.1;

/// What `overopt` measures.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// The first world in full.
    pub seed0: World,
    /// The mean over all worlds.
    pub mean: Mean,
    /// Worlds run.
    pub seeds: u64,
    /// Worlds whose true reward ends more than [`DECLINE`] below its highest.
    pub declined: u64,
    /// Each world in short.
    pub worlds: Vec<WorldSummary>,
}

/// One world in full.
#[derive(Clone, Debug, Serialize)]
pub struct World {
    /// Answers in at least one pair.
    pub n_seen: u64,
    /// Pairs left without those of one answer twice.
    pub pairs_kept: u64,
    /// Pairs of one answer twice.
    pub pairs_dropped: u64,
    /// Correlation of learned and true reward, weighted by the reference.
    pub corr_weighted: Option<f64>,
    /// The same with equal weights.
    pub corr: Option<f64>,
    /// Answers in no pair: they keep the learned reward 0, one class of ties.
    pub n_unseen: u64,
    /// Their reference probability together.
    pub unseen_mass: f64,
    /// −log π_ref of the answers of highest learned reward: what the KL cannot exceed.
    pub kl_ceiling: f64,
    /// The first n listed at which the bound exceeds the exact KL by more than [`LOOSE`].
    pub loose_from: Option<u64>,
    /// One row per n.
    pub rows: Vec<Row>,
}

/// Best-of-n at one n.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Answers drawn.
    pub n: u64,
    /// Exact KL(π_n ‖ π_ref), nats.
    pub kl: f64,
    /// Its bound log n − (n − 1)/n.
    pub kl_formula: f64,
    /// Expected learned reward, which the selection maximises.
    pub proxy: f64,
    /// Expected true reward.
    pub gold: f64,
    /// Expected true reward when the true reward selects.
    pub gold_select: f64,
}

/// Means over worlds, one entry per n.
#[derive(Clone, Debug, Serialize)]
pub struct Mean {
    /// Answers drawn.
    pub n: Vec<u64>,
    /// Exact KL, nats.
    pub kl: Vec<f64>,
    /// Learned reward.
    pub proxy: Vec<f64>,
    /// 95 % bootstrap interval of the mean learned reward over worlds; `null` for a single world.
    pub proxy_interval: Vec<Option<(f64, f64)>>,
    /// True reward.
    pub gold: Vec<f64>,
    /// Standard error of the mean true reward; `null` for a single world.
    pub gold_se: Vec<Option<f64>>,
    /// 95 % bootstrap interval of the mean true reward over worlds; `null` for a single world.
    pub gold_interval: Vec<Option<(f64, f64)>>,
    /// True reward when the true reward selects.
    pub gold_select: Vec<f64>,
}

/// One world in short.
#[derive(Clone, Debug, Serialize)]
pub struct WorldSummary {
    /// Index of the world.
    pub world: u64,
    /// Correlation of learned and true reward, weighted by the reference.
    pub corr_weighted: Option<f64>,
    /// n at which the true reward is highest.
    pub peak_n: u64,
    /// True reward there.
    pub gold_peak: f64,
    /// True reward at the largest n.
    pub gold_last: f64,
    /// Whether it fell by more than [`DECLINE`].
    pub declined: bool,
}

impl Demo for Config {
    const COMMAND: &'static str = "overopt";
    const QUICK: &'static [(&'static str, &'static str)] =
        &[("seeds", "4"), ("answers", "500"), ("pairs", "300"), ("steps", "300")];
    type Results = Results;

    fn check(&self) -> Result<(), String> {
        // About ten nanoseconds per pair and step, and as much per answer and n.
        let sizes = self.n.len() as u64;
        let fitting = self.steps.saturating_mul(self.pairs.saturating_mul(2).min(self.answers) + self.pairs);
        let operations =
            self.seeds.saturating_mul(fitting.saturating_add(sizes.saturating_mul(self.answers)));
        if operations > 50_000_000_000 {
            return Err(format!(
                "--seeds x (--steps x (--pairs + answers seen) + --answers x sizes in --n) is {:.1e}; \
                 at most 5e10 is allowed",
                operations as f64
            ));
        }
        if self.seeds.saturating_mul(sizes) > 1_000_000 {
            return Err(format!(
                "--seeds x sizes in --n is {}; at most 1000000 is allowed",
                self.seeds * sizes
            ));
        }
        Ok(())
    }

    fn run(&self, lab: &Lab) -> Result<Results> {
        let root = Rng::new(lab.seed).fork(Self::COMMAND);
        let sizes = ascending(&self.n);
        lab.progress.begin("worlds", self.seeds);
        let worlds: Vec<World> = (0..self.seeds)
            .into_par_iter()
            .map(|index| {
                let world = self.experiment(&sizes, &root.fork("world").fork(index));
                lab.progress.advance(1);
                world
            })
            .collect();
        let summaries: Vec<WorldSummary> =
            worlds.iter().enumerate().map(|(index, world)| summary(index as u64, world)).collect();
        Ok(Results {
            mean: average(&sizes, &worlds, &mut root.fork("bootstrap")),
            seeds: self.seeds,
            declined: summaries.iter().filter(|w| w.declined).count() as u64,
            worlds: summaries,
            seed0: worlds.into_iter().next().expect("--seeds is at least 1"),
        })
    }
}

impl Config {
    /// One world: draw it, label pairs, fit the reward model; from there on everything is exact.
    fn experiment(&self, sizes: &[u64], rng: &Rng) -> World {
        let answers = self.answers as usize;
        let world = CategoricalWorld::long_tailed(answers, self.concentration, rng);
        let mut counts = PreferenceCounts::default();
        world
            .pair_sampler(Labeller::BradleyTerry, rng.fork("preferences"))
            .sample_into(&mut counts, self.pairs);
        let kinds = counts.kinds();
        let fit = RewardFit { steps: self.steps, lr: self.lr, l2: self.l2 };
        let learned = fit_rewards(answers, &kinds, fit);
        let seen: std::collections::BTreeSet<usize> =
            kinds.iter().flat_map(|kind| [kind.winner, kind.loser]).collect();

        let reference = world.reference();
        let unseen_mass = (0..answers).filter(|y| !seen.contains(y)).map(|y| reference[y]).sum();

        let by_learned = BestOfN::new(&learned, &world.log_ref);
        let by_true = BestOfN::new(&world.reward, &world.log_ref);
        let rows: Vec<Row> = sizes
            .iter()
            .map(|&n| {
                let policy = by_learned.policy(n);
                Row {
                    n,
                    kl: by_learned.kl(n),
                    kl_formula: kl_bound(n),
                    proxy: expectation(&policy, &learned),
                    gold: expectation(&policy, &world.reward),
                    gold_select: expectation(&by_true.policy(n), &world.reward),
                }
            })
            .collect();
        World {
            n_seen: seen.len() as u64,
            pairs_kept: counts.kept(),
            pairs_dropped: counts.dropped(),
            corr_weighted: weighted_correlation(&learned, &world.reward, &reference),
            corr: weighted_correlation(&learned, &world.reward, &vec![1.0; answers]),
            n_unseen: (answers - seen.len()) as u64,
            unseen_mass,
            kl_ceiling: by_learned.kl_ceiling(),
            loose_from: rows.iter().find(|r| r.kl_formula - r.kl > LOOSE).map(|r| r.n),
            rows,
        }
    }
}

fn summary(index: u64, world: &World) -> WorldSummary {
    let last = world.rows.last().expect("--n lists at least one size");
    let peak = world.rows.iter().fold(last, |best, row| if row.gold > best.gold { row } else { best });
    WorldSummary {
        world: index,
        corr_weighted: world.corr_weighted,
        peak_n: peak.n,
        gold_peak: peak.gold,
        gold_last: last.gold,
        declined: last.gold < peak.gold - DECLINE,
    }
}

fn average(sizes: &[u64], worlds: &[World], rng: &mut Rng) -> Mean {
    let column = |pick: &dyn Fn(&Row) -> f64| -> Vec<Vec<f64>> {
        (0..sizes.len()).map(|i| worlds.iter().map(|world| pick(&world.rows[i])).collect()).collect()
    };
    let means = |column: &[Vec<f64>]| -> Vec<f64> {
        column.iter().map(|x| mean(x).expect("--seeds is at least 1")).collect()
    };
    let mut intervals = |column: &[Vec<f64>]| -> Vec<Option<(f64, f64)>> {
        column.iter().map(|x| bootstrap_mean_interval(x, 0.95, 1000, rng)).collect()
    };
    let (proxy, gold) = (column(&|row| row.proxy), column(&|row| row.gold));
    Mean {
        n: sizes.to_vec(),
        kl: means(&column(&|row| row.kl)),
        proxy: means(&proxy),
        proxy_interval: intervals(&proxy),
        gold: means(&gold),
        gold_se: gold.iter().map(|x| standard_error(x)).collect(),
        gold_interval: intervals(&gold),
        gold_select: means(&column(&|row| row.gold_select)),
    }
}
