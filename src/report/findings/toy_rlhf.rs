//! The findings of `toy-rlhf`.

use crate::demos::toy_rlhf::{ClosedForm, DpoRow, DpoTrap, ImplicitReward, ReinforceResult, TrapRow};
use crate::foundation::stats::total_variation;
use crate::report::format::{count, fixed, plain};

/// The distance to π* that counts as having arrived.
const CLOSE: f64 = 0.02;

/// The largest gradient entry with which a fit counts as converged.
const SETTLED: f64 = 1e-4;

/// From the largest to the smallest β of the sweep.
pub fn closed_form(closed: &ClosedForm) -> Vec<String> {
    let by_beta = |a, b| f64::total_cmp(&a, &b);
    let tight = closed.rows.iter().max_by(|a, b| by_beta(a.beta, b.beta));
    let loose = closed.rows.iter().min_by(|a, b| by_beta(a.beta, b.beta));
    let (Some(tight), Some(loose)) = (tight, loose) else { return Vec::new() };
    if tight.beta == loose.beta {
        return Vec::new();
    }
    let from_reference = |policy: &[f64]| fixed(total_variation(policy, &closed.pi_ref), 3);
    let best = argmax(&loose.policy);
    vec![format!(
        "From β\u{a0}=\u{a0}{} to β\u{a0}=\u{a0}{} the optimum's distance from π_ref goes from {} to {} (total \
         variation), E[r*] from {} to {} and KL from {} to {} nats; at the end \"{}\" has probability {}.",
        plain(tight.beta),
        plain(loose.beta),
        from_reference(&tight.policy),
        from_reference(&loose.policy),
        fixed(tight.expected_reward, 2),
        fixed(loose.expected_reward, 2),
        fixed(tight.kl, 3),
        fixed(loose.kl, 3),
        closed.answers[best],
        fixed(loose.policy[best], 4),
    )]
}

/// Where REINFORCE began, when it arrived, whether it stayed.
pub fn reinforce(result: &ReinforceResult) -> Vec<String> {
    let (Some(first), Some(last)) = (result.curve.first(), result.curve.last()) else { return Vec::new() };
    let updates = count(last.step, "update");
    let course =
        format!("The distance to π* goes from {} to {} in {updates}", fixed(first.tv, 4), fixed(last.tv, 4));
    let arrival = result.curve.iter().find(|row| row.tv <= CLOSE);
    let away = result.curve.iter().skip_while(|row| row.tv > CLOSE).any(|row| row.tv > CLOSE);
    let verdict = match arrival {
        None => format!("; it never came within {CLOSE}"),
        Some(row) if row.step == 0 && away => format!(": it began within {CLOSE} and did not stay there"),
        Some(row) if row.step == 0 => format!(": it began within {CLOSE} and stayed there"),
        Some(row) if away => {
            format!("; it is first seen within {CLOSE} at update {}, but does not stay there", row.step)
        }
        Some(row) => format!("; it is first seen within {CLOSE} at update {} and stays there", row.step),
    };
    vec![
        format!("{course}{verdict}."),
        format!(
            "What is maximised, E[r*] − β KL, ends at {}; no policy exceeds {}.",
            fixed(result.objective, 4),
            fixed(result.optimum, 4)
        ),
    ]
}

/// How DPO's distance goes with data, and how that compares with what the labels allow.
pub fn dpo(rows: &[DpoRow]) -> Vec<String> {
    let mut findings = Vec::new();
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return findings };
    if rows.len() > 1 {
        let falling = rows.windows(2).all(|pair| pair[1].tv < pair[0].tv);
        let rising = rows.windows(2).all(|pair| pair[1].tv > pair[0].tv);
        findings.push(format!(
            "From {} to {} the distance to π* goes from {} to {}{}.",
            first.pairs,
            count(last.pairs, "pair"),
            fixed(first.tv, 4),
            fixed(last.tv, 4),
            match (falling, rising) {
                (true, _) => ", falling at every size",
                (_, true) => ", rising at every size",
                _ => ", but not steadily",
            },
        ));
    }
    if last.kept == 0 {
        findings.push(format!(
            "In {} no two different answers met: there is no preference to learn from.",
            count(last.pairs, "pair")
        ));
    } else if last.gradient > SETTLED {
        findings.push(format!(
            "On {} DPO had not converged (its gradient still had an entry of {:.1e}): with more --dpo-steps it would move on.",
            count(last.pairs, "pair"),
            last.gradient
        ));
    } else if let Some(expected) = last.tv_expected {
        findings.push(format!(
            "On {} DPO ends {} from π*. Maximum likelihood on so many noisy labels is {} away on average; this run came out {} that.",
            count(last.pairs, "pair"),
            fixed(last.tv, 4),
            fixed(expected, 4),
            if last.tv <= expected { "below" } else { "above" },
        ));
    }
    findings
}

/// How well the implied reward matches the true one.
pub fn implicit_reward(answers: &[&str], rewards: &ImplicitReward) -> Vec<String> {
    let (truth, implied) = (&rewards.true_centered, &rewards.implicit_centered);
    let difference: Vec<f64> = truth.iter().zip(implied).map(|(a, b)| (a - b).abs()).collect();
    let worst = argmax(&difference);
    let order = |x: &[f64]| {
        let mut order: Vec<usize> = (0..x.len()).collect();
        order.sort_by(|&a, &b| x[b].total_cmp(&x[a]));
        order
    };
    let ranks = if order(truth) == order(implied) { "ranks" } else { "does not rank" };
    vec![format!(
        "The policy implies a reward at most {} off the true one (for \"{}\") and {ranks} all answers as the true one does.",
        fixed(difference[worst], 3),
        answers[worst],
    )]
}

/// Where DPO and IPO end on preferences without noise.
pub fn trap(trap: &DpoTrap) -> Vec<String> {
    let (Some(dpo), Some(ipo)) = (trap.rows.last(), trap.ipo.last()) else { return Vec::new() };
    if trap.kept == 0 {
        return vec!["No two different answers met, so both policies stay at the reference.".into()];
    }
    let end = |name: &str, row: &TrapRow| {
        let against = match row.kl - trap.target_kl {
            d if d.abs() < 0.005 => "at",
            d if d > 0.0 => "past",
            _ => "below",
        };
        format!(
            "{name} ends at KL {}, {against} the optimum's {}, with probability {} on the best answer (π*: {}) and at total variation {} from π*.",
            fixed(row.kl, 2),
            fixed(trap.target_kl, 2),
            fixed(row.p0, 3),
            fixed(trap.target_p0, 3),
            fixed(row.tv, 3),
        )
    };
    let mut findings = vec![end("DPO", dpo)];
    if let [.., before, last] = trap.rows.as_slice() {
        let growth = last.kl - before.kl;
        if growth > SETTLED {
            findings.push(format!(
                "Between steps {} and {} DPO's KL still grew by {growth:.1e} nats.",
                before.step, last.step
            ));
        }
    }
    findings.push(end("IPO", ipo));
    if ipo.kl < dpo.kl && ipo.tv > dpo.tv {
        findings.push(
            "IPO stays nearer to the reference and yet farther from π*: a bound on the margins is not the optimum of RLHF."
                .into(),
        );
    }
    findings
}

fn argmax(x: &[f64]) -> usize {
    (0..x.len()).reduce(|best, i| if x[i] > x[best] { i } else { best }).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demos::toy_rlhf::{CurveRow, OptimumRow};

    fn curve(tv: &[f64]) -> ReinforceResult {
        let row = |(i, &tv)| CurveRow { step: 10 * i as u64, tv, expected_reward: 0.0, kl: 0.0 };
        ReinforceResult {
            beta: 0.5,
            target: vec![],
            policy: vec![],
            tv: *tv.last().unwrap(),
            objective: 1.0,
            optimum: 2.0,
            curve: tv.iter().enumerate().map(row).collect(),
        }
    }

    #[test]
    fn reinforce_is_said_to_arrive_only_when_it_does() {
        let says = |tv: &[f64], what: &str| {
            let text = reinforce(&curve(tv)).join(" ");
            assert!(text.contains(what), "{tv:?}: {text}");
        };
        says(&[0.7, 0.01, 0.001], "first seen within 0.02 at update 10 and stays there");
        says(&[0.7, 0.01, 0.5], "at update 10, but does not stay there");
        says(&[0.7, 0.6], "in 10 updates; it never came within 0.02");
        says(
            &[0.005, 0.8],
            "goes from 0.0050 to 0.8000 in 10 updates: it began within 0.02 and did not stay",
        );
        says(&[0.005, 0.006], "began within 0.02 and stayed");
    }

    fn row(pairs: u64, tv: f64) -> DpoRow {
        let (expected_reward, kl, policy) = (0.0, 0.0, vec![]);
        DpoRow { pairs, kept: pairs, tv, tv_expected: Some(0.01), gradient: 0.0, expected_reward, kl, policy }
    }

    #[test]
    fn dpo_is_compared_with_its_labels_only_once_converged() {
        let says = |rows: &[DpoRow], what: &str| {
            let text = dpo(rows).join(" ");
            assert!(text.contains(what), "{text}");
        };
        says(&[row(10, 0.5), row(100, 0.005)], "falling at every size");
        says(&[row(10, 0.5), row(100, 0.5)], "but not steadily");
        says(&[row(10, 0.5), row(100, 0.6)], "rising at every size");
        says(&[row(100, 0.005)], "came out below that");
        says(&[row(100, 0.02)], "came out above that");
        says(&[DpoRow { gradient: 0.01, ..row(100, 0.5) }], "had not converged");
        says(&[DpoRow { kept: 0, ..row(1, 0.5) }], "In 1 pair no two different answers met");
        assert!(dpo(&[DpoRow { tv_expected: None, ..row(2, 0.5) }]).is_empty());
    }

    fn fallen(dpo_kl: f64, ipo: (f64, f64)) -> DpoTrap {
        let row = |step, kl, tv| TrapRow { step, p0: 0.5, tv, kl };
        DpoTrap {
            beta: 0.5,
            target_p0: 0.8,
            target_kl: 1.66,
            kept: 5,
            rows: vec![row(0, 0.0, 0.7), row(200, dpo_kl, 0.2)],
            ipo: vec![row(200, ipo.0, ipo.1)],
        }
    }

    #[test]
    fn the_trap_tells_where_each_method_ends() {
        let text = trap(&fallen(2.3, (0.14, 0.6))).join(" ");
        assert!(text.contains("DPO ends at KL 2.30, past the optimum's 1.66"), "{text}");
        assert!(
            text.contains("still grew by 2.3e0 nats") && text.contains("IPO ends at KL 0.14, below"),
            "{text}"
        );
        assert!(text.contains("yet farther from π*"), "{text}");
        let text = trap(&fallen(1.662, (1.7, 0.1))).join(" ");
        assert!(text.contains("at the optimum's 1.66") && !text.contains("farther"), "{text}");
        let nothing = trap(&DpoTrap { kept: 0, ..fallen(0.0, (0.0, 0.7)) }).join(" ");
        assert!(nothing.contains("stay at the reference"), "{nothing}");
    }

    #[test]
    fn a_sweep_of_one_beta_shows_no_course() {
        let at = |beta| OptimumRow { beta, expected_reward: 0.0, kl: 0.0, policy: vec![0.5, 0.5] };
        let closed = |rows| ClosedForm {
            answers: vec!["a", "b"],
            r_true: vec![0.0; 2],
            pi_ref: vec![0.5; 2],
            reference_reward: 0.0,
            rows,
        };
        assert!(closed_form(&closed(vec![at(5.0)])).is_empty());
        assert_eq!(closed_form(&closed(vec![at(1.0), at(5.0)])).len(), 1);
    }
}
