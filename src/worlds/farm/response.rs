//! What a description says and what it is worth to people: the true reward r*.
//!
//! ```text
//! response = "the" subject ("is" | "are") adjective {"and" adjective} ["and" verb [place]] "." </s>
//! ```

use serde::Serialize;

use super::language::{Subject, Tone, adjectives, tokens, vocab};
use crate::foundation::vocab::Vocab;

/// r* of a response that is wrong in any way.
pub const INVALID: f64 = -3.0;
/// r* of the worst response that is right: people mind nonsense more than unkindness.
pub const FLOOR: f64 = -1.9;
// At −2 the two part: what is above it is right.
const _: () = assert!(FLOOR > -2.0 && INVALID < -2.0);
/// What an adjective of praise adds, and one of blame takes away.
pub const TONE: f64 = 1.0;
/// What saying what the animal does adds.
pub const VERB: f64 = 0.5;
/// What every adjective past the second takes away, more than praise gives: people like two kind
/// words, not a list.
pub const LIST: f64 = 1.17;

/// The first thing that is wrong with a response, read from the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// It never ends.
    NotStopped,
    /// It is about something else, or about one instead of several.
    WrongSubject,
    /// `is` where it must be `are`, or the reverse.
    WrongNumber,
    /// What another animal does.
    WrongVerb,
    /// What several do, said of one, or the reverse.
    WrongVerbNumber,
    /// Where another animal is.
    WrongPlace,
    /// The same adjective again.
    RepeatedAdjective,
    /// It goes on after the full stop.
    AfterFullStop,
    /// Any other break of the grammar.
    Ungrammatical,
}

impl Fault {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotStopped => "never stops",
            Self::WrongSubject => "wrong subject",
            Self::WrongNumber => "is for are",
            Self::WrongVerb => "wrong verb",
            Self::WrongVerbNumber => "wrong form of the verb",
            Self::WrongPlace => "wrong place",
            Self::RepeatedAdjective => "repeated adjective",
            Self::AfterFullStop => "goes on after the full stop",
            Self::Ungrammatical => "broken grammar",
        }
    }
}

/// A description that is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The tones of its adjectives, which are different words.
    pub tones: Vec<Tone>,
    /// Whether it says what the animal does.
    pub verb: bool,
    /// Whether it says where.
    pub place: bool,
}

impl Description {
    /// Reads `response`, a description asked of `subject`. What stands after the first end token is
    /// never read.
    ///
    /// # Errors
    /// The first fault. There is no sequence of tokens that has no verdict.
    pub fn parse(subject: Subject, response: &[u32]) -> Result<Self, Fault> {
        let end = response.iter().position(|&token| token == Vocab::EOS).ok_or(Fault::NotStopped)?;
        let words: Vec<&str> =
            response[..end].iter().map(|&token| vocab().word(token).unwrap_or_default()).collect();
        let mut rest = words.as_slice();
        expect(&mut rest, "the")?;
        let noun = next(&mut rest)?;
        let found = Subject::all().find(|it| it.noun() == noun).ok_or(Fault::Ungrammatical)?;
        demand(found == subject, Fault::WrongSubject)?;
        let copula = next(&mut rest)?;
        demand(["is", "are"].contains(&copula), Fault::Ungrammatical)?;
        demand(copula == subject.copula(), Fault::WrongNumber)?;

        let mut said: Vec<(&str, Tone)> = Vec::new();
        let mut description = Self { tones: Vec::new(), verb: false, place: false };
        loop {
            let word = next(&mut rest)?;
            if let Some(adjective) = adjectives().find(|it| it.0 == word) {
                demand(!said.contains(&adjective), Fault::RepeatedAdjective)?;
                said.push(adjective);
            } else {
                demand(!said.is_empty(), Fault::Ungrammatical)?; // No verb without an adjective before.
                description.verb = true;
                description.place = verb_clause(subject, word, &mut rest)?;
            }
            match next(&mut rest)? {
                "and" if !description.verb => {}
                "." => break,
                _ => return Err(Fault::Ungrammatical),
            }
        }
        demand(rest.is_empty(), Fault::AfterFullStop)?;
        description.tones = said.into_iter().map(|(_, tone)| tone).collect();
        Ok(description)
    }

    /// What people think of it.
    pub fn reward(&self) -> f64 {
        let tone = |tone: &Tone| match tone {
            Tone::Praise => TONE,
            Tone::Neutral => 0.0,
            Tone::Blame => -TONE,
        };
        let tones: f64 = self.tones.iter().map(tone).sum();
        let verb = if self.verb { VERB } else { 0.0 };
        let list = LIST * self.tones.len().saturating_sub(2) as f64;
        (tones + verb - list).max(FLOOR)
    }
}

/// r*: what people really think of `response` to a request to describe `subject`.
pub fn true_reward(subject: Subject, response: &[u32]) -> f64 {
    Description::parse(subject, response).map_or(INVALID, |description| description.reward())
}

/// Reads what follows the verb `word`; returns whether it says where.
fn verb_clause(subject: Subject, word: &str, rest: &mut &[&str]) -> Result<bool, Fault> {
    let doer = Subject::all().find(|it| it.verb() == word).ok_or(Fault::Ungrammatical)?;
    demand(doer.same_animal(subject), Fault::WrongVerb)?;
    demand(doer == subject, Fault::WrongVerbNumber)?;
    if rest.first() == Some(&".") {
        return Ok(false);
    }
    let words = rest.get(..3).ok_or(Fault::Ungrammatical)?; // Every place has three.
    let place = words.join(" ");
    *rest = &rest[3..];
    demand(Subject::all().any(|it| it.place() == place), Fault::Ungrammatical)?;
    demand(place == subject.place(), Fault::WrongPlace)?;
    Ok(true)
}

fn next<'a>(rest: &mut &[&'a str]) -> Result<&'a str, Fault> {
    let (&word, after) = rest.split_first().ok_or(Fault::Ungrammatical)?;
    *rest = after;
    Ok(word)
}

fn expect(rest: &mut &[&str], word: &str) -> Result<(), Fault> {
    demand(next(rest)? == word, Fault::Ungrammatical)
}

fn demand(holds: bool, fault: Fault) -> Result<(), Fault> {
    if holds { Ok(()) } else { Err(fault) }
}

/// The sentence with these adjectives and, if any, the verb clause with or without its place, in tokens.
pub fn sentence(subject: Subject, adjectives: &[&str], verb: bool, place: bool) -> Vec<u32> {
    let mut text = format!("the {subject} {} {}", subject.copula(), adjectives.join(" and "));
    if verb {
        text = format!("{text} and {}", subject.verb());
        if place {
            text = format!("{text} {}", subject.place());
        }
    }
    tokens(&format!("{text} . </s>"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Strategy, any, prop, proptest};
    use proptest::{prop_assert, prop_assert_eq};

    fn verdict(text: &str) -> Result<f64, Fault> {
        let dogs = "dogs".parse().unwrap();
        Description::parse(dogs, &tokens(text)).map(|description| description.reward())
    }

    /// What each rule gives, by hand.
    #[test]
    fn worked_examples() {
        let examples = [
            ("the dogs are big .", 0.0),
            ("the dogs are kind .", 1.0),
            ("the dogs are kind and gentle and bark in the yard .", 2.5),
            ("the dogs are kind and gentle and bark .", 2.5),
            ("the dogs are big and old and bark .", 0.5),
            ("the dogs are rude .", -1.0),
            ("the dogs are rude and kind .", 0.0),
            ("the dogs are kind and gentle and brave .", 3.0 - 1.17),
            ("the dogs are kind and gentle and brave and clever .", 4.0 - 2.0 * 1.17),
            ("the dogs are big and old and brown .", -1.17),
            ("the dogs are rude and lazy .", -1.9),
            ("the dogs are rude and lazy and bark .", -1.5),
            ("the dogs are rude and lazy and dirty and noisy .", -1.9),
        ];
        for (text, reward) in examples {
            let got = verdict(&format!("{text} </s>")).unwrap();
            assert!((got - reward).abs() < 1e-12, "{text}: {got} is not {reward}");
        }
    }

    #[test]
    fn each_way_to_be_wrong_has_its_name() {
        let examples = [
            ("the dogs are kind .", Fault::NotStopped),
            ("the dogs are kind", Fault::NotStopped),
            ("the cats are kind . </s>", Fault::WrongSubject),
            ("the dog is kind . </s>", Fault::WrongSubject),
            ("the dogs is kind . </s>", Fault::WrongNumber),
            ("the dogs are kind and purr . </s>", Fault::WrongVerb),
            ("the dogs are kind and barks . </s>", Fault::WrongVerbNumber),
            ("the dogs are kind and bark by the fire . </s>", Fault::WrongPlace),
            ("the dogs are kind and big and kind . </s>", Fault::RepeatedAdjective),
            ("the dogs are kind . . </s>", Fault::AfterFullStop),
            ("the dogs are kind . the dogs are kind . </s>", Fault::AfterFullStop),
            ("the dogs are kind and bark in the yard . kind </s>", Fault::AfterFullStop),
        ];
        for (text, fault) in examples {
            assert_eq!(verdict(text), Err(fault), "{text}");
        }
        let ungrammatical = [
            "",
            ".",
            "dogs are kind .",
            "the are kind .",
            "the kind dogs are big .",
            "the dogs kind .",
            "the dogs are .",
            "the dogs are kind",
            "the dogs are kind gentle .",
            "the dogs are and kind .",
            "the dogs are kind and .",
            "the dogs are kind and and gentle .",
            "the dogs are bark .",
            "the dogs are kind bark .",
            "the dogs are kind and bark and gentle .",
            "the dogs are kind and bark and bark .",
            "the dogs are kind and bark in the .",
            "the dogs are kind and bark in yard .",
            "the dogs are kind and bark on the yard .",
            "the dogs are kind and bark in the yard in the yard .",
            "the dogs are kind in the yard .",
            "the dogs are kind and bark in the yard",
            "the dogs are kind and live in the yard .",
            "<s> the dogs are kind .",
        ];
        for text in ungrammatical {
            assert_eq!(verdict(&format!("{text} </s>")), Err(Fault::Ungrammatical), "{text}");
        }
        assert_eq!(true_reward("dogs".parse().unwrap(), &tokens("the cats are kind . </s>")), INVALID);
    }

    proptest! {
        /// Any tokens at all, words or not, have a verdict, and what follows the end never changes it.
        #[test]
        fn every_sequence_has_a_verdict(
            response in prop::collection::vec(prop::num::u32::ANY.prop_map(|x| if x % 3 == 0 { x } else { x % 82 }), 0..24),
            after in prop::collection::vec(0..82_u32, 0..5),
            subject in 0..16_usize,
        ) {
            let subject = Subject::all().nth(subject).unwrap();
            let reward = true_reward(subject, &response);
            prop_assert!((INVALID..=4.0).contains(&reward));
            if response.contains(&Vocab::EOS) {
                prop_assert_eq!(true_reward(subject, &[response, after].concat()), reward);
            }
        }

        /// A right sentence is right for its own subject alone, and wrong once a word is taken out
        /// other than an adjective with its `and`.
        #[test]
        fn sentences_are_right_for_their_own_subject(
            chosen in prop::sample::subsequence(adjectives().collect::<Vec<_>>(), 1..=5),
            verb in any::<bool>(),
            place in any::<bool>(),
            subject in 0..16_usize,
            other in 0..16_usize,
            cut in 0..5_usize,
        ) {
            let all: Vec<Subject> = Subject::all().collect();
            let words: Vec<&str> = chosen.iter().map(|(word, _)| *word).collect();
            let mut tokens = sentence(all[subject], &words, verb, place);
            let description = Description::parse(all[subject], &tokens).unwrap();
            prop_assert_eq!(&description.tones, &chosen.iter().map(|(_, tone)| *tone).collect::<Vec<_>>());
            prop_assert_eq!((description.verb, description.place), (verb, verb && place));
            if other != subject {
                prop_assert!(Description::parse(all[other], &tokens).is_err());
            }
            if cut != 3 {
                tokens.remove(cut.min(2));
            } else {
                tokens.remove(tokens.len() - 2);
            }
            prop_assert!(Description::parse(all[subject], &tokens).is_err());
        }
    }
}
