//! Parser of one line of the OpenMetrics text format.

/// Maximum length of a name or a label that is kept, in characters.
const MAX_NAME: usize = 128;

/// One sample: `thalweg_link_sent_bytes_total{peer="/job:ps/task:0"} 12`.
#[derive(Debug, PartialEq)]
pub(super) struct Sample<'a> {
    pub(super) name: &'a str,
    /// Name and value of each label.
    pub(super) labels: Vec<(&'a str, String)>,
    pub(super) value: f64,
}

impl Sample<'_> {
    /// Returns the value of a label.
    pub(super) fn label(&self, name: &str) -> Option<&str> {
        let found = self.labels.iter().find(|(n, _)| *n == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Line of a text.
#[derive(Debug, PartialEq)]
pub(super) enum Line<'a> {
    Sample(Sample<'a>),
    /// Comment, or empty line.
    Comment,
    /// `# EOF`
    End,
}

/// Parses a line. A timestamp and an exemplar behind the value are not read.
///
/// # Errors
/// Describes what is wrong with the line.
pub(super) fn parse_line(line: &str) -> Result<Line<'_>, &'static str> {
    let line = line.trim_end_matches(['\n', '\r']);
    if line == "# EOF" {
        return Ok(Line::End);
    }
    if line.is_empty() || line.starts_with('#') {
        return Ok(Line::Comment);
    }
    let end = line.find(|c| !is_name_char(c)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err("it does not begin with the name of a metric");
    }
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => parse_labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = rest.strip_prefix(' ').ok_or("it has no value")?;
    let value = value.split(' ').next().unwrap_or_default();
    let value = value.parse().map_err(|_| "its value is no number")?;
    Ok(Line::Sample(Sample {
        name,
        labels,
        value,
    }))
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// Labels, and the text after them.
type Labels<'a> = (Vec<(&'a str, String)>, &'a str);

/// Parses `a="x",b="y"}` and returns the rest.
fn parse_labels(mut rest: &str) -> Result<Labels<'_>, &'static str> {
    let mut labels = Vec::new();
    loop {
        if let Some(rest) = rest.strip_prefix('}') {
            return Ok((labels, rest));
        }
        let (name, value) = rest.split_once("=\"").ok_or("a label has no value")?;
        if name.is_empty() || !name.chars().all(is_name_char) {
            return Err("the name of a label is wrong");
        }
        let (value, after) = parse_quoted(value)?;
        labels.push((name, value));
        rest = after.strip_prefix(',').unwrap_or(after);
        if after.len() == rest.len() && !rest.starts_with('}') {
            return Err("its labels do not end");
        }
    }
}

/// Parses a text up to its quotation mark, and returns what follows.
fn parse_quoted(text: &str) -> Result<(String, &str), &'static str> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((printable(&value), &text[at + 1..])),
            '\\' => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, escaped @ ('\\' | '"'))) => value.push(escaped),
                _ => return Err("a label has an unknown escape"),
            },
            c => value.push(c),
        }
    }
    Err("a label has no end")
}

/// Returns the first characters of a text, with a replacement for each that is not printable ASCII: no text of an
/// endpoint controls the terminal, or reorders what is on it.
pub(super) fn printable(text: &str) -> String {
    let kept = text.chars().take(MAX_NAME);
    kept.map(|c| match c == ' ' || c.is_ascii_graphic() {
        true => c,
        false => '\u{fffd}',
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(line: &str) -> Sample<'_> {
        match parse_line(line) {
            Ok(Line::Sample(sample)) => sample,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn samples_have_a_name_labels_and_a_value() {
        for (line, name, labels, value) in [
            ("thalweg_sessions 0", "thalweg_sessions", vec![], 0.0),
            ("a:b_total 1.5e3\r\n", "a:b_total", vec![], 1500.0),
            ("a 7 1700000000", "a", vec![], 7.0),
            ("a{} 7 # {trace=\"x\"} 1", "a", vec![], 7.0),
            ("a{le=\"+Inf\"} 3", "a", vec![("le", "+Inf")], 3.0),
            (
                r#"a{peer="/job:ps/task:0",b="x\\y\"z"} 2"#,
                "a",
                vec![("peer", "/job:ps/task:0"), ("b", r#"x\y"z"#)],
                2.0,
            ),
            (r#"a{b="1",} 2"#, "a", vec![("b", "1")], 2.0),
        ] {
            let found = sample(line);
            let owned = labels.iter().map(|(n, v)| (*n, (*v).to_owned()));
            assert_eq!(found.labels, owned.collect::<Vec<_>>(), "{line}");
            assert_eq!((found.name, found.value), (name, value), "{line}");
        }
    }

    #[test]
    fn comments_and_the_end_are_no_samples() {
        for line in ["", "\n", "# TYPE a counter", "# HELP a It is."] {
            assert_eq!(parse_line(line), Ok(Line::Comment), "{line}");
        }
        assert_eq!(parse_line("# EOF\n"), Ok(Line::End));
    }

    #[test]
    fn malformed_lines_are_errors() {
        for (line, reason) in [
            ("<html>", "it does not begin with the name of a metric"),
            ("9a 1", "it does not begin with the name of a metric"),
            ("a", "it has no value"),
            ("a\t1", "it has no value"),
            ("a one", "its value is no number"),
            ("a ", "its value is no number"),
            ("a{b=\"1\" 2", "its labels do not end"),
            ("a{b=\"1\"c=\"2\"} 2", "its labels do not end"),
            ("a{b=\"1", "a label has no end"),
            ("a{b=\"\\x\"} 1", "a label has an unknown escape"),
            ("a{b} 1", "a label has no value"),
            ("a{=\"1\"} 1", "the name of a label is wrong"),
        ] {
            assert_eq!(parse_line(line), Err(reason), "{line}");
        }
    }

    #[test]
    fn labels_have_no_control_characters_and_a_bounded_length() {
        let found = sample("a{b=\"\u{1b}[31mred\u{202e}\\n\"} 1");
        assert_eq!(found.label("b"), Some("\u{fffd}[31mred\u{fffd}\u{fffd}"));
        let long = format!("a{{b=\"{}\"}} 1", "x".repeat(1 << 16));
        assert_eq!(sample(&long).label("b").unwrap().len(), MAX_NAME);
    }
}
