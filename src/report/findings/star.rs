//! The findings of `star`.

use crate::demos::star::{Results, Round, Tally};
use crate::report::format::{fixed, percent};

/// Differences of a share below this are within the noise of a thousand problems.
const NOISE: f64 = 0.03;

/// How far the rounds lead, and whether the filter or the training does it.
pub fn rounds(results: &Results) -> Vec<String> {
    let Some(last) = results.rounds.last() else { return Vec::new() };
    let gain = last.acc - results.start.acc;
    let mut findings = vec![format!(
        "{} right answers from {} to {}: {} points.",
        if last.round == 1 {
            "One round of self-training takes".to_string()
        } else {
            format!("{} rounds of self-training take", last.round)
        },
        percent(results.start.acc),
        percent(last.acc),
        signed(gain)
    )];
    for control in &results.controls {
        let lead = last.acc - control.acc;
        findings.push(if lead > NOISE {
            format!("The control \u{201c}{}\u{201d} ends at {}, {} points below.", control.name, percent(control.acc), points(lead))
        } else if lead < -NOISE {
            format!("The control \u{201c}{}\u{201d} ends at {}, {} points above: here self-training does not pay.", control.name, percent(control.acc), points(-lead))
        } else {
            format!("The control \u{201c}{}\u{201d} ends at {}, no different.", control.name, percent(control.acc))
        });
    }
    findings
}

/// What the filter cannot see.
pub fn luck(results: &Results) -> Vec<String> {
    let total = |pick: fn(&Tally) -> f64| results.rounds.iter().map(|round| pick(&round.tally)).sum::<f64>();
    let (kept, wrong) = (total(|t| t.kept as f64), total(|t| t.kept_wrong_chain as f64));
    if kept == 0.0 {
        return vec!["No chain was kept: the base never ended at a right answer.".into()];
    }
    let mut findings = vec![format!(
        "Of {kept} chains kept in all rounds, {wrong} ({}) have a wrong step: the filter reads the answer alone.{}",
        percent(wrong / kept),
        trend(&results.rounds)
    )];
    let (slipped, cancelled) = (total(|t| t.slipped as f64), total(|t| t.cancelled as f64));
    let (expected, variance) = (total(|t| t.cancelled_by_chance), total(|t| t.cancelled_variance));
    if variance > 0.0 {
        let z = (cancelled - expected) / variance.sqrt();
        let verdict = if z.abs() < 3.0 {
            "as chance has it"
        } else if z > 0.0 {
            "more than chance has it: slips are not of uniform size, or undo each other"
        } else {
            "fewer than chance has it: slips are not of uniform size"
        };
        findings.push(format!(
            "Slips cancel in {cancelled} of {slipped} chains that slipped; if each had a uniform size, {} ± {} would: {verdict}.",
            fixed(expected, 0),
            fixed(variance.sqrt(), 0)
        ));
    }
    findings
}

/// Whether the share of wrong chains among those kept falls.
fn trend(rounds: &[Round]) -> String {
    let share = |round: &Round| round.tally.kept_wrong_chain as f64 / round.tally.kept as f64;
    let (Some(first), Some(last)) = (rounds.first(), rounds.last()) else { return String::new() };
    if rounds.len() < 2 || first.tally.kept == 0 || last.tally.kept == 0 {
        return String::new();
    }
    let (from, to) = (share(first), share(last));
    let verb = if to < from { "falls" } else { "goes" };
    format!(" Their share {verb} from {} in the first round to {} in the last.", percent(from), percent(to))
}

fn points(difference: f64) -> String {
    fixed(100.0 * difference, 0)
}

fn signed(difference: f64) -> String {
    let text = points(difference);
    if text.starts_with('-') || text == "0" { text } else { format!("+{text}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demos::star::Control;
    use crate::worlds::digit_sum::evaluation::{Evaluation, Shares};

    fn results(accs: &[f64], control: f64, tally: Tally) -> Results {
        let share = Shares { direct: 0.0, short: 0.0, full: 1.0 };
        let start = Evaluation { acc: 0.3, length: 9.0, chain_ok: Some(0.2), share };
        let round = |(i, &acc): (usize, &f64)| Round {
            round: i as u64 + 1,
            tally: tally.clone(),
            acc,
            chain_ok: Some(acc),
        };
        Results {
            human: 200,
            start,
            rounds: accs.iter().enumerate().map(round).collect(),
            controls: vec![Control { name: "no filter", acc: control, chain_ok: None, rounds: Vec::new() }],
        }
    }

    fn tally(kept: u64, wrong: u64, cancelled: u64) -> Tally {
        Tally {
            sampled: 100,
            kept,
            kept_wrong_chain: wrong,
            slipped: 50,
            cancelled,
            cancelled_by_chance: 5.0,
            cancelled_variance: 4.5,
        }
    }

    #[test]
    fn the_verdict_follows_the_figures() {
        let says = |results: &Results, what: &str| {
            let text = [rounds(results), luck(results)].concat().join(" ");
            assert!(text.contains(what), "{text}");
        };
        let good = results(&[0.5, 0.7], 0.36, tally(40, 4, 4));
        says(&good, "2 rounds of self-training take right answers from 30 % to 70 %: +40 points.");
        says(&good, "ends at 36 %, 34 points below");
        says(&good, "Of 80 chains kept in all rounds, 8 (10 %) have a wrong step");
        says(
            &good,
            "Slips cancel in 8 of 100 chains that slipped; if each had a uniform size, 10 ± 3 would: as chance has it.",
        );
        let bad = results(&[0.2], 0.4, tally(40, 4, 40));
        says(&bad, "One round of self-training takes right answers from 30 % to 20 %: -10 points.");
        says(&bad, "20 points above: here self-training does not pay");
        says(&bad, "more than chance has it");
        says(&results(&[0.3], 0.31, tally(0, 0, 0)), "no different");
        says(&results(&[0.3], 0.31, tally(0, 0, 0)), "No chain was kept");
    }
}
