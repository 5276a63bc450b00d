//! Many responses to one problem, one answer.

use super::problem::Problem;
use super::response::Parsed;

/// Self-consistency (Wang et al. 2022): the most frequent answer; of equally frequent ones that which
/// was given first. Responses without an answer do not vote.
pub fn majority(responses: &[Parsed]) -> Option<u8> {
    let mut votes = [0; 10];
    for answer in responses.iter().filter_map(|response| response.answer) {
        votes[usize::from(answer)] += 1;
    }
    let most = votes.into_iter().max().filter(|&most| most > 0)?;
    responses.iter().filter_map(|response| response.answer).find(|&answer| votes[usize::from(answer)] == most)
}

/// Best-of-k under a process verifier: the answer of the first response whose every step is right.
pub fn first_verified(problem: &Problem, responses: &[Parsed]) -> Option<u8> {
    responses
        .iter()
        .find(|response| response.verify(problem) == Some(true))
        .and_then(|response| response.answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worlds::digit_sum::problem::vocab;

    fn responses(texts: &[&str]) -> Vec<Parsed> {
        texts.iter().map(|text| Parsed::new(&vocab().encode(text).unwrap())).collect()
    }

    #[test]
    fn the_majority_rules_and_ties_go_to_the_first() {
        assert_eq!(majority(&responses(&["A 6 </s>", "A 5 </s>", "S 1 A 5 </s>"])), Some(5));
        assert_eq!(majority(&responses(&["A 6 </s>", "A 5 </s>"])), Some(6));
        assert_eq!(majority(&responses(&["=", "A 5 </s>", "="])), Some(5));
        assert_eq!(majority(&responses(&["=", "</s>"])), None);
        assert_eq!(majority(&[]), None);
    }

    #[test]
    fn the_verifier_needs_every_step() {
        let problem = Problem::new(&[3, 5, 9, 2, 7]);
        let chains = responses(&["T 0 0 0 0 6 A 6 </s>", "A 6 </s>", "S 8 9 6 A 6 </s>"]);
        assert_eq!(first_verified(&problem, &chains), Some(6));
        assert_eq!(first_verified(&problem, &chains[..2]), None);
    }
}
