//! Words, animals and prompts.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use serde::{Serialize, Serializer};

use crate::foundation::rng::Rng;
use crate::foundation::vocab::Vocab;

/// Positions of a model for this task: the longest prompt has 10 tokens and a response at most 20.
pub const N_POSITIONS: usize = 32;

/// What is known of an animal.
struct Animal {
    /// Singular and plural.
    nouns: [&'static str; 2],
    /// What one does, and what several do.
    verbs: [&'static str; 2],
    /// Where it does it.
    place: &'static str,
}

const ANIMALS: [Animal; 8] = [
    Animal { nouns: ["dog", "dogs"], verbs: ["barks", "bark"], place: "in the yard" },
    Animal { nouns: ["cat", "cats"], verbs: ["purrs", "purr"], place: "by the fire" },
    Animal { nouns: ["cow", "cows"], verbs: ["moos", "moo"], place: "in the meadow" },
    Animal { nouns: ["horse", "horses"], verbs: ["gallops", "gallop"], place: "on the hill" },
    Animal { nouns: ["pig", "pigs"], verbs: ["grunts", "grunt"], place: "in the mud" },
    Animal { nouns: ["duck", "ducks"], verbs: ["quacks", "quack"], place: "on the pond" },
    Animal { nouns: ["hen", "hens"], verbs: ["clucks", "cluck"], place: "in the coop" },
    Animal { nouns: ["goat", "goats"], verbs: ["bleats", "bleat"], place: "on the rocks" },
];

const PRAISE: [&str; 5] = ["kind", "gentle", "clever", "brave", "lovely"];
const NEUTRAL: [&str; 5] = ["big", "small", "brown", "white", "old"];
const BLAME: [&str; 4] = ["lazy", "rude", "dirty", "noisy"];

/// Frames of the chat and words of every sentence.
const FRAME: [&str; 11] = ["user", "assistant", ":", ".", "the", "is", "are", "and", "lives", "live", "me"];
/// Words of the questions.
const QUESTIONS: [&str; 8] = ["describe", "tell", "about", "say", "something", "write", "sound", "home"];

/// Ways to ask for a description that training uses.
pub const DESCRIBE: [&str; 4] = ["describe", "tell me about", "say something about", "write about"];
/// Ways to ask for one that no training ever sees, in words that it knows.
pub const HELD_OUT: [&str; 2] = ["tell me something about", "write something about"];
/// Asks for the animal's sound or action.
pub const SOUND: &str = "sound";
/// Asks for the animal's place.
pub const HOME: &str = "home";

static VOCAB: LazyLock<Vocab> = LazyLock::new(|| {
    let nouns = ANIMALS.iter().flat_map(|animal| animal.nouns);
    let verbs = ANIMALS.iter().flat_map(|animal| animal.verbs);
    let places =
        ["in", "by", "on"].into_iter().chain(ANIMALS.iter().filter_map(|a| a.place.split(' ').next_back()));
    let words = FRAME.into_iter().chain(QUESTIONS).chain(nouns).chain(verbs).chain(places);
    let words: Vec<&str> = words.chain(PRAISE).chain(NEUTRAL).chain(BLAME).collect();
    Vocab::new(&words).expect("the words are different and without spaces")
});

/// The task's vocabulary of 79 words.
pub fn vocab() -> &'static Vocab {
    &VOCAB
}

/// The tokens of a text in words of the vocabulary.
///
/// # Panics
/// On any other word: texts are this module's and its siblings' own.
pub(super) fn tokens(text: &str) -> Vec<u32> {
    VOCAB.encode(text).expect("the farm's texts are made of the farm's words")
}

/// What a prompt is about: an animal, one or several of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    animal: usize,
    plural: bool,
}

impl Subject {
    /// All sixteen.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..ANIMALS.len()).flat_map(|animal| [false, true].map(|plural| Self { animal, plural }))
    }

    /// A uniform one.
    pub fn sample(rng: &mut Rng) -> Self {
        Self { animal: rng.below(ANIMALS.len()), plural: rng.below(2) == 1 }
    }

    /// `dog` or `dogs`.
    pub fn noun(self) -> &'static str {
        ANIMALS[self.animal].nouns[usize::from(self.plural)]
    }

    /// `is` or `are`.
    pub fn copula(self) -> &'static str {
        ["is", "are"][usize::from(self.plural)]
    }

    /// `barks` or `bark`.
    pub fn verb(self) -> &'static str {
        ANIMALS[self.animal].verbs[usize::from(self.plural)]
    }

    /// `lives` or `live`.
    pub fn lives(self) -> &'static str {
        ["lives", "live"][usize::from(self.plural)]
    }

    /// `in the yard`.
    pub fn place(self) -> &'static str {
        ANIMALS[self.animal].place
    }

    /// Whether the two are of one kind, be it one animal or several.
    pub fn same_animal(self, other: Self) -> bool {
        self.animal == other.animal
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.noun())
    }
}

impl FromStr for Subject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = text.trim().to_lowercase();
        Self::all().find(|subject| subject.noun() == wanted).ok_or_else(|| {
            let nouns: Vec<&str> = Self::all().map(Self::noun).collect();
            format!("expected one of {}", nouns.join(", "))
        })
    }
}

impl Serialize for Subject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.noun())
    }
}

/// What people feel about an adjective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tone {
    /// They like it.
    Praise,
    /// They do not mind.
    Neutral,
    /// They dislike it.
    Blame,
}

/// Every adjective with its tone.
pub fn adjectives() -> impl Iterator<Item = (&'static str, Tone)> {
    let praise = PRAISE.into_iter().map(|word| (word, Tone::Praise));
    let neutral = NEUTRAL.into_iter().map(|word| (word, Tone::Neutral));
    praise.chain(neutral).chain(BLAME.into_iter().map(|word| (word, Tone::Blame)))
}

/// What the user asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prompt {
    /// One of [`DESCRIBE`] or [`HELD_OUT`], [`SOUND`] or [`HOME`].
    pub template: &'static str,
    /// Of whom.
    pub subject: Subject,
}

impl Prompt {
    /// Asks for a description in a uniform one of `templates`, of a uniform subject.
    pub fn sample(templates: &[&'static str], rng: &mut Rng) -> Self {
        Self { subject: Subject::sample(rng), template: templates[rng.below(templates.len())] }
    }

    /// What the model reads: `<s> user describe : the dogs assistant`.
    pub fn tokens(&self) -> Vec<u32> {
        tokens(&format!("<s> user {} : the {} assistant", self.template, self.subject))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_subjects_agree_in_number() {
        assert_eq!(Subject::all().count(), 16);
        let says = |name: &str| {
            let it: Subject = name.parse().unwrap();
            format!("the {it} {} | {} {} | {}", it.copula(), it.verb(), it.place(), it.lives())
        };
        assert_eq!(says("horse"), "the horse is | gallops on the hill | lives");
        assert_eq!(says(" Horses"), "the horses are | gallop on the hill | live");
        assert!("unicorn".parse::<Subject>().unwrap_err().contains("dog, dogs, cat"));
    }

    #[test]
    fn every_prompt_is_in_the_vocabulary_and_leaves_room_for_a_response() {
        assert_eq!(vocab().len(), 79);
        let templates = DESCRIBE.into_iter().chain(HELD_OUT).chain([SOUND, HOME]);
        let longest = templates
            .map(|template| Prompt { template, subject: Subject::all().next().unwrap() }.tokens().len());
        assert_eq!(longest.max(), Some(10));
        let prompt = Prompt { template: DESCRIBE[0], subject: "dogs".parse().unwrap() };
        assert_eq!(vocab().decode(&prompt.tokens()), "<s> user describe : the dogs assistant");
    }

    #[test]
    fn adjectives_have_one_tone_each() {
        let count = |tone| adjectives().filter(|(_, t)| *t == tone).count();
        assert_eq!((count(Tone::Praise), count(Tone::Neutral), count(Tone::Blame)), (5, 5, 4));
    }
}
