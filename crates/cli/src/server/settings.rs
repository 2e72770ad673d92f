//! What can be said to a server, by name: each is a flag, and an entry of the file of `--config`.

use thalweg_dist::limits::{SETTINGS, Setting, Unit};

/// What a value is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text, a number among them.
    Text,
    /// Said or not.
    Flag,
    /// Texts; the flag may be given several times.
    List,
}

/// One thing that can be said.
pub struct Choice {
    /// Its name; its flag has dashes for underscores.
    pub name: &'static str,
    pub kind: Kind,
    /// What stands for its value in the help.
    pub value: &'static str,
    pub meaning: &'static str,
    /// What it is where nothing is said; nothing where that is not to be said at all.
    pub default: &'static str,
    /// Where it is a number of the server's options, which says what it is by default.
    pub number: Option<&'static Setting>,
}

const fn text(
    name: &'static str,
    value: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> Choice {
    Choice {
        name,
        kind: Kind::Text,
        value,
        meaning,
        default,
        number: None,
    }
}

const fn flag(name: &'static str, meaning: &'static str) -> Choice {
    Choice {
        kind: Kind::Flag,
        ..text(name, "", "false", meaning)
    }
}

/// Those that are no numbers of the server's options.
const CHOICES: &[Choice] = &[
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
    Choice {
        kind: Kind::List,
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

/// All that can be said.
pub fn choices() -> Vec<Choice> {
    let number = |setting: &'static Setting| Choice {
        number: Some(setting),
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
    let own = CHOICES.iter().map(|c| Choice { ..*c });
    own.chain(SETTINGS.iter().map(number)).collect()
}

/// The name that is most like this one.
pub fn nearest(name: &str) -> &'static str {
    let all = choices().into_iter().map(|c| c.name);
    all.min_by_key(|known| distance(name, known))
        .unwrap_or_default()
}

/// How many letters of two words differ. Source: Levenshtein's distance.
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

/// The flag of a name.
pub fn flag_of(name: &str) -> String {
    name.replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_nearly_right_is_found() {
        assert_eq!(nearest("mesage_bytes"), "message_bytes");
        assert_eq!(nearest("worker-hosts"), "worker_hosts");
        assert_eq!(nearest("leases"), "lease");
    }

    #[test]
    fn no_name_stands_for_two_things() {
        let mut names: Vec<_> = choices().into_iter().map(|c| c.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
