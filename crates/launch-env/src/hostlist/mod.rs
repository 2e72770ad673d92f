//! Host lists of Slurm and Flux: `nid[001-003,7],login`.

use thiserror::Error;

/// Maximum number of hosts of a list: a short text can ask for any number.
pub(crate) const MAX_HOSTS: usize = 1 << 16;
/// Maximum bytes of a name, as in DNS.
const MAX_NAME_BYTES: usize = 255;
/// Maximum digits of a number in brackets.
const MAX_DIGITS: usize = 18;

/// Host list that cannot be expanded.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("host list '{list}', byte {offset}: {reason}; write it as nid[001-003,7],login")]
pub struct HostlistError {
    /// The list.
    pub list: String,
    /// Byte of the list at which the error is.
    pub offset: usize,
    /// Reason.
    pub reason: &'static str,
}

/// Error at a byte of a list.
type At = (usize, &'static str);

/// Range of numbers in brackets; `width` is the number of digits of the first one.
struct Range {
    first: u64,
    last: u64,
    width: usize,
}

impl Range {
    /// The numbers, with leading zeros.
    fn ids(&self) -> impl Iterator<Item = String> {
        let width = self.width;
        (self.first..=self.last).map(move |n| format!("{n:0width$}"))
    }
}

/// Part of an item: text, or ranges in brackets.
enum Part<'a> {
    Text(&'a str),
    Ranges(Vec<Range>),
}

/// Expands a host list: `nid[001-003,7],login` is `nid001`, `nid002`, `nid003`, `nid7` and `login`.
///
/// - Commas or white space separate items; empty items are skipped. Order and repeated names stay.
/// - An item may have several brackets, and text after them: `r[1-2]n[1-2]-ib` is `r1n1-ib`, `r1n2-ib`, `r2n1-ib`, `r2n2-ib`.
/// - The numbers of a range have at least as many digits as its first number.
///
/// `scontrol show hostnames` refuses text after the last bracket, and orders items of three or more brackets otherwise.
///
/// # Errors
/// A bracket is not closed or not opened; there is no number in brackets, or a range ends before it begins; the list has more
/// than 65,536 hosts.
///
/// ```
/// use thalweg_launch_env::expand_hosts;
///
/// assert_eq!(expand_hosts("gpu[08-10] login")?, ["gpu08", "gpu09", "gpu10", "login"]);
/// assert!(expand_hosts("gpu[3-1]").is_err());
/// # Ok::<(), thalweg_launch_env::HostlistError>(())
/// ```
pub fn expand_hosts(list: &str) -> Result<Vec<String>, HostlistError> {
    let error = |(offset, reason): At| HostlistError {
        list: list.to_owned(),
        offset,
        reason,
    };
    let mut hosts = Vec::new();
    for (start, item) in items(list).map_err(error)? {
        expand_item(start, item, &mut hosts).map_err(error)?;
    }
    Ok(hosts)
}

/// Splits a list into items and their offsets, at commas and white space outside of brackets.
fn items(list: &str) -> Result<Vec<(usize, &str)>, At> {
    let (mut all, mut start, mut open) = (Vec::new(), 0, None);
    for (at, c) in list.char_indices() {
        match (c, open) {
            ('[', None) => open = Some(at),
            ('[', Some(_)) => return Err((at, "a bracket is inside of another one")),
            (']', Some(_)) => open = None,
            (']', None) => return Err((at, "a bracket is closed that was not opened")),
            (c, None) if c == ',' || c.is_whitespace() => {
                all.push((start, &list[start..at]));
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    if let Some(at) = open {
        return Err((at, "a bracket is not closed"));
    }
    all.push((start, &list[start..]));
    all.retain(|(_, item)| !item.is_empty());
    Ok(all)
}

/// Appends the hosts of an item.
fn expand_item(start: usize, item: &str, hosts: &mut Vec<String>) -> Result<(), At> {
    let (mut parts, mut rest, mut at) = (Vec::new(), item, start);
    while let Some((text, tail)) = rest.split_once('[') {
        let (ranges, after) = tail.split_once(']').unwrap_or((tail, ""));
        at += text.len() + 1;
        parts.push(Part::Text(text));
        parts.push(Part::Ranges(parse_ranges(at, ranges)?));
        at += ranges.len() + 1;
        rest = after;
    }
    parts.push(Part::Text(rest));
    // The size is checked before anything is built.
    let (mut count, mut bytes) = (1u64, 0);
    for part in &parts {
        match part {
            Part::Text(text) => bytes += text.len(),
            Part::Ranges(ranges) => {
                let all = ranges.iter().map(|r| r.last - r.first + 1);
                count = count.saturating_mul(all.fold(0, u64::saturating_add));
                bytes += MAX_DIGITS;
            }
        }
    }
    if count > (MAX_HOSTS - hosts.len()) as u64 {
        return Err((start, "there are more than 65536 hosts"));
    }
    if bytes > MAX_NAME_BYTES {
        return Err((start, "a name is longer than 255 bytes"));
    }
    let mut names = vec![String::new()];
    for part in &parts {
        match part {
            Part::Text(text) => names.iter_mut().for_each(|name| name.push_str(text)),
            Part::Ranges(ranges) => {
                let ids = |name: &String| {
                    let ids = ranges.iter().flat_map(|r| r.ids());
                    ids.map(|id| format!("{name}{id}")).collect::<Vec<_>>()
                };
                names = names.iter().flat_map(ids).collect();
            }
        }
    }
    hosts.append(&mut names);
    Ok(())
}

/// Parses the text between brackets, which begins at this byte.
fn parse_ranges(start: usize, text: &str) -> Result<Vec<Range>, At> {
    let mut at = start;
    let mut all = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| match text.len() {
            1..=MAX_DIGITS if text.bytes().all(|b| b.is_ascii_digit()) => {
                text.parse().map_err(|_| (at, "a number is missing"))
            }
            0..=MAX_DIGITS => Err((at, "a number is missing")),
            _ => Err((at, "a number has more than 18 digits")),
        };
        let parsed = Range {
            first: number(first)?,
            last: number(last)?,
            width: first.len(),
        };
        if parsed.last < parsed.first {
            return Err((at, "a range ends before it begins"));
        }
        all.push(parsed);
        at += range.len() + 1;
    }
    Ok(all)
}

/// Run of consecutive numbers while a list is compressed.
struct Run<'a> {
    first: &'a str,
    last: u64,
}

impl Run<'_> {
    fn text(&self) -> String {
        let (first, width) = (self.first, self.first.len());
        match first.parse() == Ok(self.last) {
            true => first.to_owned(),
            false => format!("{first}-{:0width$}", self.last),
        }
    }
}

/// Compresses names of hosts to a host list, the inverse of [`expand_hosts`]: order and repeated names stay. Names hold no
/// brackets, commas or white space, and are not empty.
///
/// ```
/// use thalweg_launch_env::compress_hosts;
///
/// assert_eq!(compress_hosts(&["n08", "n09", "n10", "login"]), "n[08-10],login");
/// ```
pub fn compress_hosts(names: &[impl AsRef<str>]) -> String {
    let split = |name: &'_ str| {
        let digits = name.bytes().rev().take(MAX_DIGITS);
        name.len() - digits.take_while(u8::is_ascii_digit).count()
    };
    let mut items = Vec::new();
    let mut names = names.iter().map(AsRef::as_ref).peekable();
    while let Some(name) = names.next() {
        let (prefix, mut digits) = name.split_at(split(name));
        let mut runs: Vec<Run<'_>> = Vec::new();
        while let Ok(number) = digits.parse::<u64>() {
            match runs.last_mut() {
                Some(run) if follows(run, number, digits) => run.last = number,
                _ => runs.push(Run {
                    first: digits,
                    last: number,
                }),
            }
            let next = names.next_if(|next| {
                let (other, digits) = next.split_at(split(next));
                other == prefix && !digits.is_empty()
            });
            digits = next.map_or("", |next| &next[prefix.len()..]);
        }
        let texts: Vec<String> = runs.iter().map(Run::text).collect();
        items.push(match &*runs {
            [] => prefix.to_owned(),
            [only] if only.first.parse() == Ok(only.last) => format!("{prefix}{}", only.first),
            _ => format!("{prefix}[{}]", texts.join(",")),
        });
    }
    items.join(",")
}

/// `true` if a number, written so, is the next one of a run.
fn follows(run: &Run<'_>, number: u64, digits: &str) -> bool {
    let width = run.first.len();
    number == run.last + 1 && digits == format!("{number:0width$}")
}

#[cfg(test)]
mod tests;
