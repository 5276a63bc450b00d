//! The findings of `overopt`.

use crate::demos::overopt::{DECLINE, LOOSE, Results, Row, World, WorldSummary};
use crate::report::format::{count, fixed};

/// Differences below this vanish in the two decimals shown.
const VISIBLE: f64 = 0.005;

/// What the mean over worlds does as n grows.
pub fn mean(results: &Results) -> Vec<String> {
    let mean = &results.mean;
    let (n, last) = (&mean.n, mean.n.len() - 1);
    let mut findings = Vec::new();
    let gain = |y: &[f64], from: usize| fixed(y[last] - y[from], 2);
    let peak = (0..=last).fold(0, |best, i| if mean.gold[i] > mean.gold[best] { i } else { best });
    if mean.gold[peak] - mean.gold[last] > VISIBLE {
        findings.push(format!(
            "The mean true reward peaks at {} for n = {} and is {} at n = {}; from there to here the learned reward gains {}.",
            fixed(mean.gold[peak], 2),
            n[peak],
            fixed(mean.gold[last], 2),
            n[last],
            gain(&mean.proxy, peak),
        ));
    } else if last > 0 {
        findings.push(format!(
            "From n = {} to n = {} the mean true reward gains {} and the learned reward {}.",
            n[0],
            n[last],
            gain(&mean.gold, 0),
            gain(&mean.proxy, 0),
        ));
    }
    if let (Some((low, high)), true) = (mean.gold_interval[last], last > 0) {
        let risk = match results.declined {
            0 => "",
            d if d == results.seeds => ", all of them",
            _ => ": over-optimisation is a risk, not a certainty",
        };
        findings.push(format!(
            "In {} of {} the true reward ends more than {DECLINE} below its own highest{risk}. The 95 % interval of the mean at n = {} is {} to {}.",
            results.declined,
            count(results.seeds, "world"),
            n[last],
            fixed(low, 2),
            fixed(high, 2),
        ));
    }
    findings.push(format!(
        "Selecting by the true reward would reach {} at n = {}, {} more than the learned one does.",
        fixed(mean.gold_select[last], 2),
        n[last],
        fixed(mean.gold_select[last] - mean.gold[last], 2),
    ));
    findings
}

/// Whether the first world's true reward declined.
pub fn first_world(world: &World, summary: &WorldSummary) -> Vec<String> {
    let (Some(end), true) = (world.rows.last(), world.rows.len() > 1) else { return Vec::new() };
    let course = if summary.declined {
        format!(
            "In this world the true reward peaks at {} (n = {}) and ends at {}",
            fixed(summary.gold_peak, 2),
            summary.peak_n,
            fixed(summary.gold_last, 2)
        )
    } else {
        format!(
            "In this world the true reward ends at {}, within {DECLINE} of its highest",
            fixed(summary.gold_last, 2)
        )
    };
    vec![format!(
        "{course}, while the model believes in {} and selecting by the truth would give {}.",
        fixed(end.proxy, 2),
        fixed(end.gold_select, 2)
    )]
}

/// Where the KL formula and the exact KL part.
pub fn bound(world: &World) -> Vec<String> {
    let excess = |row: &&Row| row.kl_formula - row.kl;
    let loose = world.rows.iter().filter(|row| excess(row) > LOOSE).count();
    let worst = world.rows.iter().max_by(|a, b| excess(a).total_cmp(&excess(b)));
    let (Some(worst), Some(first)) = (worst, world.loose_from) else {
        return vec![format!("At every n listed the bound is within {LOOSE} nats of the exact KL.")];
    };
    vec![format!(
        "At {loose} of the {} n listed, the first of them {first}, the bound exceeds the exact KL by more than {LOOSE} nats, at most by {} \
         (n = {}). However large n, the exact KL cannot pass {}: the surprise of the top answers under the reference.",
        world.rows.len(),
        fixed(excess(&worst), 2),
        worst.n,
        fixed(world.kl_ceiling, 2),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demos::overopt::Mean;

    fn world(kl: &[f64]) -> World {
        let row = |(i, &kl): (usize, &f64)| Row {
            n: 1 << i,
            kl,
            kl_formula: i as f64,
            proxy: 8.0,
            gold: 1.4,
            gold_select: 3.5,
        };
        let rows: Vec<Row> = kl.iter().enumerate().map(row).collect();
        World {
            n_seen: 2,
            n_unseen: 0,
            unseen_mass: 0.0,
            pairs_kept: 1,
            pairs_dropped: 0,
            corr_weighted: None,
            corr: None,
            kl_ceiling: 4.0,
            loose_from: rows.iter().find(|r| r.kl_formula - r.kl > LOOSE).map(|r| r.n),
            rows,
        }
    }

    /// Excess .0, .2, .05, .3: loose at two n of four, and not from the first of them on.
    #[test]
    fn looseness_is_claimed_for_the_listed_n_alone() {
        let text = bound(&world(&[0.0, 0.8, 1.95, 2.7])).join(" ");
        assert!(
            text.contains("At 2 of the 4 n listed, the first of them 2,") && text.contains("0.30 (n = 8)"),
            "{text}"
        );
        assert!(bound(&world(&[0.0, 0.99])).join(" ").contains("At every n listed"));
    }

    fn results(gold: &[f64], seeds: u64, declined: u64) -> Results {
        let n: Vec<u64> = (0..gold.len()).map(|i| 1 << i).collect();
        let interval = vec![(seeds > 1).then_some((0.1, 0.9)); n.len()];
        let summary = WorldSummary {
            world: 0,
            corr_weighted: None,
            peak_n: 2,
            gold_peak: 1.5,
            gold_last: 1.0,
            declined: declined > 0,
        };
        Results {
            seed0: world(&vec![0.0; n.len()]),
            mean: Mean {
                kl: vec![0.0; n.len()],
                proxy: (0..n.len()).map(|i| i as f64).collect(),
                proxy_interval: interval.clone(),
                gold: gold.to_vec(),
                gold_se: vec![None; n.len()],
                gold_interval: interval,
                gold_select: vec![3.0; n.len()],
                n,
            },
            seeds,
            declined,
            worlds: vec![summary],
        }
    }

    #[test]
    fn a_peak_is_one_that_can_be_seen() {
        let says = |results: &Results, what: &str| {
            let text = mean(results).join(" ");
            assert!(text.contains(what), "{text}");
        };
        says(&results(&[0.0, 1.2, 1.0], 20, 9), "peaks at 1.20 for n = 2 and is 1.00 at n = 4");
        says(&results(&[0.0, 1.2, 1.0], 20, 9), "In 9 of 20 worlds");
        says(&results(&[0.0, 1.0, 0.9999], 20, 0), "From n = 1 to n = 4 the mean true reward gains 1.00");
        let single = mean(&results(&[0.4], 1, 0));
        assert_eq!(
            single,
            ["Selecting by the true reward would reach 3.00 at n = 1, 2.60 more than the learned one does."]
        );
    }

    #[test]
    fn one_world_claims_a_decline_only_if_it_declined() {
        let declined = results(&[0.0, 1.0], 2, 1);
        let text = first_world(&declined.seed0, &declined.worlds[0]).join(" ");
        assert!(
            text.contains("peaks at 1.50 (n = 2) and ends at 1.00, while the model believes in 8.00"),
            "{text}"
        );
        let steady = results(&[0.0, 1.0], 2, 0);
        let text = first_world(&steady.seed0, &steady.worlds[0]).join(" ");
        assert!(text.contains("ends at 1.00, within 0.1 of its highest, while"), "{text}");
    }
}
