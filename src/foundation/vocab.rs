//! A word-level vocabulary.

use std::collections::HashMap;
use std::fmt;

/// Words and their ids. Padding, start and end are three different words, so that no mask can hide
/// the end of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocab {
    words: Vec<String>,
    ids: HashMap<String, u32>,
}

/// A word outside the vocabulary, or a list that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VocabError {
    /// This word has no id.
    Unknown(String),
    /// This word was given twice, or with a space in it, or is empty.
    Invalid(String),
    /// The list does not begin with padding, start and end.
    Special,
}

impl fmt::Display for VocabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(word) => write!(f, "{word:?} is not in the vocabulary"),
            Self::Invalid(word) => {
                write!(f, "{word:?} cannot be a word: empty, with a space, or given twice")
            }
            Self::Special => write!(f, "a vocabulary begins with {:?}", Vocab::SPECIAL),
        }
    }
}

impl std::error::Error for VocabError {}

impl Vocab {
    /// The words every vocabulary begins with, at ids 0, 1 and 2.
    pub const SPECIAL: [&str; 3] = ["<pad>", "<s>", "</s>"];
    /// Fills up what is rectangular; never part of a sequence.
    pub const PAD: u32 = 0;
    /// Begins every sequence.
    pub const BOS: u32 = 1;
    /// Ends a response that stopped.
    pub const EOS: u32 = 2;

    /// The special words and then `words`, in order.
    ///
    /// # Errors
    /// On a word that is empty, contains a space or occurs twice.
    pub fn new<S: AsRef<str>>(words: &[S]) -> Result<Self, VocabError> {
        let special = Self::SPECIAL.into_iter();
        Self::from_words(special.chain(words.iter().map(AsRef::as_ref)).map(str::to_owned).collect())
    }

    /// A complete list of words, id = position.
    ///
    /// # Errors
    /// As [`Vocab::new`], and if the list does not begin with [`Vocab::SPECIAL`].
    pub fn from_words(words: Vec<String>) -> Result<Self, VocabError> {
        if words.len() < 3 || words[..3] != Self::SPECIAL {
            return Err(VocabError::Special);
        }
        let mut ids = HashMap::new();
        for (id, word) in (0..).zip(&words) {
            let blank = word.is_empty() || word.contains(char::is_whitespace);
            if blank || ids.insert(word.clone(), id).is_some() {
                return Err(VocabError::Invalid(word.clone()));
            }
        }
        Ok(Self { words, ids })
    }

    /// All words, id = position.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Number of words.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Never: the special words are always there.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The id of `word`.
    ///
    /// # Errors
    /// If it has none.
    pub fn id(&self, word: &str) -> Result<u32, VocabError> {
        self.ids.get(word).copied().ok_or_else(|| VocabError::Unknown(word.to_owned()))
    }

    /// The ids of the words of `text`, which spaces separate.
    ///
    /// # Errors
    /// On the first word that has none.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, VocabError> {
        text.split_whitespace().map(|word| self.id(word)).collect()
    }

    /// The word of `id`, if it has one.
    pub fn word(&self, id: u32) -> Option<&str> {
        self.words.get(id as usize).map(String::as_str)
    }

    /// Words separated by spaces; an id without a word shows as `<id>`.
    pub fn decode(&self, ids: &[u32]) -> String {
        let word = |&id: &u32| self.word(id).map_or_else(|| format!("<{id}>"), str::to_owned);
        ids.iter().map(word).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_encoding_and_strangers_are_named() {
        let vocab = Vocab::new(&["the", "dog"]).unwrap();
        assert_eq!(vocab.encode("the dog </s>").unwrap(), [3, 4, Vocab::EOS]);
        assert_eq!(vocab.decode(&[1, 3, 4, 9]), "<s> the dog <9>");
        assert_eq!(vocab.encode("the cat"), Err(VocabError::Unknown("cat".into())));
    }

    #[test]
    fn doubtful_word_lists_are_errors() {
        assert_eq!(Vocab::new(&["a", "a"]), Err(VocabError::Invalid("a".into())));
        assert_eq!(Vocab::new(&["a b"]), Err(VocabError::Invalid("a b".into())));
        assert_eq!(Vocab::from_words(vec!["a".into()]), Err(VocabError::Special));
    }
}
