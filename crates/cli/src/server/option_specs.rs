//! Options of a server: each is a flag, and an entry of the file of `--config`.

use thalweg_dist::limits::{SETTINGS, Setting, Unit};

/// Kind of an option's value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// A text or a number.
    Text,
    /// Set or not.
    Flag,
    /// Several texts; the flag may be given several times.
    List,
}

/// One option: a flag and a config entry.
pub struct OptionSpec {
    /// Name of the entry; the flag has dashes for underscores.
    pub name: &'static str,
    pub kind: ValueKind,
    /// Placeholder of the value in the help.
    pub placeholder: &'static str,
    /// Description for the help and the config file.
    pub description: &'static str,
    /// Default value; empty if there is none to show.
    pub default: &'static str,
    /// Setting of `ServerOptions`, for an option that is one.
    pub setting: Option<&'static Setting>,
}

const fn text(
    name: &'static str,
    placeholder: &'static str,
    default: &'static str,
    description: &'static str,
) -> OptionSpec {
    OptionSpec {
        name,
        kind: ValueKind::Text,
        placeholder,
        description,
        default,
        setting: None,
    }
}

const fn flag(name: &'static str, description: &'static str) -> OptionSpec {
    OptionSpec {
        kind: ValueKind::Flag,
        ..text(name, "", "false", description)
    }
}

/// Options that are no settings of `ServerOptions`.
const OWN_SPECS: &[OptionSpec] = &[
    text(
        "listen",
        "HOST:PORT",
        "",
        "Where to listen; port 0 takes a free one. In a cluster, the task's address.",
    ),
    text("job", "NAME", "localhost", "The job of this task."),
    text("task", "N", "0", "The number of this task in its job."),
    text(
        "ps_hosts",
        "HOST:PORT,...",
        "",
        "The addresses of the parameter servers, with commas between them.",
    ),
    text(
        "worker_hosts",
        "HOST:PORT,...",
        "",
        "The addresses of the workers, with commas between them.",
    ),
    text(
        "threads",
        "N",
        "0",
        "Threads that compute; as many as the machine has where this is 0.",
    ),
    text(
        "protection",
        "DIR",
        "",
        "The folder with what protects the cluster, which `thalweg protect` makes. TensorFlow's own client cannot show it.",
    ),
    flag(
        "unprotected_network",
        "Listen beyond this machine though nothing protects the server: whoever reaches it may run graphs on it.",
    ),
    text(
        "ops",
        "FILE",
        "",
        "A file with the names of the ops that the server runs, one a line, in place of all. Constants, placeholders, identities and casts need not be named.",
    ),
    OptionSpec {
        kind: ValueKind::List,
        ..text(
            "files",
            "DIR",
            "",
            "A folder whose files graphs may read and write, such as checkpoints; may be given several times. Without it, graphs use no files.",
        )
    },
    text(
        "drain_checkpoint",
        "DIR",
        "",
        "A folder for a checkpoint of this task's variables, which is written when the server drains: DIR/JOB-TASK.index and its data.",
    ),
    text(
        "metrics",
        "HOST:PORT",
        "",
        "Where Prometheus reads the server's numbers, at /metrics over HTTP. Whoever reaches it reads them.",
    ),
    text(
        "log_level",
        "LEVEL",
        "info",
        "What the log on standard error has: off, error, warn, info, debug or trace.",
    ),
    text(
        "log_format",
        "FORMAT",
        "text",
        "How the log is written: text, or json with an object for each line.",
    ),
    flag(
        "no_shared_memory",
        "Send large values to tasks on this machine over the connection too, in place of shared memory.",
    ),
];

/// Returns all options.
pub fn option_specs() -> Vec<OptionSpec> {
    let of_setting = |setting: &'static Setting| OptionSpec {
        setting: Some(setting),
        ..text(
            setting.name,
            match setting.unit {
                Unit::Bytes => "BYTES",
                Unit::Count => "N",
                Unit::Time => "TIME",
            },
            setting.default,
            setting.meaning,
        )
    };
    let own = OWN_SPECS.iter().map(|spec| OptionSpec { ..*spec });
    own.chain(SETTINGS.iter().map(of_setting)).collect()
}

/// Returns the name of the option that is most like this one.
pub fn nearest(name: &str) -> &'static str {
    let all = option_specs().into_iter().map(|c| c.name);
    all.min_by_key(|known| distance(name, known))
        .unwrap_or_default()
}

/// Edit distance of two words (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Returns the flag of an option.
pub fn flag_of(name: &str) -> String {
    name.replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_of_a_misspelt_option_is_found() {
        assert_eq!(nearest("mesage_bytes"), "message_bytes");
        assert_eq!(nearest("worker-hosts"), "worker_hosts");
        assert_eq!(nearest("leases"), "lease");
    }

    #[test]
    fn names_of_options_are_unique() {
        let mut names: Vec<_> = option_specs().into_iter().map(|c| c.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
