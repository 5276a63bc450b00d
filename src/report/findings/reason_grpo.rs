//! The findings of `reason-grpo`.

use crate::demos::reason_grpo::{CurveRow, Results, Run};
use crate::demos::reasoning::Examination;
use crate::report::format::{count, fixed, percent};

/// Differences of a share below this are within the noise of a thousand problems.
const NOISE: f64 = 0.03;

/// A format with a greater share is the policy's habit.
const HABIT: f64 = 0.7;

/// What each algorithm made of the base model.
pub fn outcome(results: &Results) -> Vec<String> {
    results.runs.iter().map(|run| run_outcome(&results.base, run)).collect()
}

fn run_outcome(base: &Examination, run: &Run) -> String {
    let name = run.algo.name();
    if let Some(divergence) = &run.diverged {
        return format!("{name} diverged: {divergence}. Lower --lr.");
    }
    let Some(last) = &run.last else { return format!("{name} was not examined.") };
    let (before, after) = (&base.sampled, &last.sampled);
    let change = after.acc - before.acc;
    let course = if change > NOISE {
        "raises"
    } else if change < -NOISE {
        "lowers"
    } else {
        "leaves"
    };
    let accuracy = if course == "leaves" {
        format!(
            "{name} leaves sampled accuracy where it was ({} to {})",
            percent(before.acc),
            percent(after.acc)
        )
    } else {
        format!("{name} {course} sampled accuracy from {} to {}", percent(before.acc), percent(after.acc))
    };
    let shares = [("direct", after.share.direct), ("short", after.share.short), ("full", after.share.full)];
    let habit = shares.into_iter().find(|(_, share)| *share > HABIT);
    let habit = match habit {
        Some((format, share)) => format!("{} of its responses are {format}", percent(share)),
        None => format!("{} of its responses think", percent(after.share.short + after.share.full)),
    };
    format!(
        "{accuracy} and takes {} tokens per response instead of {}: {habit}.",
        fixed(after.length, 1),
        fixed(before.length, 1)
    )
}

/// What the base model leaves on the table: it can more than it does.
pub fn base(base: &Examination) -> Vec<String> {
    let forced = &base.forced;
    let formats = [("direct", &forced.direct), ("short", &forced.short), ("full", &forced.full)];
    let best = formats.iter().fold(formats[0], |best, &it| if it.1.acc > best.1.acc { it } else { best });
    let gap = best.1.acc - base.sampled.acc;
    if gap <= NOISE {
        return vec![format!(
            "Left to itself the base model reaches {}, as much as its best format does ({}): there is little \
             to gain by choosing another.",
            percent(base.sampled.acc),
            percent(best.1.acc)
        )];
    }
    vec![format!(
        "The {} format solves {}, yet left to itself the base model reaches {}: it answers directly in {} of \
         all cases, and direct answers are right in {}. What there is to learn is a choice, not a skill.",
        best.0,
        percent(best.1.acc),
        percent(base.sampled.acc),
        percent(base.sampled.share.direct),
        percent(forced.direct.acc)
    )]
}

/// What a careful reader asks of a training curve.
pub fn training(run: &Run) -> Vec<String> {
    let (Some(first), Some(last)) = (run.curve.first(), run.curve.last()) else {
        return vec![format!("{} made no complete step.", run.algo.name())];
    };
    let most = |pick: fn(&CurveRow) -> f64| run.curve.iter().map(pick).fold(0.0, f64::max);
    let end = &run.curve[run.curve.len() - run.curve.len().min(WINDOW)..];
    let mean = |rows: &[CurveRow], pick: fn(&CurveRow) -> f64| {
        rows.iter().map(pick).sum::<f64>() / rows.len() as f64
    };
    let mut findings = vec![format!(
        "{}: the KL to the base model goes from {} at step {} to {} nats per token at step {}; the clip holds back at \
         most {} of a step's tokens.",
        run.algo.name(),
        fixed(first.kl, 4),
        first.step,
        fixed(last.kl, 4),
        last.step,
        percent(most(|row| row.clip_fraction)),
    )];
    findings.push(format!(
        "{}: over the last {}, {} of the groups have equal rewards and teach nothing where advantages are taken \
         within groups.",
        run.algo.name(),
        count(end.len() as u64, "step"),
        percent(mean(end, |row| row.no_contrast)),
    ));
    findings
}

/// Steps that a figure of the end is averaged over.
const WINDOW: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::policy_gradient::Divergence;
    use crate::demos::reason_grpo::Algorithm;
    use crate::demos::reasoning::ForcedFormats;
    use crate::worlds::digit_sum::evaluation::{Evaluation, Shares};

    fn evaluation(acc: f64, length: f64, [direct, short, full]: [f64; 3]) -> Evaluation {
        Evaluation { acc, length, chain_ok: None, share: Shares { direct, short, full } }
    }

    fn examination(acc: f64, length: f64, shares: [f64; 3], forced: [f64; 3]) -> Examination {
        let forced = forced.map(|acc| evaluation(acc, 5.0, [1.0, 0.0, 0.0]));
        let [direct, short, full] = forced;
        Examination {
            greedy: evaluation(acc, length, shares),
            sampled: evaluation(acc, length, shares),
            forced: ForcedFormats { direct, short, full },
        }
    }

    fn run(algo: Algorithm, last: Option<Examination>) -> Run {
        let diverged = last.is_none().then_some(Divergence { step: 3, what: "the loss is" });
        Run { algo, curve: Vec::new(), last, diverged }
    }

    #[test]
    fn the_outcome_follows_the_figures() {
        let base = examination(0.77, 5.3, [0.5, 0.3, 0.2], [0.6, 1.0, 1.0]);
        let says = |last, what: &str| {
            let text = run_outcome(&base, &run(Algorithm::Grpo, last));
            assert!(text.contains(what), "{text}");
        };
        let up = examination(0.97, 7.6, [0.0, 0.6, 0.4], [0.5, 1.0, 1.0]);
        says(Some(up.clone()), "raises sampled accuracy from 77 % to 97 % and takes 7.6 tokens");
        says(Some(up), "100 % of its responses think");
        let down = examination(0.64, 3.4, [0.93, 0.04, 0.03], [0.6, 1.0, 1.0]);
        says(
            Some(down),
            "lowers sampled accuracy from 77 % to 64 % and takes 3.4 tokens per response instead of 5.3: 93 % of its responses are direct.",
        );
        let same = examination(0.78, 5.4, [0.5, 0.3, 0.2], [0.6, 1.0, 1.0]);
        says(Some(same), "leaves sampled accuracy where it was (77 % to 78 %)");
        says(None, "GRPO diverged: the loss is not finite at step 3. Lower --lr.");
    }

    #[test]
    fn the_base_is_described_as_it_is() {
        let lazy = base(&examination(0.77, 5.3, [0.5, 0.3, 0.2], [0.6, 0.98, 1.0])).join(" ");
        assert!(lazy.contains("The full format solves 100 %") && lazy.contains("directly in 50 %"), "{lazy}");
        let settled = base(&examination(0.98, 7.0, [0.0, 0.5, 0.5], [0.6, 0.98, 1.0])).join(" ");
        assert!(settled.contains("little to gain"), "{settled}");
    }
}
