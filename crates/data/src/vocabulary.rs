//! Vocabularies: the numbers of words, for embeddings and one-hot rows.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use thalweg_tensor::{Tensor, TensorError};

use crate::error::DataError;

/// The numbers of a set of words, from 0, in their order. All other words have one number more.
///
/// ```
/// use thalweg_data::Vocabulary;
///
/// # fn main() -> Result<(), thalweg_tensor::TensorError> {
/// let words = Vocabulary::new(["red", "green", "blue"]);
/// assert_eq!((words.id("green"), words.id("mauve")), (1, 3));
/// // Rows of an embedding: one for each word, and one for the others.
/// assert_eq!(words.rows(), 4);
/// assert_eq!(words.ids(&["blue", "mauve"])?.to_vec::<i64>()?, [2, 3]);
/// assert_eq!(words.word(0), Some("red"));
///
/// // The two most frequent words of a text; of equally frequent ones, the first in the alphabet.
/// let text = "a rose is a rose is a rose";
/// let words = Vocabulary::of_most_frequent(text.split(' '), 2);
/// assert_eq!((words.id("a"), words.id("rose"), words.id("is")), (0, 1, 2));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vocabulary {
    words: Vec<String>,
    ids: HashMap<String, usize>,
}

impl Vocabulary {
    /// A vocabulary of these words; of a word that comes again, the first counts.
    pub fn new<W: Into<String>>(words: impl IntoIterator<Item = W>) -> Vocabulary {
        let mut vocabulary = Vocabulary::default();
        for word in words {
            let word = word.into();
            if !vocabulary.ids.contains_key(&word) {
                vocabulary.ids.insert(word.clone(), vocabulary.words.len());
                vocabulary.words.push(word);
            }
        }
        vocabulary
    }

    /// A vocabulary of the most frequent of these words, at most so many, the most frequent first.
    pub fn of_most_frequent<'w>(
        words: impl IntoIterator<Item = &'w str>,
        most: usize,
    ) -> Vocabulary {
        let mut counts: HashMap<&str, u64> = HashMap::new();
        for word in words {
            *counts.entry(word).or_default() += 1;
        }
        let mut counts: Vec<(&str, u64)> = counts.into_iter().collect();
        counts.sort_by(|(a, n), (b, m)| m.cmp(n).then(a.cmp(b)));
        Vocabulary::new(counts.into_iter().take(most).map(|(word, _)| word))
    }

    /// Reads a vocabulary from a file with a word on each line, as `tf.lookup` takes it.
    ///
    /// # Errors
    /// [`DataError::Io`]: the file cannot be read, or is no UTF-8.
    pub fn open(path: impl AsRef<Path>) -> Result<Vocabulary, DataError> {
        let path = path.as_ref();
        let wrong = |source| DataError::Io {
            path: path.to_path_buf(),
            source,
        };
        let lines = BufReader::new(File::open(path).map_err(wrong)?).lines();
        let words: Vec<String> = lines.collect::<Result<_, _>>().map_err(wrong)?;
        Ok(Vocabulary::new(words))
    }

    /// The number of a word; of one that is not there, the number of words.
    pub fn id(&self, word: &str) -> i64 {
        self.ids.get(word).copied().unwrap_or(self.words.len()) as i64
    }

    /// The numbers of these words, as a vector of `i64`.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn ids<W: AsRef<str>>(&self, words: &[W]) -> Result<Tensor, TensorError> {
        let ids: Vec<i64> = words.iter().map(|word| self.id(word.as_ref())).collect();
        Tensor::new(&[ids.len()], &ids)
    }

    /// The word of a number; `None` if it has no word of its own.
    pub fn word(&self, id: i64) -> Option<&str> {
        let id = usize::try_from(id).ok()?;
        self.words.get(id).map(String::as_str)
    }

    /// All words, by number.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// The number of rows that a table of the words needs: one for each, and one for all others.
    pub fn rows(&self) -> usize {
        self.words.len() + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_come_again_keep_their_first_number() {
        let words = Vocabulary::new(["b", "a", "b", ""]);
        assert_eq!(words.words(), ["b", "a", ""]);
        assert_eq!((words.id("b"), words.id(""), words.id("c")), (0, 2, 3));
        assert_eq!(
            (words.word(1), words.word(3), words.word(-1)),
            (Some("a"), None, None)
        );
        assert_eq!(Vocabulary::default().rows(), 1);
    }

    #[test]
    fn a_file_has_a_word_on_each_line() {
        let path = std::env::temp_dir().join(format!("thalweg-words-{}", std::process::id()));
        std::fs::write(&path, "one\ntwo\r\nthree").unwrap();
        assert_eq!(
            Vocabulary::open(&path).unwrap().words(),
            ["one", "two", "three"]
        );
        std::fs::write(&path, [0xff, b'\n']).unwrap();
        assert!(matches!(Vocabulary::open(&path), Err(DataError::Io { .. })));
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(Vocabulary::open(&path), Err(DataError::Io { .. })));
    }
}
