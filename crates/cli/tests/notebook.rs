//! `thalweg notebook`: with scripts in place of Jupyter, ssh and srun. A kernel of the fake Jupyter is in a session of its own.
#![cfg(target_os = "linux")]

#[path = "../../../tests/support/slurm.rs"]
mod slurm;
mod support;
#[path = "../../../tests/support/wait.rs"]
mod wait;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use slurm::Slurm;
use support::fake_ssh::{FakeSsh, write_script};
use support::{errors, said};
use wait::until;

/// Jupyter with a kernel, which ends on SIGTERM and leaves the kernel.
const JUPYTER: &str = r#"
echo "$*" > "$T/args"
pwd > "$T/pwd"
echo "$JUPYTER_TOKEN" > "$T/token"
setsid sh -c 'sleep 300 & touch "$T/kernel"; wait' &
trap 'touch "$T/terminated"; exit 0' TERM
while :; do sleep 0.05; done
"#;

/// Folder with fake programs, which are the only ones on the PATH beside a few of the system.
struct Fakes(FakeSsh);

impl Fakes {
    /// `jupyter` is the script of a program of Jupyter with this name.
    fn new(name: &str, (program, jupyter): (&str, &str)) -> Fakes {
        let fakes = Fakes(FakeSsh::new(&format!("notebook_{name}")));
        for tool in ["cat", "setsid", "sh", "sleep", "touch"] {
            let found = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(tool));
            let found = found.iter().find(|path| path.exists()).unwrap();
            symlink(found, fakes.0.0.join(tool)).unwrap();
        }
        write_script(&fakes.0.0.join(program), jupyter);
        // The line is the last argument; a tunnel has none.
        fakes.0.script(
            r#"echo "$*" >> "$T/log"
case " $* " in *" -N "*) touch "$T/tunnel"; exec sleep 300 ;; esac
for line; do :; done
exec sh -c "$line"
"#,
        );
        let srun = r#"echo "$*" >> "$T/log"
while case $1 in --*) ;; *) false ;; esac; do shift; done
exec "$@"
"#;
        write_script(&fakes.0.0.join("srun"), srun);
        fakes
    }

    fn command(&self, options: &[&str]) -> Command {
        let marked = self.0.launcher("ssh", &[], &[]);
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        let env = marked.get_envs();
        command
            .current_dir(self.0.0.path())
            .envs(env.filter_map(|(name, value)| Some((name, value?))))
            .env("PATH", self.0.0.path())
            .env_remove("SSH_CONNECTION")
            .arg("notebook")
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, options: &[&str]) -> Output {
        self.command(options).output().unwrap()
    }

    /// Starts the notebook, and waits until the kernel runs.
    fn start(self, command: &mut Command) -> Running {
        let mut launcher = command.spawn().unwrap();
        let mut output = BufReader::new(launcher.stdout.take().unwrap());
        let mut lines = String::new();
        while !lines.contains("token=") {
            assert!(output.read_line(&mut lines).unwrap() > 0, "{lines}");
        }
        until("the kernel does not start", || self.has("kernel"));
        // Jupyter's own lines have a reader until the end.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        Running {
            fakes: self,
            launcher,
            lines,
        }
    }

    fn has(&self, file: &str) -> bool {
        self.0.0.join(file).exists()
    }

    fn text(&self, file: &str) -> String {
        fs::read_to_string(self.0.0.join(file)).unwrap()
    }
}

/// A notebook that runs.
struct Running {
    fakes: Fakes,
    launcher: Child,
    /// Lines that the launcher has printed.
    lines: String,
}

impl Running {
    fn signal(&self, name: &str) {
        let number = self.launcher.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &number]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits until no process is left. Returns the exit code and the fakes.
    #[track_caller]
    fn end(mut self) -> (Option<i32>, Fakes) {
        let status = self.launcher.wait().unwrap();
        let fakes = self.fakes;
        until("a process is left", || fakes.0.processes().is_empty());
        (status.code(), fakes)
    }

    /// Port in the URL.
    fn port(&self) -> u16 {
        let rest = self.lines.split("http://127.0.0.1:").nth(1).unwrap();
        rest.split('/').next().unwrap().parse().unwrap()
    }

    fn token(&self) -> &str {
        self.lines.split("token=").nth(1).unwrap().trim_end()
    }
}

const LAB: (&str, &str) = ("jupyter-lab", JUPYTER);

#[test]
fn jupyter_listens_on_the_loopback_with_a_token_that_no_command_line_has() {
    let fakes = Fakes::new("local", LAB);
    fs::create_dir(fakes.0.0.join("a b")).unwrap();
    let mut command = fakes.command(&["a b"]);
    let running = fakes.start(&mut command);
    let (port, token) = (running.port(), running.token().to_owned());
    assert!(
        running
            .lines
            .contains(&format!(":{port}/lab?token={token}\n"))
    );
    assert_eq!(running.fakes.text("token").trim_end(), token);
    assert_eq!(token.len(), 32, "{token}");
    let args = running.fakes.text("args");
    for arg in [
        "--ip=127.0.0.1",
        &format!("--port={port}"),
        "--port-retries=0",
    ] {
        assert!(args.contains(arg), "{args}");
    }
    assert!(running.fakes.text("pwd").ends_with("/a b\n"));
    let lines = running.fakes.0.processes();
    assert!(
        lines.iter().all(|(_, line)| !line.contains(&token)),
        "{lines:?}"
    );
    running.signal("TERM");
    let (code, fakes) = running.end();
    assert_eq!(code, Some(128 + 15));
    assert!(fakes.has("terminated"));
}

#[test]
fn no_process_outlives_a_signal_or_the_death_of_the_launcher() {
    for (signal, code) in [
        ("INT", Some(128 + 2)),
        ("HUP", Some(128 + 1)),
        ("KILL", None),
    ] {
        for options in [&[] as &[&str], &["--ssh", "a"]] {
            let fakes = Fakes::new(&format!("{signal}{}", options.len()), LAB);
            if support::ignores(1) && signal == "HUP" || support::ignores(2) && signal == "INT" {
                continue;
            }
            let mut command = fakes.command(options);
            let running = fakes.start(&mut command);
            running.signal(signal);
            assert_eq!(running.end().0, code, "{signal} {options:?}");
        }
    }
}

#[test]
fn a_jupyter_that_ignores_sigterm_is_killed() {
    let deaf = JUPYTER.replace("touch \"$T/terminated\"; exit 0", "");
    let fakes = Fakes::new("deaf", ("jupyter-lab", &deaf));
    let mut command = fakes.command(&[]);
    let running = fakes.start(&mut command);
    running.signal("TERM");
    assert_eq!(running.end().0, Some(128 + 15));
}

#[test]
fn kernels_end_with_a_jupyter_that_ends_and_its_status_is_that_of_the_command() {
    for (name, end, code) in [
        ("ends", "exit 0", 0),
        ("fails", "exit 3", 3),
        ("killed", "kill -9 $$", 137),
    ] {
        let script = r#"
            setsid sh -c 'sleep 300 & touch "$T/kernel"; wait' &
            while ! [ -e "$T/kernel" ]; do sleep 0.05; done
            "#;
        let fakes = Fakes::new(name, ("jupyter-lab", &format!("{script}{end}\n")));
        let mut command = fakes.command(&[]);
        assert_eq!(fakes.start(&mut command).end().0, Some(code), "{name}");
    }
}

#[test]
fn over_ssh_the_command_of_a_tunnel_is_printed() {
    let fakes = Fakes::new("ssh", LAB);
    let mut command = fakes.command(&["--ssh", "user@a"]);
    let running = fakes.start(&mut command);
    let args = running.fakes.text("args");
    let port = args.split("--port=").nth(1).unwrap();
    let port = port.split(' ').next().unwrap();
    let own = running.port();
    let tunnel = format!("ssh -N -L {own}:127.0.0.1:{port} user@a\n");
    assert!(running.lines.contains(&tunnel), "{}", running.lines);
    let log = running.fakes.text("log");
    assert_eq!(log.lines().count(), 1, "{log}");
    assert!(
        log.contains(" user@a exec ") && !log.contains(running.token()),
        "{log}"
    );
    running.signal("TERM");
    assert!(running.end().1.has("terminated"));
}

#[test]
fn jupyter_ends_when_the_connection_to_its_host_is_lost() {
    let fakes = Fakes::new("lost", LAB);
    let mut command = fakes.command(&["--ssh", "a"]);
    let running = fakes.start(&mut command);
    let all = running.fakes.0.processes();
    let agent = all.iter().find(|(_, line)| line.ends_with("launch agent "));
    let agent = agent.unwrap().0.to_string();
    assert!(
        Command::new("kill")
            .args(["-9", &agent])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(running.end().0, Some(255));
}

#[test]
fn a_tunnel_that_is_opened_ends_with_the_notebook() {
    let fakes = Fakes::new("tunnel", LAB);
    let mut command = fakes.command(&["--ssh", "a", "--tunnel"]);
    let running = fakes.start(&mut command);
    until("the tunnel does not start", || running.fakes.has("tunnel"));
    assert!(
        running
            .lines
            .starts_with("Open in a browser: http://127.0.0.1:")
    );
    let log = running.fakes.text("log");
    assert!(
        log.contains(&format!("-N -L {}:127.0.0.1:", running.port())),
        "{log}"
    );
    running.signal("TERM");
    assert_eq!(running.end().0, Some(128 + 15));
}

#[test]
fn in_slurm_jupyter_runs_on_the_first_node_and_the_tunnel_leads_over_the_login_node() {
    let fakes = Fakes::new("slurm", LAB);
    let mut command = fakes.command(&["--slurm"]);
    command
        .env("SLURM_JOB_NODELIST", "nid[07-09]")
        .env("SLURM_SUBMIT_HOST", "login1");
    let running = fakes.start(&mut command);
    let log = running.fakes.text("log");
    assert!(log.contains("--nodelist=nid07 "), "{log}");
    let tunnel = format!("-L {0}:127.0.0.1:{0} -J login1 nid07\n", running.port());
    assert!(running.lines.contains(&tunnel), "{}", running.lines);
    running.signal("KILL");
    running.end();
}

#[test]
fn an_explanation_has_the_commands_and_starts_nothing() {
    let fakes = Fakes::new("explain", LAB);
    let explained = |options: &[&str]| {
        let mut command = fakes.command(&[options, &["--explain", "--port", "8888"]].concat());
        command.env("SLURM_JOB_NODELIST", "nid[07-09]");
        said(&command.output().unwrap())
    };
    let text = explained(&["--slurm", "--login", "login1", "--node-address", "nb"]);
    for line in [
        "folder of nid07: nb\n",
        " launch guard -- jupyter-lab --no-browser --ip=nid07 --port=8888 ",
        "tunnel: ssh -N -L 8888:nid07:8888 login1\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let text = explained(&["--ssh", "a", "--agent", "/opt/thalweg"]);
    assert!(
        text.contains("notebook: env JUPYTER_TOKEN=... /opt/thalweg launch guard -- "),
        "{text}"
    );
    assert!(
        text.contains(" a 'exec /opt/thalweg launch agent'\n"),
        "{text}"
    );
    for here in [&[] as &[&str], &["--ssh", "localhost", "--tunnel"]] {
        let text = explained(here);
        assert!(
            !text.contains("tunnel") && !text.contains("agent"),
            "{text}"
        );
    }
    assert!(!fakes.has("log") && !fakes.has("args"));
}

#[test]
fn the_first_program_of_jupyter_on_the_path_is_taken() {
    for (program, page) in [("jupyter-notebook", "/tree?"), ("jupyter-server", "/?")] {
        let fakes = Fakes::new(program, (program, JUPYTER));
        let mut command = fakes.command(&[]);
        let running = fakes.start(&mut command);
        assert!(running.lines.contains(page), "{}", running.lines);
        running.signal("TERM");
        running.end();
    }
}

#[test]
fn mistakes_are_named_before_anything_is_printed() {
    let fakes = Fakes::new("mistakes", LAB);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let missing = "pip install jupyterlab";
    for (options, text) in [
        (&["--jupyter", "no-such-jupyter"] as &[&str], missing),
        (&["--ssh", "a", "--jupyter", "no-such-jupyter"], missing),
        (&["nowhere"], "there is no folder nowhere"),
        (
            &["--ssh", "a", "nowhere"],
            "the host 'a': there is no folder nowhere",
        ),
        (&["--port", &port], "is in use: give another one"),
        (
            &["--ssh", "a", "--port", &port],
            "of the host 'a' is in use",
        ),
        (&["--slurm"], "run this inside an allocation"),
        (&["--ssh=-oProxyCommand=x"], "this is no name of a host"),
        (
            &["--ssh", "a", "--agent", "/no/thalweg"],
            "the host 'a' is not reached",
        ),
    ] {
        let mut command = fakes.command(options);
        let done = command.env_remove("SLURM_JOB_NODELIST").output().unwrap();
        assert_eq!(done.status.code(), Some(1), "{options:?}");
        assert_eq!(String::from_utf8_lossy(&done.stdout), "", "{options:?}");
        let told = errors(&done);
        assert!(told.contains(text), "{options:?}: {told}");
    }
    let told = errors(&fakes.run(&["--tunnel"]));
    assert!(told.contains("--ssh"), "{told}");
    until("a process is left", || fakes.0.processes().is_empty());
}

#[test]
fn a_real_slurm_runs_jupyter_on_the_first_node_and_leaves_no_kernel() {
    let Some(slurm) = Slurm::start("notebook", 2) else {
        return;
    };
    let script = r#"
        echo "$SLURMD_NODENAME $JUPYTER_TOKEN" > "$T/place"
        setsid sh -c 'sleep 300 & touch "$T/kernel"; wait' &
        while ! [ -e "$T/kernel" ]; do sleep 0.05; done
        exit 3
        "#;
    let fakes = Fakes::new("real_slurm", ("jupyter-lab", script));
    let jupyter = fakes.0.0.at("jupyter-lab");
    let marked = fakes.0.launcher("slurm", &[], &[]);
    let env = marked.get_envs();
    let mut command = slurm.command("timeout");
    command
        .envs(env.filter_map(|(name, value)| Some((name, value?))))
        .current_dir(fakes.0.0.path())
        .args(["60", "salloc", "-N2", "-Q", env!("CARGO_BIN_EXE_thalweg")])
        .args(["notebook", "--slurm", "--jupyter", &jupyter]);
    let done = command.output().unwrap();
    assert_eq!(done.status.code(), Some(3), "{done:?}");
    let place = fakes.text("place");
    let (node, token) = place.trim_end().split_once(' ').unwrap();
    assert_eq!(node, "node1");
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(text.contains(&format!("token={token}\n")), "{text}");
    assert!(text.contains(" node1\n"), "{text}");
    until("a process is left", || fakes.0.processes().is_empty());
}
