//! Table of a server's numeric settings. Flags, entries of the configuration file, defaults, checks, and names in errors
//! and metrics follow from it: a new limit is a field of [`Limits`] and a row here.

use std::time::Duration;

use thiserror::Error;

use super::machine::Machine;
use super::server_limits::{BYTES_PER_NODE, Limits};
use super::timeouts::Timeouts;
use super::unit::{NoNumber, Unit};

/// One numeric setting of a server's options.
///
/// ```
/// use thalweg_dist::ServerOptions;
/// use thalweg_dist::limits::{Setting, SETTINGS};
///
/// let mut options = ServerOptions::listening("127.0.0.1:0");
/// let lease = Setting::named("lease").expect("there is one");
/// lease.set(&mut options, "90m")?;
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
    /// Its default: a text of its unit, or a description of its rule.
    pub default: &'static str,
    /// Rule by which the default follows from the machine.
    rule: Option<fn(&Machine) -> u64>,
    field: Field,
    /// `true` if calls or connections can meet the limit: errors and metrics name it then.
    counted: bool,
    /// `true` if a server would do nothing with zero.
    never_zero: bool,
}

/// Field that holds the number.
type Field = for<'a> fn(&'a mut Limits, &'a mut Timeouts) -> &'a mut dyn Number;

/// Field of a setting as a number: bytes, a count, or milliseconds.
trait Number {
    fn get(&self) -> u64;
    fn set(&mut self, number: u64);
}

impl Number for u64 {
    fn get(&self) -> u64 {
        *self
    }

    fn set(&mut self, number: u64) {
        *self = number;
    }
}

impl Number for usize {
    fn get(&self) -> u64 {
        *self as u64
    }

    fn set(&mut self, number: u64) {
        *self = usize::try_from(number).unwrap_or(usize::MAX);
    }
}

impl Number for Duration {
    fn get(&self) -> u64 {
        u64::try_from(self.as_millis()).unwrap_or(u64::MAX)
    }

    fn set(&mut self, number: u64) {
        *self = Duration::from_millis(number);
    }
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

impl Setting {
    /// Adds the rule of a default that follows from the machine.
    const fn rule(self, rule: fn(&Machine) -> u64) -> Setting {
        let rule = Some(rule);
        Setting { rule, ..self }
    }

    const fn counted(self) -> Setting {
        let counted = true;
        Setting { counted, ..self }
    }

    const fn never_zero(self) -> Setting {
        let never_zero = true;
        Setting { never_zero, ..self }
    }

    /// Returns the number of this setting.
    pub(crate) fn number(&self, limits: &Limits, timeouts: &Timeouts) -> u64 {
        let (mut limits, mut timeouts) = (limits.clone(), *timeouts);
        (self.field)(&mut limits, &mut timeouts).get()
    }

    /// Sets the number, without a check.
    pub(crate) fn set_number(&self, limits: &mut Limits, timeouts: &mut Timeouts, number: u64) {
        (self.field)(limits, timeouts).set(number);
    }

    /// Returns the default number for a machine.
    fn default_number(&self, machine: &Machine) -> u64 {
        match self.rule {
            Some(rule) => rule(machine),
            // A test reads the defaults of all settings.
            None => self.unit.read(self.default).unwrap_or_default(),
        }
    }

    /// # Errors
    /// [`SettingError::Zero`].
    pub(crate) fn check(&self, number: u64) -> Result<(), SettingError> {
        match number == 0 && self.never_zero {
            true => Err(SettingError::Zero(self.name)),
            false => Ok(()),
        }
    }

    /// Returns the setting of this name.
    pub fn named(name: &str) -> Option<&'static Setting> {
        SETTINGS.iter().find(|s| s.name == name)
    }
}

/// Names of all limits that calls or connections can meet.
pub(crate) fn counted_limits() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().filter(|s| s.counted).map(|s| s.name)
}

/// Returns the name of a counted limit, for errors and metrics. In a `const`, an unknown name does not compile.
pub(crate) const fn limit_name(name: &'static str) -> &'static str {
    let mut row = 0;
    while row < SETTINGS.len() {
        if SETTINGS[row].counted && same_text(SETTINGS[row].name, name) {
            return name;
        }
        row += 1;
    }
    panic!("no counted limit has this name")
}

const fn same_text(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// The name of the memory's limit: [`crate::error`] is below this module, and has its own constant.
const _: &str = limit_name(crate::error::MEMORY);

/// Returns the defaults for a machine.
fn defaults(machine: &Machine) -> (Limits, Timeouts) {
    // If the system reports none, more bytes than any machine has.
    let memory = machine.memory.min(1 << 50);
    let machine = Machine { memory, ..*machine };
    let (mut limits, mut timeouts) = (Limits::zero(), Timeouts::zero());
    for setting in SETTINGS {
        let number = setting.default_number(&machine);
        setting.set_number(&mut limits, &mut timeouts, number);
    }
    (limits, timeouts)
}

impl Limits {
    /// Returns the limits for the resources of a machine.
    ///
    /// The server may take half of the memory for everything. Within that, the calls that go on may take a quarter of the
    /// memory. One message, decoded, may take half of what calls may. The graphs of all sessions may take an eighth, and
    /// that of one session half of it. Values that come in from other tasks may take a quarter.
    ///
    /// ```
    /// use thalweg_dist::Limits;
    /// use thalweg_dist::limits::Machine;
    ///
    /// let machine = Machine { memory: 16 << 30, ..Machine::here() };
    /// let limits = Limits::of(&machine);
    /// assert_eq!(limits.memory, 8 << 30);
    /// assert_eq!(limits.call_bytes, 4 << 30);
    /// assert_eq!(limits.decoded_bytes, 2 << 30);
    /// ```
    pub fn of(machine: &Machine) -> Limits {
        defaults(machine).0
    }
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        defaults(&Machine::UNLIMITED).1
    }
}

const fn setting(
    name: &'static str,
    unit: Unit,
    meaning: &'static str,
    default: &'static str,
    field: Field,
) -> Setting {
    Setting {
        name,
        unit,
        meaning,
        default,
        rule: None,
        field,
        counted: false,
        never_zero: false,
    }
}

const fn bytes(
    name: &'static str,
    meaning: &'static str,
    default: &'static str,
    field: Field,
) -> Setting {
    setting(name, Unit::Bytes, meaning, default, field)
}

const fn count(
    name: &'static str,
    meaning: &'static str,
    default: &'static str,
    field: Field,
) -> Setting {
    setting(name, Unit::Count, meaning, default, field)
}

const fn time(
    name: &'static str,
    meaning: &'static str,
    default: &'static str,
    field: Field,
) -> Setting {
    setting(name, Unit::Time, meaning, default, field)
}

/// Maximum size of a protobuf message.
const MAX_MESSAGE: u64 = i32::MAX as u64;
/// Maximum number of connections if the system does not limit open files.
const MAX_CONNECTIONS: u64 = 65_536;

/// Returns the number of connections for a limit of open files. A quarter of the files, and at least 64, are reserved
/// for other uses.
fn connections(descriptors: u64) -> u64 {
    let left = descriptors.saturating_sub((descriptors / 4).max(64));
    left.clamp(1, MAX_CONNECTIONS)
}

/// All numeric settings of a server.
pub const SETTINGS: &[Setting] = &[
    bytes(
        "memory",
        "The most memory of everything that the server holds. Variables, queues and steps may take seven eighths of it on each CPU, plans and traces an eighth.",
        "half of the memory",
        |l, _| &mut l.memory,
    )
    .rule(|m| m.memory / 2)
    .counted(),
    bytes(
        "message_bytes",
        "The largest message of a client.",
        "an eighth of the memory, and at most 2 GiB",
        |l, _| &mut l.message_bytes,
    )
    .rule(|m| (m.memory / 8).min(MAX_MESSAGE))
    .counted(),
    bytes(
        "decoded_bytes",
        "The most memory that one message takes once it is decoded.",
        "an eighth of the memory",
        |l, _| &mut l.decoded_bytes,
    )
    .rule(|m| m.memory / 8)
    .counted(),
    bytes(
        "call_bytes",
        "The most memory that the messages and answers of all calls under way take.",
        "a quarter of the memory",
        |l, _| &mut l.call_bytes,
    )
    .rule(|m| m.memory / 4)
    .counted(),
    bytes(
        "session_bytes",
        "The most memory that the graph of one session takes.",
        "a sixteenth of the memory",
        |l, _| &mut l.session_bytes,
    )
    .rule(|m| m.memory / 16)
    .counted(),
    bytes(
        "graph_bytes",
        "The most memory that the graphs of all sessions take.",
        "an eighth of the memory",
        |l, _| &mut l.graph_bytes,
    )
    .rule(|m| m.memory / 8)
    .counted(),
    count(
        "graph_nodes",
        "The most nodes of a session's graph, those of functions counted.",
        "one for each KiB of session_bytes, and at most 4194304",
        |l, _| &mut l.graph_nodes,
    )
    .rule(|m| (m.memory / 16 / BYTES_PER_NODE).min(4 << 20))
    .counted(),
    bytes(
        "expanded_bytes",
        "The most bytes that one message may ask to fill in for constants of few elements.",
        "a thirty-second of the memory, and at most 256 MiB",
        |l, _| &mut l.expanded_bytes,
    )
    .rule(|m| (m.memory / 32).min(256 << 20))
    .counted(),
    bytes(
        "value_bytes",
        "The largest tensor that is taken from another task.",
        "a quarter of the memory",
        |l, _| &mut l.value_bytes,
    )
    .rule(|m| m.memory / 4)
    .counted(),
    bytes(
        "flight_bytes",
        "The most bytes of tensors that come in from other tasks at a time.",
        "a quarter of the memory",
        |l, _| &mut l.flight_bytes,
    )
    .rule(|m| m.memory / 4)
    .counted(),
    count(
        "sessions",
        "The most sessions at a time.",
        "1024",
        |l, _| &mut l.sessions,
    )
    .counted(),
    count(
        "client_sessions",
        "The most sessions at a time of one client, which is told by its address.",
        "256",
        |l, _| &mut l.client_sessions,
    )
    .counted(),
    time(
        "lease",
        "How long a session is kept after the last connection of its client has ended.",
        "4h",
        |l, _| &mut l.lease,
    ),
    count(
        "steps",
        "The most steps at a time, those of all sessions together.",
        "half of the threads that the system allows, and at most 1024",
        |l, _| &mut l.steps,
    )
    .rule(|m| (m.threads / 2).clamp(1, 1024))
    .counted()
    .never_zero(),
    count(
        "callables",
        "The most callables of a session.",
        "65536",
        |l, _| &mut l.callables,
    )
    .counted(),
    count(
        "parts",
        "The most parts of steps that a task keeps for one session of another's.",
        "4096",
        |l, _| &mut l.parts,
    )
    .counted(),
    count(
        "connections",
        "The most connections at a time.",
        "three quarters of the descriptors that the system allows, and at most 65536",
        |l, _| &mut l.connections,
    )
    .rule(|m| connections(m.descriptors))
    .counted()
    .never_zero(),
    time(
        "arrival",
        "How long a new connection may take for TLS and its first call.",
        "10s",
        |l, _| &mut l.arrival,
    )
    .counted(),
    time(
        "idle",
        "How long a connection may be without a call.",
        "2h",
        |l, _| &mut l.idle,
    )
    .counted(),
    time(
        "drain",
        "How long steps may still run when the server is told to end.",
        "30s",
        |l, _| &mut l.drain,
    ),
    time(
        "slow_step",
        "From which time on a step is told of in the log.",
        "60s",
        |l, _| &mut l.slow_step,
    ),
    time(
        "start",
        "How long a session waits for a task that it reaches for the first time.",
        "30s",
        |_, t| &mut t.connect,
    ),
    time(
        "silence",
        "How long a task that has work may be silent before it is taken for lost.",
        "3s",
        |_, t| &mut t.heartbeat,
    )
    .counted()
    .never_zero(),
    time(
        "absence",
        "How long a worker may be away before training goes on without it.",
        "60s",
        |_, t| &mut t.worker_rejoin,
    ),
    time(
        "outage",
        "How long synchronous training waits for lost servers to come back.",
        "300s",
        |_, t| &mut t.server_recovery,
    ),
];

#[cfg(test)]
mod tests;
