//! The findings of `reason-grpo`.

use crate::demos::reason_grpo::{Algorithm, Results, Run};
use crate::demos::reasoning::Examination;
use crate::report::format::{count, enumerate, fine_percent, fixed, percent};
use crate::worlds::digit_sum::evaluation::Evaluation;
use crate::worlds::digit_sum::response::FORMAT_BONUS;

/// Differences of a share below this are within the noise of a thousand problems.
const NOISE: f64 = 0.03;

/// A format with a greater share is the policy's habit.
const HABIT: f64 = 0.7;

/// What each algorithm made of the base model.
pub fn outcome(results: &Results) -> Vec<String> {
    let runs = results.runs.iter().map(|run| run_outcome(&results.base, run));
    runs.chain(division_by_length(results)).collect()
}

/// What the two REINFORCE runs, which differ in one thing, say about it.
fn division_by_length(results: &Results) -> Option<String> {
    let accuracy = |algo| {
        let run = results.runs.iter().find(|run| run.algo == algo)?;
        Some(run.last.as_ref()?.sampled.acc)
    };
    let (divided, whole) = (accuracy(Algorithm::Reinforce)?, accuracy(Algorithm::ReinforceSum)?);
    if (whole - divided).abs() <= NOISE {
        return Some("Dividing each response by its length makes no difference to REINFORCE here.".into());
    }
    let forced = &results.base.forced;
    let formats = [("direct", &forced.direct), ("short", &forced.short), ("full", &forced.full)];
    let per_token = formats.map(|(name, evaluation)| (name, reward_per_token(evaluation)));
    let best = per_token.iter().fold(per_token[0], |best, &it| if it.1 > best.1 { it } else { best });
    Some(format!(
        "The two REINFORCE runs differ in one thing, the division of each response by its length: {} with it, {} \
         without. Divided, what counts is reward per token, and there the {} format is best ({}).",
        percent(divided),
        percent(whole),
        best.0,
        enumerate(
            &per_token
                .map(|(name, reward)| format!("{name} {}", fixed(reward, 3)))
                .each_ref()
                .map(String::as_str)
        )
    ))
}

/// The rule reward that complete responses with this accuracy earn, per token.
pub fn reward_per_token(evaluation: &Evaluation) -> f64 {
    (evaluation.acc + FORMAT_BONUS) / evaluation.length
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
    let name = run.algo.name();
    let (Some(first), Some(last)) = (run.curve.first(), run.curve.last()) else {
        return vec![format!("{name} made no complete step.")];
    };
    let most = run.curve.iter().map(|row| row.clip_fraction).fold(0.0, f64::max);
    let clip = if most > 0.0 {
        format!("; the clip holds back at most {} of a step's tokens", fine_percent(most))
    } else {
        String::new()
    };
    let end = &run.curve[run.curve.len() - run.curve.len().min(WINDOW)..];
    let idle = end.iter().map(|row| row.no_contrast).sum::<f64>() / end.len() as f64;
    let idle = match run.algo {
        Algorithm::Grpo => format!(
            " Over the last {}, {} of its groups have equal rewards and teach nothing.",
            count(end.len() as u64, "step"),
            percent(idle)
        ),
        Algorithm::Reinforce | Algorithm::ReinforceSum => String::new(),
    };
    vec![format!(
        "{name}: the KL to the base model is {} at step {} and {} nats per token at step {}{clip}.{idle}",
        fixed(first.kl, 4),
        first.step,
        fixed(last.kl, 4),
        last.step,
    )]
}

/// Steps that a figure of the end is averaged over.
const WINDOW: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::divergence::Divergence;
    use crate::demos::reason_grpo::CurveRow;
    use crate::demos::reasoning::ForcedFormats;
    use crate::worlds::digit_sum::evaluation::Shares;

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
    fn two_reinforce_runs_show_what_the_division_does() {
        let shares = [0.5, 0.3, 0.2];
        let base = examination(0.8, 5.0, shares, [0.6, 1.0, 1.0]); // 5 tokens each: .14, .22, .22
        let text = |divided, whole| {
            let last = |acc| Some(examination(acc, 5.0, shares, [0.6, 1.0, 1.0]));
            let runs =
                vec![run(Algorithm::Reinforce, last(divided)), run(Algorithm::ReinforceSum, last(whole))];
            outcome(&Results { base: base.clone(), runs, samples: Vec::new() }).join(" ")
        };
        let differ = text(0.64, 0.98);
        assert!(differ.contains("by its length: 64 % with it, 98 % without"), "{differ}");
        assert!(
            differ.contains("short format is best (direct 0.140, short 0.220 and full 0.220)"),
            "{differ}"
        );
        assert!(text(0.97, 0.98).contains("makes no difference"));
        let alone = Results { base, runs: vec![run(Algorithm::Reinforce, None)], samples: Vec::new() };
        assert_eq!(outcome(&alone).len(), 1);
    }

    #[test]
    fn the_base_is_described_as_it_is() {
        let lazy = base(&examination(0.77, 5.3, [0.5, 0.3, 0.2], [0.6, 0.98, 1.0])).join(" ");
        assert!(lazy.contains("The full format solves 100 %") && lazy.contains("directly in 50 %"), "{lazy}");
        let settled = base(&examination(0.98, 7.0, [0.0, 0.5, 0.5], [0.6, 0.98, 1.0])).join(" ");
        assert!(settled.contains("little to gain"), "{settled}");
    }

    #[test]
    fn the_clip_is_mentioned_where_it_acts() {
        let row = |step, kl, clip_fraction| CurveRow {
            step,
            reward: 1.0,
            acc: 1.0,
            length: 5.0,
            share: Shares { direct: 1.0, short: 0.0, full: 0.0 },
            kl,
            clip_fraction,
            gradient_norm: 1.0,
            no_contrast: 0.25,
        };
        let text = |algo, clip| {
            let curve = vec![row(1, 0.0, 0.0), row(2, 0.5, clip)];
            training(&Run { algo, curve, last: None, diverged: None }).join(" ")
        };
        let grpo = text(Algorithm::Grpo, 0.004);
        assert!(
            grpo.contains(
                "is 0.0000 at step 1 and 0.5000 nats per token at step 2; the clip holds back at most 0.4 %"
            ),
            "{grpo}"
        );
        assert!(grpo.contains("Over the last 2 steps, 25 % of its groups"), "{grpo}");
        let reinforce = text(Algorithm::Reinforce, 0.0);
        assert!(reinforce.ends_with("at step 2."), "{reinforce}");
        let none = Run { algo: Algorithm::Grpo, curve: Vec::new(), last: None, diverged: None };
        assert!(training(&none)[0].contains("no complete step"));
    }
}
