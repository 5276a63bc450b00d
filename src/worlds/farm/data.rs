//! What the assistant learns from: questions with correct answers.

use serde::{Deserialize, Serialize};

use super::language::{DESCRIBE, HOME, Prompt, SOUND, Subject, Tone, adjectives, tokens};
use super::response::sentence;
use crate::foundation::demonstration::Demonstration;
use crate::foundation::rng::Rng;

/// A distribution over demonstrations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mixture {
    /// Weights of descriptions, of questions for the sound and of questions for the home.
    pub tasks: [f64; 3],
    /// Weights of 1, 2, 3 and 4 adjectives in a description.
    pub adjectives: [f64; 4],
    /// Weights of one adjective of praise, a neutral one, and one of blame.
    pub tones: [f64; 3],
    /// Share of descriptions that say what the animal does.
    pub verb: f64,
    /// Share of those that say where.
    pub place: f64,
}

impl Default for Mixture {
    fn default() -> Self {
        Self {
            tasks: [0.6, 0.2, 0.2],
            adjectives: [0.50, 0.33, 0.13, 0.04],
            tones: [1.2, 2.0, 1.4],
            verb: 0.4,
            place: 0.6,
        }
    }
}

impl Mixture {
    /// A question in a trained template with a correct answer.
    pub fn sample(&self, rng: &mut Rng) -> Demonstration {
        let subject = Subject::sample(rng);
        let (template, response) = match rng.categorical(&self.tasks) {
            0 => (DESCRIBE[rng.below(DESCRIBE.len())], self.description(subject, rng)),
            1 => (SOUND, tokens(&format!("the {subject} {} . </s>", subject.verb()))),
            _ => (HOME, tokens(&format!("the {subject} {} {} . </s>", subject.lives(), subject.place()))),
        };
        Demonstration { prompt: Prompt { template, subject }.tokens(), response }
    }

    /// A correct description; adjectives are drawn without repetition.
    pub fn description(&self, subject: Subject, rng: &mut Rng) -> Vec<u32> {
        let [praise, neutral, blame] = self.tones;
        let mut pool: Vec<(&str, f64)> = adjectives()
            .map(|(word, tone)| match tone {
                Tone::Praise => (word, praise),
                Tone::Neutral => (word, neutral),
                Tone::Blame => (word, blame),
            })
            .collect();
        let words: Vec<&str> = (0..=rng.categorical(&self.adjectives))
            .map(|_| {
                let weights: Vec<f64> = pool.iter().map(|(_, weight)| *weight).collect();
                pool.remove(rng.categorical(&weights)).0
            })
            .collect();
        let verb = rng.uniform() < self.verb;
        sentence(subject, &words, verb, rng.uniform() < self.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worlds::farm::language::vocab;
    use crate::worlds::farm::response::Description;

    #[test]
    fn descriptions_are_right_and_come_in_the_shares_asked_for() {
        let (mixture, mut rng) = (Mixture::default(), Rng::new(3));
        let subject: Subject = "hens".parse().unwrap();
        let (mut lengths, mut firsts, mut verbs, mut places) = ([0.0; 4], [0.0; 3], 0.0, 0.0);
        let n = 20_000;
        for _ in 0..n {
            let it = Description::parse(subject, &mixture.description(subject, &mut rng)).unwrap();
            lengths[it.tones.len() - 1] += 1.0 / f64::from(n);
            firsts[it.tones[0] as usize] += 1.0 / f64::from(n);
            verbs += f64::from(u8::from(it.verb)) / f64::from(n);
            places += f64::from(u8::from(it.place)) / f64::from(n);
        }
        let close = |x: f64, want: f64| assert!((x - want).abs() < 0.014, "{x} is not {want}"); // 4 errors.
        (0..4).for_each(|i| close(lengths[i], mixture.adjectives[i]));
        // Five words of praise, five neutral ones, four of blame.
        (0..3).for_each(|i| close(firsts[i], [6.0, 10.0, 5.6][i] / 21.6));
        close(verbs, 0.4);
        close(places, 0.24);
    }

    #[test]
    fn three_tasks_with_their_answers() {
        let (mixture, mut rng) = (Mixture::default(), Rng::new(0));
        let mut counts = [0; 3];
        for _ in 0..5000 {
            let Demonstration { prompt, response } = mixture.sample(&mut rng);
            let (prompt, response) = (vocab().decode(&prompt), vocab().decode(&response));
            let task = if prompt.contains("sound") { 1 } else { 2 * usize::from(prompt.contains("home")) };
            counts[task] += 1;
            if prompt == "<s> user sound : the hens assistant" {
                assert_eq!(response, "the hens cluck . </s>");
            }
            if prompt == "<s> user home : the pig assistant" {
                assert_eq!(response, "the pig lives in the mud . </s>");
            }
        }
        for (count, share) in counts.into_iter().zip(mixture.tasks) {
            assert!((f64::from(count) / 5000.0 - share).abs() < 0.03, "{counts:?}"); // Four standard errors.
        }
    }
}
