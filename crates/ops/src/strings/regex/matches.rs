//! Matches and replacements of regular expressions over the strings of a tensor.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use regex::bytes::{Regex, RegexBuilder};
use thalweg_device::{KernelError, SharedObject, TensorCx};
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{DType, StringTensorBuilder, Tensor};

/// Patterns that a session keeps compiled, and the most bytes of each of their programs: larger ones are compiled anew.
const MAX_PATTERNS: usize = 32;
const MAX_KEPT_BYTES: usize = 256 << 10;
/// The most bytes of a program, as the `regex` crate has it.
const MAX_BYTES: usize = 10 << 20;

/// A compiled pattern.
struct Pattern {
    bytes: Regex,
    /// The pattern between anchors, once it is asked for.
    whole: OnceLock<Regex>,
    /// The pattern over text; `None` if it matches bytes that are no text.
    text: Option<regex::Regex>,
}

impl Pattern {
    fn compiled(pattern: &str, max_bytes: usize) -> Result<Pattern, KernelError> {
        let mut text = regex::RegexBuilder::new(pattern);
        Ok(Pattern {
            // It is valid by itself, before it is put between anchors.
            bytes: compile(pattern, max_bytes)?,
            whole: OnceLock::new(),
            // About as large.
            text: text.size_limit(MAX_BYTES).build().ok(),
        })
    }

    fn whole(&self) -> Result<&Regex, KernelError> {
        if let Some(whole) = self.whole.get() {
            return Ok(whole);
        }
        let new = compile(&format!(r"\A(?:{})\z", self.bytes.as_str()), MAX_BYTES)?;
        Ok(self.whole.get_or_init(|| new))
    }

    /// The pattern as the session keeps it: a step takes as long as its strings, and not as the compilation.
    fn of(cx: &TensorCx<'_>, pattern: &str) -> Result<Arc<Pattern>, KernelError> {
        type Patterns = Mutex<HashMap<String, Arc<Pattern>>>;
        let mut make = || Ok(Arc::new(Patterns::default()) as SharedObject);
        let all = cx.environment().session_object("RegexPatterns", &mut make);
        let Some(all) = all.ok().and_then(|all| all.downcast::<Patterns>().ok()) else {
            // Outside of a session, as of a constant that is folded.
            return Pattern::compiled(pattern, MAX_BYTES).map(Arc::new);
        };
        if let Some(known) = all.lock().unpoisoned().get(pattern) {
            return Ok(known.clone());
        }
        let Ok(new) = Pattern::compiled(pattern, MAX_KEPT_BYTES).map(Arc::new) else {
            // It is wrong, which the error says, or large.
            return Pattern::compiled(pattern, MAX_BYTES).map(Arc::new);
        };
        let mut all = all.lock().unpoisoned();
        if all.len() >= MAX_PATTERNS {
            all.clear();
        }
        all.insert(pattern.to_owned(), new.clone());
        Ok(new)
    }
}

fn compile(pattern: &str, max_bytes: usize) -> Result<Regex, KernelError> {
    let mut builder = RegexBuilder::new(pattern);
    let compiled = builder.size_limit(max_bytes).build();
    compiled.map_err(|e| KernelError::Invalid(format!("'{pattern}' is no regular expression: {e}")))
}

/// `true` for each string that a pattern matches as a whole.
pub(super) fn full_match(cx: &TensorCx<'_>, pattern: &str) -> Result<Vec<Tensor>, KernelError> {
    let pattern = Pattern::of(cx, pattern)?;
    let whole = pattern.whole()?;
    let mut found = cx.zeros(DType::Bool, cx.tensor(0)?.dims())?;
    let mut stop = cx.stop_check();
    for (found, s) in found.as_mut_slice::<bool>()?.iter_mut().zip(cx.strings(0)?) {
        stop.tick()?;
        *found = whole.is_match(s);
    }
    Ok(vec![found])
}

/// A piece of a replacement.
enum RewritePiece {
    Text(Vec<u8>),
    /// The match of the group of this number.
    Group(usize),
}

/// Parses a replacement in RE2's syntax: `\1` is a group.
fn parse_rewrite(rewrite: &str) -> Result<Vec<RewritePiece>, KernelError> {
    let mut pieces = Vec::new();
    let mut text = Vec::new();
    let mut bytes = rewrite.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next() {
                Some(digit) if digit.is_ascii_digit() => {
                    pieces.push(RewritePiece::Text(std::mem::take(&mut text)));
                    pieces.push(RewritePiece::Group(usize::from(digit - b'0')));
                }
                Some(b'\\') => text.push(b'\\'),
                _ => {
                    return Err(KernelError::Invalid(format!(
                        "'{rewrite}': a backslash must stand before a digit or another one"
                    )));
                }
            },
            byte => text.push(byte),
        }
    }
    pieces.push(RewritePiece::Text(text));
    Ok(pieces)
}

/// Appends a string with its matches, each given by its groups, replaced.
fn append_replaced<'t>(
    out: &mut StringTensorBuilder,
    s: &'t [u8],
    matches: impl Iterator<Item = impl Fn(usize) -> Option<std::ops::Range<usize>> + 't>,
    rewrite: &[RewritePiece],
) -> Result<(), KernelError> {
    let mut last = 0;
    for group in matches {
        let Some(whole) = group(0) else { continue };
        out.extend(&s[last..whole.start])?;
        for piece in rewrite {
            match piece {
                RewritePiece::Text(text) => out.extend(text)?,
                RewritePiece::Group(i) => out.extend(group(*i).map_or(&[][..], |r| &s[r]))?,
            }
        }
        last = whole.end;
    }
    out.extend(&s[last..])?;
    out.end();
    Ok(())
}

/// The strings with the matches of a pattern replaced.
pub(super) fn replace(
    cx: &TensorCx<'_>,
    pattern: &str,
    rewrite: &str,
) -> Result<Vec<Tensor>, KernelError> {
    let (pattern, rewrite) = (Pattern::of(cx, pattern)?, parse_rewrite(rewrite)?);
    let max_matches = match cx.attrs().bool("replace_global") {
        true => usize::MAX,
        false => 1,
    };
    let mut out = cx.string_tensor(cx.tensor(0)?.dims())?;
    let mut stop = cx.stop_check();
    for s in cx.strings(0)? {
        stop.tick()?;
        // An empty match must not split a character of text, as it would in bytes.
        match (&pattern.text, std::str::from_utf8(s)) {
            (Some(regex), Ok(text)) => {
                let all = regex.captures_iter(text).take(max_matches);
                let groups = all.map(|c| move |i: usize| c.get(i).map(|m| m.range()));
                append_replaced(&mut out, s, groups, &rewrite)?;
            }
            _ => {
                let all = pattern.bytes.captures_iter(s).take(max_matches);
                let groups = all.map(|c| move |i: usize| c.get(i).map(|m| m.range()));
                append_replaced(&mut out, s, groups, &rewrite)?;
            }
        }
    }
    Ok(vec![out.finish()?])
}
