//! Table of a server's numeric settings: flags, the configuration file and the documentation are made from it.

use std::time::Duration;

use thiserror::Error;

use super::server_limits::Limits;
use crate::runtime::timeouts::Timeouts;

/// Unit of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes, written as `512MiB` or as a number.
    Bytes,
    /// A count, written as a number.
    Count,
    /// Time, written as `4h`, `90s` or `250ms`.
    Time,
}

/// One numeric setting of a server's options.
///
/// ```
/// use thalweg_dist::ServerOptions;
/// use thalweg_dist::limits::{Setting, SETTINGS};
///
/// let mut options = ServerOptions::listening("127.0.0.1:0");
/// let lease = Setting::named("lease").expect("there is one");
/// lease.set(&mut options, "90m")?;
/// assert_eq!(options.limits.lease.as_secs(), 5400);
/// assert_eq!(lease.of(&options), "90min");
/// assert!(lease.set(&mut options, "soon").unwrap_err().to_string().contains("90s"));
/// assert!(SETTINGS.iter().all(|s| !s.meaning.is_empty()));
/// # Ok::<(), thalweg_dist::limits::SettingError>(())
/// ```
pub struct Setting {
    /// Its name. Its flag has dashes for underscores.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Its meaning, in one sentence.
    pub meaning: &'static str,
    /// Its default, or the rule by which it follows from the machine.
    pub default: &'static str,
    get: fn(&Limits, &Timeouts) -> u64,
    set: fn(&mut Limits, &mut Timeouts, u64),
}

/// Error of a text that is no number of this unit.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{text}' is no {}", match .unit {
    Unit::Bytes => "number of bytes: write 1000000, 512MiB or 4GiB",
    Unit::Count => "count: write a number",
    Unit::Time => "time: write 250ms, 90s, 5min or 4h",
})]
pub struct NoNumber {
    /// The text.
    pub text: String,
    /// The expected unit.
    pub unit: Unit,
}

/// Error of an invalid value of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SettingError {
    /// A text that is no number.
    #[error(transparent)]
    NoNumber(#[from] NoNumber),
    /// Zero, with which a server would do nothing.
    #[error("{0} is 0, and a server would do nothing then: it is 1 or more")]
    Zero(&'static str),
}

/// Settings that are never zero.
const NEVER_ZERO: [&str; 3] = ["connections", "steps", "silence"];

impl Setting {
    /// Returns the number of this setting.
    pub(crate) fn number(&self, limits: &Limits, timeouts: &Timeouts) -> u64 {
        (self.get)(limits, timeouts)
    }

    /// Sets the number, without a check.
    pub(crate) fn set_number(&self, limits: &mut Limits, timeouts: &mut Timeouts, number: u64) {
        (self.set)(limits, timeouts, number);
    }

    /// # Errors
    /// [`SettingError::Zero`].
    pub(crate) fn check(&self, number: u64) -> Result<(), SettingError> {
        match number == 0 && NEVER_ZERO.contains(&self.name) {
            true => Err(SettingError::Zero(self.name)),
            false => Ok(()),
        }
    }

    /// Returns the setting of this name.
    pub fn named(name: &str) -> Option<&'static Setting> {
        SETTINGS.iter().find(|s| s.name == name)
    }
}

/// Suffixes of numbers, with their factors in bytes or milliseconds; the largest first.
const BYTES: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
    ("", 1),
];
const TIMES: &[(&str, u64)] = &[
    ("h", 3_600_000),
    ("min", 60_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];
const COUNTS: &[(&str, u64)] = &[("", 1)];

impl Unit {
    fn suffixes(self) -> &'static [(&'static str, u64)] {
        match self {
            Unit::Bytes => BYTES,
            Unit::Count => COUNTS,
            Unit::Time => TIMES,
        }
    }

    pub(crate) fn read(self, text: &str) -> Result<u64, NoNumber> {
        let wrong = || NoNumber {
            text: text.to_owned(),
            unit: self,
        };
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '_');
        let (digits, suffix) = text.split_at(end.unwrap_or(text.len()));
        let number: u64 = digits.replace('_', "").parse().map_err(|_| wrong())?;
        let known = self.suffixes().iter().find(|(s, _)| *s == suffix.trim());
        let (_, factor) = known.ok_or_else(wrong)?;
        number.checked_mul(*factor).ok_or_else(wrong)
    }

    pub(crate) fn written(self, value: u64) -> String {
        let whole = |(_, factor): &&(&str, u64)| value.is_multiple_of(*factor) && value >= *factor;
        match self.suffixes().iter().find(whole) {
            Some((suffix, factor)) => format!("{}{suffix}", value / factor),
            None => match self {
                Unit::Time => "0s".to_owned(),
                Unit::Bytes | Unit::Count => value.to_string(),
            },
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// All numeric settings of a server.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "memory",
        unit: Unit::Bytes,
        meaning: "The most memory of the engine on the CPU: variables, queues and steps.",
        default: "half of the memory",
        get: |l, _| l.memory,
        set: |l, _, n| l.memory = n,
    },
    Setting {
        name: "message_bytes",
        unit: Unit::Bytes,
        meaning: "The largest message of a client.",
        default: "an eighth of the memory, and at most 2 GiB",
        get: |l, _| l.message_bytes as u64,
        set: |l, _, n| l.message_bytes = size(n),
    },
    Setting {
        name: "decoded_bytes",
        unit: Unit::Bytes,
        meaning: "The most memory that one message takes once it is decoded.",
        default: "an eighth of the memory",
        get: |l, _| l.decoded_bytes,
        set: |l, _, n| l.decoded_bytes = n,
    },
    Setting {
        name: "call_bytes",
        unit: Unit::Bytes,
        meaning: "The most memory that the messages and answers of all calls under way take.",
        default: "a quarter of the memory",
        get: |l, _| l.call_bytes,
        set: |l, _, n| l.call_bytes = n,
    },
    Setting {
        name: "session_bytes",
        unit: Unit::Bytes,
        meaning: "The most memory that the graph of one session takes.",
        default: "a sixteenth of the memory",
        get: |l, _| l.session_bytes,
        set: |l, _, n| l.session_bytes = n,
    },
    Setting {
        name: "graph_bytes",
        unit: Unit::Bytes,
        meaning: "The most memory that the graphs of all sessions take.",
        default: "an eighth of the memory",
        get: |l, _| l.graph_bytes,
        set: |l, _, n| l.graph_bytes = n,
    },
    Setting {
        name: "graph_nodes",
        unit: Unit::Count,
        meaning: "The most nodes of a session's graph, those of functions counted.",
        default: "one for each KiB of session_bytes, and at most 4194304",
        get: |l, _| l.graph_nodes as u64,
        set: |l, _, n| l.graph_nodes = size(n),
    },
    Setting {
        name: "expanded_bytes",
        unit: Unit::Bytes,
        meaning: "The most bytes that one message may ask to fill in for constants of few elements.",
        default: "a thirty-second of the memory, and at most 256 MiB",
        get: |l, _| l.expanded_bytes as u64,
        set: |l, _, n| l.expanded_bytes = size(n),
    },
    Setting {
        name: "value_bytes",
        unit: Unit::Bytes,
        meaning: "The largest tensor that is taken from another task.",
        default: "a quarter of the memory",
        get: |l, _| l.value_bytes,
        set: |l, _, n| l.value_bytes = n,
    },
    Setting {
        name: "flight_bytes",
        unit: Unit::Bytes,
        meaning: "The most bytes of tensors that come in from other tasks at a time.",
        default: "a quarter of the memory",
        get: |l, _| l.flight_bytes,
        set: |l, _, n| l.flight_bytes = n,
    },
    Setting {
        name: "sessions",
        unit: Unit::Count,
        meaning: "The most sessions at a time.",
        default: "1024",
        get: |l, _| l.sessions as u64,
        set: |l, _, n| l.sessions = size(n),
    },
    Setting {
        name: "client_sessions",
        unit: Unit::Count,
        meaning: "The most sessions at a time of one client, which is told by its address.",
        default: "256",
        get: |l, _| l.client_sessions as u64,
        set: |l, _, n| l.client_sessions = size(n),
    },
    Setting {
        name: "lease",
        unit: Unit::Time,
        meaning: "How long a session is kept after the last connection of its client has ended.",
        default: "4h",
        get: |l, _| millis(l.lease),
        set: |l, _, n| l.lease = Duration::from_millis(n),
    },
    Setting {
        name: "steps",
        unit: Unit::Count,
        meaning: "The most steps at a time, those of all sessions together.",
        default: "half of the threads that the system allows, and at most 1024",
        get: |l, _| l.steps as u64,
        set: |l, _, n| l.steps = size(n),
    },
    Setting {
        name: "callables",
        unit: Unit::Count,
        meaning: "The most callables of a session.",
        default: "65536",
        get: |l, _| l.callables as u64,
        set: |l, _, n| l.callables = size(n),
    },
    Setting {
        name: "parts",
        unit: Unit::Count,
        meaning: "The most parts of steps that a task keeps for one session of another's.",
        default: "4096",
        get: |l, _| l.parts as u64,
        set: |l, _, n| l.parts = size(n),
    },
    Setting {
        name: "connections",
        unit: Unit::Count,
        meaning: "The most connections at a time.",
        default: "three quarters of the descriptors that the system allows, and at most 65536",
        get: |l, _| l.connections as u64,
        set: |l, _, n| l.connections = size(n),
    },
    Setting {
        name: "arrival",
        unit: Unit::Time,
        meaning: "How long a new connection may take for TLS and its first call.",
        default: "10s",
        get: |l, _| millis(l.arrival),
        set: |l, _, n| l.arrival = Duration::from_millis(n),
    },
    Setting {
        name: "idle",
        unit: Unit::Time,
        meaning: "How long a connection may be without a call.",
        default: "2h",
        get: |l, _| millis(l.idle),
        set: |l, _, n| l.idle = Duration::from_millis(n),
    },
    Setting {
        name: "drain",
        unit: Unit::Time,
        meaning: "How long steps may still run when the server is told to end.",
        default: "30s",
        get: |l, _| millis(l.drain),
        set: |l, _, n| l.drain = Duration::from_millis(n),
    },
    Setting {
        name: "slow_step",
        unit: Unit::Time,
        meaning: "From which time on a step is told of in the log.",
        default: "60s",
        get: |l, _| millis(l.slow_step),
        set: |l, _, n| l.slow_step = Duration::from_millis(n),
    },
    Setting {
        name: "start",
        unit: Unit::Time,
        meaning: "How long a session waits for a task that it reaches for the first time.",
        default: "30s",
        get: |_, t| millis(t.connect),
        set: |_, t, n| t.connect = Duration::from_millis(n),
    },
    Setting {
        name: "silence",
        unit: Unit::Time,
        meaning: "How long a task that has work may be silent before it is taken for lost.",
        default: "3s",
        get: |_, t| millis(t.heartbeat),
        set: |_, t, n| t.heartbeat = Duration::from_millis(n),
    },
    Setting {
        name: "absence",
        unit: Unit::Time,
        meaning: "How long a worker may be away before training goes on without it.",
        default: "60s",
        get: |_, t| millis(t.worker_rejoin),
        set: |_, t, n| t.worker_rejoin = Duration::from_millis(n),
    },
    Setting {
        name: "outage",
        unit: Unit::Time,
        meaning: "How long synchronous training waits for lost servers to come back.",
        default: "300s",
        get: |_, t| millis(t.server_recovery),
        set: |_, t, n| t.server_recovery = Duration::from_millis(n),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit_names;

    #[test]
    fn a_setting_is_formatted_as_it_is_parsed() {
        for (unit, text, number) in [
            (Unit::Bytes, "3MiB", 3 << 20),
            (Unit::Bytes, "1000", 1000),
            (Unit::Bytes, "0", 0),
            (Unit::Count, "12", 12),
            (Unit::Time, "90s", 90_000),
            (Unit::Time, "250ms", 250),
            (Unit::Time, "0s", 0),
        ] {
            assert_eq!(unit.read(text), Ok(number), "{text}");
            let written = unit.written(number);
            assert_eq!(unit.read(&written), Ok(number), "{written}");
        }
        for (unit, wrong) in [
            (Unit::Bytes, "-1"),
            (Unit::Bytes, "1 parsec"),
            (Unit::Count, "1KiB"),
            (Unit::Count, ""),
            (Unit::Time, "10"),
            (Unit::Bytes, "99999999999999999TiB"),
        ] {
            assert!(unit.read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_size_and_count_has_a_limit_name() {
        let sizes = SETTINGS.iter().filter(|s| s.unit != Unit::Time);
        let mut named: Vec<_> = sizes.map(|s| s.name).collect();
        named.extend([
            limit_names::ARRIVAL,
            limit_names::IDLE,
            limit_names::SILENCE,
        ]);
        named.sort_unstable();
        let mut all = limit_names::ALL;
        all.sort_unstable();
        assert_eq!(named, all);
    }

    #[test]
    fn every_limit_is_a_setting() {
        let all = format!("{:#?}", Limits::new());
        let fields = all.lines().filter_map(|l| l.strip_prefix("    "));
        let fields = fields.filter(|l| !l.starts_with(' '));
        let names = fields.filter_map(|l| Some(l.split_once(": ")?.0));
        let numbers: Vec<&str> = names.filter(|n| *n != "ops").collect();
        assert!(numbers.len() > 20, "{all}");
        for name in numbers {
            assert!(Setting::named(name).is_some(), "{name} is no setting");
        }
    }
}
