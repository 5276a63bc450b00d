//! The findings of `test-time`.

use crate::demos::test_time::{Policy, Results, Row, Rule};
use crate::report::format::{count, fixed, percent};

/// What the tokens of one policy bought.
pub fn purchases(results: &Results, policy: Policy) -> Vec<String> {
    let votes = |format: &str| -> Vec<&Row> {
        let of = |row: &&Row| row.policy == policy && row.format == format && row.rule == Rule::Vote;
        results.rows.iter().filter(of).collect()
    };
    let (direct, short, full) = (votes("direct"), votes("short"), votes("full"));
    let mut findings = Vec::new();
    let thinking = short.first().into_iter().chain(full.first()).max_by(|a, b| a.acc.total_cmp(&b.acc));
    let Some(&thought) = thinking else { return findings };
    let affordable = direct.iter().filter(|row| row.tokens <= thought.tokens).max_by_key(|row| row.k);
    if let Some(&vote) = affordable {
        findings.push(compare(vote, thought));
    }
    if let (Some(first), Some(last)) = (direct.first(), direct.last()) {
        let limit = results.limits.iter().find(|limit| limit.policy == policy);
        let limit = limit.map_or_else(String::new, |limit| {
            format!(
                " The vote of infinitely many would reach {}, exactly: it goes to the most probable digit, right or wrong.",
                percent(limit.direct_vote)
            )
        });
        if last.k > first.k {
            findings.push(format!(
                "Voting takes direct answers from {} (k = {}) to {} (k = {}).{limit}",
                percent(first.acc),
                first.k,
                percent(last.acc),
                last.k
            ));
        }
    }
    let chains = if thought.format == "short" { &short } else { &full };
    if let (Some(first), Some(last)) = (chains.first(), chains.last())
        && first.acc < SETTLED
        && last.k > first.k
    {
        let gain = last.acc - first.acc;
        let verdict = if gain > 0.03 { "its errors scatter" } else { "its errors repeat themselves" };
        findings.push(format!(
            "Voting takes {} chains from {} (k = {}) to {} (k = {}): {verdict}.",
            thought.format,
            percent(first.acc),
            first.k,
            percent(last.acc),
            last.k
        ));
    }
    findings
}

/// A single response this good leaves nothing for a vote to mend.
pub const SETTLED: f64 = 0.985;

/// As many direct votes as one chain costs, against that chain.
fn compare(vote: &Row, thought: &Row) -> String {
    let spent = format!(
        "{} ({} tokens in all) reach {}; {} {} chain{} ({} tokens) {}",
        count(vote.k, "direct answer"),
        fixed(vote.tokens, 1),
        percent(vote.acc),
        thought.k,
        thought.format,
        if thought.k == 1 { "" } else { "s" },
        fixed(thought.tokens, 1),
        percent(thought.acc),
    );
    // Two standard errors of the difference, taken as if the two were independent.
    let noise = 2.0 * (vote.se.powi(2) + thought.se.powi(2)).sqrt();
    let verdict = if thought.acc - vote.acc > noise {
        "at equal tokens, thinking buys more than voting"
    } else if vote.acc - thought.acc > noise {
        "at equal tokens, voting buys more than thinking"
    } else {
        "at equal tokens, the two buy the same"
    };
    format!("{spent}: {verdict}.")
}

/// What a verifier adds to a vote, where it adds most.
pub fn verifier(results: &Results) -> Vec<String> {
    let gain = |row: &Row| {
        let same = |other: &&Row| {
            other.policy == row.policy
                && other.format == row.format
                && other.k == row.k
                && other.rule == Rule::Vote
        };
        results.rows.iter().find(same).map(|vote| (row.acc - vote.acc, vote.acc))
    };
    let verified = results.rows.iter().filter(|row| row.rule == Rule::Verified);
    let best = verified
        .filter_map(|row| gain(row).map(|(gain, vote)| (row, gain, vote)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let Some((row, gain, vote)) = best else { return Vec::new() };
    if gain < 0.005 {
        return vec!["Verifying chains adds nothing that is seen here to voting over them.".into()];
    }
    vec![format!(
        "Verifying every step adds most for {} responses of the {} policy at k = {}: {} instead of the vote's {}.",
        row.format,
        row.policy.name(),
        row.k,
        percent(row.acc),
        percent(vote)
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demos::test_time::Limit;

    fn row(format: &'static str, rule: Rule, k: u64, acc: f64, tokens: f64) -> Row {
        let policy = Policy::Base;
        Row { policy, format, rule, strategy: format.into(), k, acc, se: 0.01, tokens }
    }

    fn results(direct: f64, short: f64, verified: f64) -> Results {
        Results {
            rows: vec![
                row("direct", Rule::Vote, 1, 0.5, 3.0),
                row("direct", Rule::Vote, 2, direct, 6.0),
                row("direct", Rule::Vote, 8, direct, 24.0),
                row("short", Rule::Vote, 1, short, 7.0),
                row("short", Rule::Verified, 1, verified, 7.0),
            ],
            limits: vec![Limit { policy: Policy::Base, direct_vote: 0.62 }],
        }
    }

    #[test]
    fn the_verdict_follows_the_figures() {
        let says = |results: &Results, what: &str| {
            let text = [purchases(results, Policy::Base), verifier(results)].concat().join(" ");
            assert!(text.contains(what), "{text}");
        };
        let thinking = results(0.55, 0.99, 0.99);
        says(&thinking, "2 direct answers (6.0 tokens in all) reach 55 %; 1 short chain (7.0 tokens) 99 %");
        says(&thinking, "thinking buys more than voting");
        says(&thinking, "from 50 % (k = 1) to 55 % (k = 8). The vote of infinitely many would reach 62 %");
        says(&thinking, "adds nothing that is seen");
        says(&results(0.99, 0.55, 0.80), "voting buys more than thinking");
        says(&results(0.99, 0.55, 0.80), "at k = 1: 80 % instead of the vote's 55 %");
        says(&results(0.55, 0.56, 0.56), "the two buy the same");
        assert!(purchases(&thinking, Policy::Grpo).is_empty());
    }
}
