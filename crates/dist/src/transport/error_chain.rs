//! Errors with their sources.

/// Iterates over an error and its sources.
pub(super) fn chain<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |e| e.source())
}

/// Formats an error with all its sources.
pub(super) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    chain(error).fold(String::new(), |text, cause| match cause.to_string() {
        more if text.is_empty() => more,
        more if text.contains(&more) => text,
        more => format!("{text}: {more}"),
    })
}
