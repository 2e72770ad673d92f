//! Device specs: partial names of devices.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

use crate::graph::nearest_name;

/// A string that is not a device.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("device '{text}', at character {at}: {what}")]
pub struct SpecError {
    /// The string.
    pub text: String,
    /// The position of the mistake, in characters.
    pub at: usize,
    /// The mistake, and how to correct it.
    pub what: String,
}

/// A full or partial device name: unset parts match any value.
///
/// Prints as `/job:NAME/replica:N/task:N/device:TYPE:N`, TensorFlow's canonical form; the empty
/// spec prints as nothing.
///
/// ```
/// use thalweg_graph::DeviceSpec;
///
/// let asked = DeviceSpec::parse("/job:worker/gpu:0")?;
/// assert_eq!(asked.device_type.as_deref(), Some("GPU"));
/// assert_eq!(asked.to_string(), "/job:worker/device:GPU:0");
///
/// // An open part matches any value, or is filled in from elsewhere.
/// let full = DeviceSpec::parse("/job:worker/replica:0/task:3/device:GPU:0")?;
/// assert!(asked.admits(&full) && full.is_full());
/// let task = DeviceSpec::parse("/task:3")?;
/// assert_eq!(asked.or(&task).to_string(), "/job:worker/task:3/device:GPU:0");
///
/// // An error has the position of the mistake.
/// let error = DeviceSpec::parse("/cpu:0/tusk:1").unwrap_err();
/// assert_eq!(error.at, 7);
/// # Ok::<(), thalweg_graph::SpecError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceSpec {
    /// The job.
    pub job: Option<Arc<str>>,
    /// The replica.
    pub replica: Option<u32>,
    /// The task.
    pub task: Option<u32>,
    /// The device's type: `CPU`, `GPU`.
    pub device_type: Option<Arc<str>>,
    /// The device's number among those of its type.
    pub index: Option<u32>,
}

impl DeviceSpec {
    /// `true` if nothing is set: it matches any device.
    pub fn is_empty(&self) -> bool {
        *self == DeviceSpec::default()
    }

    /// Parses a device string: any of `/job:NAME`, `/replica:N`, `/task:N` and `/device:TYPE:N`,
    /// each at most once and in any order, `*` for a name or number that may be any, and the older
    /// `/cpu:N` and `/gpu:N` in either case. `/` and the empty string are empty.
    ///
    /// # Errors
    /// [`SpecError`], with the position of the mistake.
    pub fn parse(text: &str) -> Result<DeviceSpec, SpecError> {
        let mut parser = Parser {
            text,
            spec: DeviceSpec::default(),
            seen: [false; 4],
        };
        if !text.is_empty() && text != "/" {
            parser.run()?;
        }
        Ok(parser.spec)
    }

    /// This spec, with its open parts taken from `outer`.
    pub fn or(&self, outer: &DeviceSpec) -> DeviceSpec {
        DeviceSpec {
            job: self.job.clone().or_else(|| outer.job.clone()),
            replica: self.replica.or(outer.replica),
            task: self.task.or(outer.task),
            device_type: self
                .device_type
                .clone()
                .or_else(|| outer.device_type.clone()),
            index: self.index.or(outer.index),
        }
    }

    /// `true` if everything is set: it names one device.
    pub fn is_full(&self) -> bool {
        self.job.is_some()
            && self.replica.is_some()
            && self.task.is_some()
            && self.device_type.is_some()
            && self.index.is_some()
    }

    /// `true` if the device `name` matches this spec: every part that is set here is the same
    /// there.
    pub fn admits(&self, name: &DeviceSpec) -> bool {
        fn same<T: PartialEq>(wanted: &Option<T>, found: &Option<T>) -> bool {
            wanted.is_none() || wanted == found
        }
        same(&self.job, &name.job)
            && same(&self.replica, &name.replica)
            && same(&self.task, &name.task)
            && same(&self.device_type, &name.device_type)
            && same(&self.index, &name.index)
    }
}

impl FromStr for DeviceSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<DeviceSpec, SpecError> {
        DeviceSpec::parse(text)
    }
}

/// The parts of a spec, in the order in which they are printed.
const PARTS: [&str; 4] = ["job", "replica", "task", "device"];

struct Parser<'t> {
    text: &'t str,
    spec: DeviceSpec,
    /// By part: `true` if it was given.
    seen: [bool; 4],
}

impl<'t> Parser<'t> {
    /// An error at this byte.
    fn error(&self, at: usize, what: impl Into<String>) -> SpecError {
        let before = self.text.get(..at).unwrap_or(self.text);
        SpecError {
            text: self.text.to_owned(),
            at: before.chars().count(),
            what: what.into(),
        }
    }

    fn run(&mut self) -> Result<(), SpecError> {
        if !self.text.starts_with('/') {
            return Err(self.error(0, "a device begins with '/'"));
        }
        let mut at = 1;
        for part in self.text[1..].split('/') {
            self.part(at, part)?;
            at += part.len() + 1;
        }
        Ok(())
    }

    fn part(&mut self, at: usize, part: &'t str) -> Result<(), SpecError> {
        let (key, value) = part
            .split_once(':')
            .map_or((part, None), |(k, v)| (k, Some(v)));
        let value_at = at + key.len() + 1;
        let old = ["cpu", "gpu"]
            .into_iter()
            .find(|t| t.eq_ignore_ascii_case(key));
        let number = PARTS
            .iter()
            .position(|p| *p == key || (old.is_some() && *p == "device"));
        let Some(number) = number else {
            let all = PARTS.iter().copied().chain(["cpu", "gpu"]);
            let meant =
                nearest_name(key, all).map_or(String::new(), |n| format!(": did you mean /{n}:?"));
            let what = "this is none of /job:, /replica:, /task:, /device:, /cpu:, /gpu:";
            return Err(self.error(at, format!("{what}{meant}")));
        };
        if std::mem::replace(&mut self.seen[number], true) {
            return Err(self.error(at, format!("a second {}: give one", PARTS[number])));
        }
        if let Some(old) = old {
            self.spec.device_type = Some(old.to_ascii_uppercase().into());
            if let Some(value) = value {
                self.spec.index = self.number(value_at, value)?;
            }
            return Ok(());
        }
        let Some(value) = value else {
            let example = ["job:worker", "replica:0", "task:0", "device:GPU:0"][number];
            return Err(self.error(at + key.len(), format!("its value is missing: /{example}")));
        };
        match number {
            0 => self.spec.job = self.name(value_at, value)?,
            1 => self.spec.replica = self.number(value_at, value)?,
            2 => self.spec.task = self.number(value_at, value)?,
            _ => {
                let (kind, index) = value
                    .split_once(':')
                    .map_or((value, None), |(k, i)| (k, Some(i)));
                self.spec.device_type = self.name(value_at, kind)?.map(|kind| {
                    let known = ["CPU", "GPU"]
                        .into_iter()
                        .find(|k| k.eq_ignore_ascii_case(&kind));
                    known.map_or(kind, Arc::from)
                });
                if let Some(index) = index {
                    self.spec.index = self.number(value_at + kind.len() + 1, index)?;
                }
            }
        }
        Ok(())
    }

    /// `[A-Za-z][A-Za-z0-9_]*`, or `*`.
    fn name(&self, at: usize, name: &str) -> Result<Option<Arc<str>>, SpecError> {
        if name == "*" {
            return Ok(None);
        }
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Err(self.error(at, "a name begins with a letter"));
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
        match name.find(|c| !allowed(c)) {
            Some(i) => Err(self.error(at + i, "a name has letters, digits and '_' only")),
            None => Ok(Some(name.into())),
        }
    }

    /// Digits, or `*`.
    fn number(&self, at: usize, number: &str) -> Result<Option<u32>, SpecError> {
        if number == "*" {
            return Ok(None);
        }
        if let Some(i) = number.find(|c: char| !c.is_ascii_digit()) {
            return Err(self.error(at + i, "here is a number, or '*' for any"));
        }
        match number.parse() {
            // TensorFlow's numbers are those of a C int.
            Ok(n) if n <= i32::MAX as u32 => Ok(Some(n)),
            _ if number.is_empty() => Err(self.error(at, "here is a number, or '*' for any")),
            _ => Err(self.error(at, format!("the number is larger than {}", i32::MAX))),
        }
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(job) = &self.job {
            write!(f, "/job:{job}")?;
        }
        if let Some(replica) = self.replica {
            write!(f, "/replica:{replica}")?;
        }
        if let Some(task) = self.task {
            write!(f, "/task:{task}")?;
        }
        match (&self.device_type, self.index) {
            (None, None) => Ok(()),
            (Some(t), Some(i)) => write!(f, "/device:{t}:{i}"),
            (Some(t), None) => write!(f, "/device:{t}:*"),
            (None, Some(i)) => write!(f, "/device:*:{i}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name() -> impl Strategy<Value = Option<Arc<str>>> {
        proptest::option::of("[A-Za-z][A-Za-z0-9_]{0,6}".prop_map(Arc::from))
    }

    fn number() -> impl Strategy<Value = Option<u32>> {
        proptest::option::of(0u32..=i32::MAX as u32)
    }

    fn spec() -> impl Strategy<Value = DeviceSpec> {
        (name(), number(), number(), name(), number()).prop_map(
            |(job, replica, task, device_type, index)| DeviceSpec {
                job,
                replica,
                task,
                // `cpu` and `gpu` are read as `CPU` and `GPU`.
                device_type: device_type.map(|t| match t.to_ascii_uppercase().as_str() {
                    "CPU" => "CPU".into(),
                    "GPU" => "GPU".into(),
                    _ => t,
                }),
                index,
            },
        )
    }

    proptest! {
        #[test]
        fn display_and_parse_round_trip(spec in spec()) {
            prop_assert_eq!(DeviceSpec::parse(&spec.to_string()), Ok(spec));
        }

        #[test]
        fn filling_in_is_associative(a in spec(), b in spec(), c in spec()) {
            prop_assert_eq!(a.or(&b).or(&c), a.or(&b.or(&c)));
            prop_assert_eq!(a.or(&a), a);
        }

        #[test]
        fn any_string_parses_or_is_an_error_with_a_position(text in "[/a-zA-Z0-9:*_é -]{0,40}") {
            if let Err(error) = DeviceSpec::parse(&text) {
                prop_assert!(error.at <= text.chars().count());
            }
        }
    }

    #[test]
    fn parse_errors_have_a_position_and_advice() {
        for (text, at, said) in [
            ("/job:ps/tsk:0", 8, "did you mean /task:?"),
            ("/job:ps/task:x", 13, "a number"),
            ("/cpu:0/gpu:0", 7, "a second device"),
            ("job:ps", 0, "begins with '/'"),
            ("/task:4294967296", 6, "larger than"),
            ("/job", 4, "its value is missing"),
            ("/job:ä", 5, "a letter"),
        ] {
            let error = DeviceSpec::parse(text).unwrap_err();
            assert_eq!(error.at, at, "{error}");
            assert!(error.to_string().contains(said), "{error}");
        }
    }
}
