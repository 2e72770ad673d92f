//! HTML: escaped texts, and pages that are filled in.

/// A text in HTML, and within quotes in its tags.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c => out.push(c),
        }
    }
    out
}

/// Puts texts in place of marks such as `{{title}}`, which stand once in the page, in this order. What is put in is not looked
/// through.
pub(crate) fn filled(page: &str, marks: &[(&str, &str)]) -> String {
    let added: usize = marks.iter().map(|(_, text)| text.len()).sum();
    let mut out = String::with_capacity(page.len() + added);
    let mut rest = page;
    for (mark, text) in marks {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        out += before;
        out += text;
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_its_tag_or_is_taken_for_a_mark() {
        assert_eq!(
            escaped("<a b='c' d=\"e\">&"),
            "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;"
        );
        let page = filled(
            "<h1>{{title}}</h1>{{body}}.",
            &[("{{title}}", "{{body}}"), ("{{body}}", "text")],
        );
        assert_eq!(page, "<h1>{{body}}</h1>text.");
    }
}
