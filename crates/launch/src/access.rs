//! Access to other hosts: the command that runs the launcher's agent there.

use std::process::Command;

use thalweg_launch_env::host::is_local;

/// Access to the hosts of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Remote shell. Names of this host need none.
    Ssh {
        /// Program that gets the name of a host and a line of a shell; the system's ssh if `None`.
        program: Option<String>,
    },
    /// Steps of the Slurm job in which the launcher runs: one on each host.
    Srun,
}

impl Access {
    /// `true` for a host whose tasks the launcher starts itself.
    pub fn is_local(&self, host: &str) -> bool {
        *self != Access::Srun && is_local(host)
    }

    /// Program and arguments that run a line of a shell on a host; `None` if the access runs programs only.
    pub(crate) fn shell_command(&self, host: &str, line: &str) -> Option<Vec<String>> {
        let words: &[&str] = match self {
            Access::Srun => return None,
            Access::Ssh {
                program: Some(program),
            } => &[program, host, line],
            // A question on the terminal would wait for ever, and a cut network too.
            Access::Ssh { program: None } => &[
                "ssh",
                "-o",
                "BatchMode=yes",
                "-o",
                "ServerAliveInterval=5",
                "-o",
                "ServerAliveCountMax=6",
                host,
                line,
            ],
        };
        Some(words.iter().map(|w| (*w).to_owned()).collect())
    }

    /// Program and arguments that run an agent on a host. `agent` is the path of `thalweg` there.
    pub fn command(&self, host: &str, agent: &str) -> Vec<String> {
        let line = format!("exec {} launch agent", shell_quoted(agent));
        let step = || {
            [
                // The agent takes no resource of the job from its tasks: it starts them.
                "srun",
                "--nodes=1",
                "--ntasks=1",
                &format!("--nodelist={host}"),
                "--overlap",
                "--kill-on-bad-exit=1",
                "--cpu-bind=none",
                "--quiet",
                "--job-name=thalweg-agent",
                agent,
                "launch",
                "agent",
            ]
            .map(str::to_owned)
            .to_vec()
        };
        self.shell_command(host, &line).unwrap_or_else(step)
    }
}

/// Command of these words.
pub(crate) fn command_of_words(words: &[String]) -> Command {
    let mut command = Command::new(words.first().map_or("", String::as_str));
    command.args(words.iter().skip(1));
    command
}

/// Quotes a word for a shell.
pub fn shell_quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_shell_prints_a_quoted_word_unchanged() {
        for word in [
            "",
            "a b",
            "it's",
            "$HOME `x` \\ \" ;&|",
            "'",
            "~",
            "a/b.c",
            "a=b",
            "*",
        ] {
            let line = format!("printf %s {}", shell_quoted(word));
            let printed = Command::new("sh").args(["-c", &line]).output().unwrap();
            assert_eq!(String::from_utf8(printed.stdout).unwrap(), word);
        }
    }

    #[test]
    fn names_of_this_host_need_no_ssh_but_a_step() {
        let ssh = Access::Ssh { program: None };
        assert!(ssh.is_local("localhost") && !ssh.is_local("user@localhost"));
        assert!(!Access::Srun.is_local("localhost"));
        let command = ssh.command("a", "/a b/thalweg");
        assert_eq!(command.last().unwrap(), "exec '/a b/thalweg' launch agent");
    }
}
