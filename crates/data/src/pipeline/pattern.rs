//! Names of files by pattern.
//!
//! A matcher of its own: the crate `glob` would be one more package of the smallest program.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::error::DataError;

/// The files that match a pattern, sorted, so that the order is the same on every machine.
///
/// In each part of the path, `*` is any text, `?` a character, `[a-c]` one of some characters, `[!a]` one of all others.
/// A name that starts with a point matches only a pattern that does.
///
/// ```
/// let error = thalweg_data::pipeline::files("/nowhere/train-*-of-[0-9]").unwrap_err();
/// assert!(error.to_string().ends_with("no file matches it"));
/// ```
///
/// # Errors
/// [`DataError::Pattern`]: it is no pattern, or no file matches. [`DataError::Io`]: a folder cannot be read.
pub fn files(pattern: &str) -> Result<Vec<PathBuf>, DataError> {
    let wrong = |reason: &str| DataError::Pattern {
        pattern: pattern.to_owned(),
        reason: reason.to_owned(),
    };
    let mut found = vec![PathBuf::new()];
    for part in Path::new(pattern).components() {
        let name = match part {
            Component::Normal(name) => name.to_str().unwrap_or_default(),
            _ => "",
        };
        if !name.contains(['*', '?', '[']) {
            found.iter_mut().for_each(|path| path.push(part));
            continue;
        }
        let tokens = tokens(name).ok_or_else(|| wrong("a `[` has no `]`"))?;
        let hidden = name.starts_with('.');
        let mut matching = Vec::new();
        for folder in found {
            for entry in names(&folder)? {
                let text = entry.to_string_lossy();
                if text.starts_with('.') == hidden && matches(&tokens, &text) {
                    matching.push(folder.join(&entry));
                }
            }
        }
        found = matching;
    }
    found.retain(|path| path.exists() && !path.is_dir());
    if found.is_empty() {
        return Err(wrong("no file matches it"));
    }
    found.sort();
    Ok(found)
}

/// The names in a folder; none if it is not there, or is a file.
fn names(folder: &Path) -> Result<Vec<OsString>, DataError> {
    let path = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let read = || -> io::Result<Vec<OsString>> {
        let entries = std::fs::read_dir(path)?;
        entries.map(|entry| Ok(entry?.file_name())).collect()
    };
    match read() {
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(Vec::new())
        }
        read => read.map_err(|source| DataError::Io {
            path: path.to_owned(),
            source,
        }),
    }
}

/// A part of a pattern.
enum Token {
    Any,
    One,
    /// Ranges of characters, or all but these.
    Class(Vec<(char, char)>, bool),
    Literal(char),
}

impl Token {
    fn fits(&self, c: char) -> bool {
        match self {
            Token::Any => false,
            Token::One => true,
            Token::Class(ranges, inside) => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) == *inside
            }
            Token::Literal(literal) => *literal == c,
        }
    }
}

/// A pattern of the names in a folder.
///
/// ```
/// use thalweg_data::pipeline::NamePattern;
///
/// let shards = NamePattern::new("train-*-of-0?").unwrap();
/// assert!(shards.matches("train-00001-of-02"));
/// assert!(NamePattern::new("[ab").is_none());
/// ```
pub struct NamePattern(Vec<Token>);

impl NamePattern {
    /// A pattern with `*`, `?` and `[ab]`; `None` if a class has no end.
    pub fn new(pattern: &str) -> Option<NamePattern> {
        tokens(pattern).map(NamePattern)
    }

    /// `true` if a name matches.
    pub fn matches(&self, name: &str) -> bool {
        matches(&self.0, name)
    }
}

/// The parts of a pattern; `None` if a class has no end.
fn tokens(pattern: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        tokens.push(match c {
            '*' => Token::Any,
            '?' => Token::One,
            '[' => {
                let after = rest.strip_prefix('!');
                let inside = after.is_none();
                let class = after.unwrap_or(rest);
                // A `]` at the start is one of the characters.
                let first = class.chars().next()?.len_utf8();
                let end = first + class[first..].find(']')?;
                rest = &class[end + 1..];
                Token::Class(ranges(&class[..end]), inside)
            }
            literal => Token::Literal(literal),
        });
    }
    Some(tokens)
}

/// The ranges of a class: `a-c` is one, other characters stand for themselves.
fn ranges(class: &str) -> Vec<(char, char)> {
    let all: Vec<char> = class.chars().collect();
    let mut ranges = Vec::new();
    let mut rest = &all[..];
    while let [first, after @ ..] = rest {
        (rest, _) = match after {
            ['-', last, after @ ..] => (after, ranges.push((*first, *last))),
            after => (after, ranges.push((*first, *first))),
        };
    }
    ranges
}

/// Matches a name. Of several `*`, only the last one is tried again: the time is that of the lengths multiplied.
fn matches(tokens: &[Token], name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    let (mut token, mut at) = (0, 0);
    let mut again = None;
    while at < name.len() {
        match tokens.get(token) {
            Some(Token::Any) => {
                again = Some((token + 1, at));
                token += 1;
            }
            Some(one) if one.fits(name[at]) => {
                token += 1;
                at += 1;
            }
            _ => {
                let Some((after, from)) = &mut again else {
                    return false;
                };
                *from += 1;
                (token, at) = (*after, *from);
            }
        }
    }
    tokens[token..]
        .iter()
        .all(|token| matches!(token, Token::Any))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_as_in_a_shell() {
        let cases = [
            ("train-*-of-0?", "train-00001-of-02", true),
            ("train-*-of-0?", "train-00001-of-012", false),
            ("*", "", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-d", false),
            ("[a-cx]1", "b1", true),
            ("[a-cx]1", "x1", true),
            ("[a-cx]1", "d1", false),
            ("[!a-c]1", "d1", true),
            ("[!a-c]1", "a1", false),
            ("[]]", "]", true),
            ("[a-]", "-", true),
            ("\u{e9}?", "\u{e9}\u{e8}", true),
        ];
        for (pattern, name, expected) in cases {
            let tokens = tokens(pattern).unwrap();
            assert_eq!(matches(&tokens, name), expected, "{pattern} {name}");
        }
        assert!(tokens("[a").is_none() && tokens("[").is_none());
        // No pattern takes long.
        let tokens = tokens(&"*a".repeat(30)).unwrap();
        assert!(!matches(&tokens, &format!("{}b", "a".repeat(5000))));
    }

    #[test]
    fn files_of_several_folders_are_sorted() {
        let folder = std::env::temp_dir().join(format!("thalweg-pattern-{}", std::process::id()));
        for inner in ["b", "a", ".hidden"] {
            std::fs::create_dir_all(folder.join(inner).join("deep")).unwrap();
            for name in ["2.rec", "1.rec", ".3.rec", "x.txt"] {
                std::fs::write(folder.join(inner).join(name), "").unwrap();
            }
        }
        let found = |pattern: &str| {
            let pattern = format!("{}/{pattern}", folder.display());
            let names = |path: PathBuf| path.strip_prefix(&folder).unwrap().display().to_string();
            files(&pattern).map(|all| all.into_iter().map(names).collect::<Vec<_>>())
        };
        assert_eq!(
            found("*/*.rec").unwrap(),
            ["a/1.rec", "a/2.rec", "b/1.rec", "b/2.rec"]
        );
        assert_eq!(found("[b]/.*").unwrap(), ["b/.3.rec"]);
        assert_eq!(found("a/x.txt").unwrap(), ["a/x.txt"]);
        assert!(found("a/x.txt/*").is_err() && found("*/deep").is_err() && found("c/*").is_err());
        let error = found("[a").unwrap_err().to_string();
        assert!(error.ends_with("a `[` has no `]`"), "{error}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
