//! Rules of Kubernetes for names and quantities.

use thalweg_launch_env::variables;

use crate::error::Result;

/// Maximum length of a job's name: Kubernetes appends to it, and a label has 63 characters at most.
const MAX_JOB_NAME: usize = 40;

/// Variable with the number of a Pod among those of its kind.
pub(super) const TASK_INDEX: &str = "THALWEG_TASK_INDEX";
/// Variables that the launcher sets.
const OWN: [&str; 7] = [
    TASK_INDEX,
    variables::COORDINATOR,
    variables::COORDINATOR_PORT,
    variables::JOB_SIZE,
    variables::PROTECTION,
    variables::TF_CONFIG,
    variables::UNPROTECTED_NETWORK,
];

/// Checks the name of a job, which becomes the name of a Service: a DNS label that begins with a letter.
pub(super) fn job_name(name: &str) -> Result<()> {
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    match begins && is_label(name) && name.len() <= MAX_JOB_NAME {
        true => Ok(()),
        false => Err(format!(
            "--name {name}: give at most {MAX_JOB_NAME} lower-case letters, digits and dashes; the first one is a letter, and the \
             last one no dash"
        )
        .into()),
    }
}

/// Checks the name of a namespace: a DNS label.
pub(super) fn namespace(name: &str) -> Result<()> {
    match is_label(name) {
        true => Ok(()),
        false => Err(format!(
            "--namespace {name}: give at most 63 lower-case letters, digits and dashes; the first and last are no dash"
        )
        .into()),
    }
}

/// Checks the name of a Secret: DNS labels with dots between.
pub(super) fn secret(name: &str) -> Result<()> {
    match name.len() <= 253 && name.split('.').all(is_label) {
        true => Ok(()),
        false => Err(format!("--protection-secret {name}: it is no name of a Secret").into()),
    }
}

/// Checks the reference of an image.
pub(super) fn image(text: &str) -> Result<()> {
    let is_plain = text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "._-/:@".contains(c));
    match is_plain && text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        true => Ok(()),
        false => Err(format!("--image {text}: it is no name of an image").into()),
    }
}

/// Checks a quantity of a resource, such as `500m` or `16Gi`.
pub(super) fn quantity(flag: &str, text: &str) -> Result<()> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let digits = number.chars().filter(char::is_ascii_digit).count();
    let is_number = digits > 0 && number.matches('.').count() <= 1 && number.len() <= 18;
    let units = [
        "", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
    ];
    match is_number && units.contains(&unit) {
        true => Ok(()),
        false => Err(format!("{flag} {text}: give a quantity, such as 4, 500m or 16Gi").into()),
    }
}

/// Checks a variable that the user sets.
pub(super) fn variable(name: &str, value: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let begins = !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit());
    if !begins || !name.chars().all(plain) {
        return Err(format!("--env {name}: a name has letters, digits and underscores").into());
    }
    if value.contains('\0') {
        return Err(format!("--env {name}: a value has no zero character").into());
    }
    match OWN.contains(&name) {
        true => Err(format!("--env {name}: the launcher sets this variable").into()),
        false => Ok(()),
    }
}

fn is_label(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let ends = name.starts_with('-') || name.ends_with('-');
    !name.is_empty() && name.len() <= 63 && name.chars().all(plain) && !ends
}
