//! Reads metrics in the OpenMetrics text format.

/// Returns the value on the line with this prefix. `None` if there is no such line.
pub fn found(text: &str, begin: &str) -> Option<f64> {
    let mut lines = text.lines();
    let line = lines.find(|l| l.strip_prefix(begin).is_some_and(|r| r.starts_with(' ')))?;
    Some(line.rsplit(' ').next().unwrap().parse().unwrap())
}

/// Returns the value on the line with this prefix.
#[track_caller]
pub fn value(text: &str, begin: &str) -> f64 {
    found(text, begin).unwrap_or_else(|| panic!("no {begin} in\n{text}"))
}

/// Returns the count of a limit.
#[track_caller]
pub fn met(text: &str, limit: &str) -> f64 {
    value(
        text,
        &format!("thalweg_limits_met_total{{limit=\"{limit}\"}}"),
    )
}
