//! `thalweg notebook`: Jupyter on this host, on one that ssh reaches, or in an allocation of Slurm.

mod server;
mod tunnel;

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use clap::Args;
use thalweg_launch::{
    Access, JobExit, JobShape, LaunchError, ServiceJob, ServicePlace, ServiceStart, job_secret,
    shell_quoted, slurm_hosts,
};

use crate::failure::Failure;
use crate::launch::done;
use crate::output;
use server::JupyterKind;
use tunnel::Tunnel;

/// Ports of which the first free one is taken, if none is given.
const PORTS: std::ops::Range<u16> = 8888..8988;

/// Starts Jupyter in a folder, and prints its URL, which has a token that is drawn anew each time. It ends with this command: by
/// Ctrl-C, SIGTERM, and when the connection to its host is lost. Its kernels end with it.
///
/// It listens on the loopback of its host. For another host, the command of a tunnel is printed, to be run where the browser is.
#[derive(Args)]
pub(crate) struct Notebook {
    /// Folder of the notebooks, on the host of Jupyter. With --ssh, a relative path begins at the home folder there.
    #[arg(default_value = ".")]
    folder: String,
    /// Starts Jupyter on this host, by ssh. The program thalweg must be there, and of the same version.
    #[arg(long, value_name = "HOST", conflicts_with = "slurm")]
    ssh: Option<String>,
    /// Opens the tunnel too: the URL works on this host.
    #[arg(long, requires = "ssh")]
    tunnel: bool,
    /// Starts Jupyter on the first node of the allocation of Slurm, by srun: inside salloc, or in a script of sbatch.
    #[arg(long)]
    slurm: bool,
    /// With --slurm: name of the login node in the command of the tunnel. Without it, the host of salloc or sbatch.
    #[arg(long, value_name = "HOST", requires = "slurm")]
    login: Option<String>,
    /// With --slurm, where ssh to nodes is not allowed: Jupyter listens at the node's address, so that a tunnel to the login node
    /// suffices. The token, and what is typed, pass unencrypted between the two.
    #[arg(long, requires = "slurm")]
    node_address: bool,
    /// Port of Jupyter. Without it, the first free one from 8888 on.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Path of the program jupyter-lab, jupyter-notebook or jupyter-server. Without it, the first of the three on the PATH.
    #[arg(long, value_name = "PATH")]
    jupyter: Option<String>,
    /// Path of the program thalweg on the other host. Without it, that of this one.
    #[arg(long, value_name = "PATH")]
    agent: Option<String>,
    /// Seconds in which the other host answers.
    #[arg(long, default_value_t = 60, value_name = "SECONDS",
          value_parser = clap::value_parser!(u32).range(1..))]
    start_timeout: u32,
    /// Prints the commands, and starts nothing. The port is the first one.
    #[arg(long)]
    explain: bool,
}

impl Notebook {
    /// Runs until Jupyter ends.
    pub(crate) fn run(&self) -> Result<JobExit, Failure> {
        let get = |name: &str| std::env::var(name).ok();
        let job = self.job(&get)?;
        let tunnel = self.tunnel_of(&job, &get);
        if self.explain {
            return self.explain(&job, &tunnel);
        }
        let token = job_secret()?;
        let start = |place: &ServicePlace| {
            let kind = JupyterKind::of(&place.program);
            let own = tunnel.own_port(place.port, &free_port);
            let url = format!("http://127.0.0.1:{own}{}?token={token}", kind.page());
            let text = self.announcement(&url, &tunnel.command(own, place.port));
            output::text(&text).map_err(|e| std::io::Error::other(e.to_string()))?;
            Ok(ServiceStart {
                args: server::arguments(&job.address, place.port),
                env: vec![("JUPYTER_TOKEN".to_owned(), token.clone())],
                tunnel: match &tunnel {
                    Tunnel::Ssh { .. } if self.tunnel => tunnel.checked_command(own, place.port),
                    _ => Vec::new(),
                },
            })
        };
        job.run(&start).map_err(|error| match error {
            LaunchError::NoProgram { .. } => format!(
                "{error}: install Jupyter there (pip install jupyterlab), or name its program with --jupyter PATH"
            )
            .into(),
            error => error.into(),
        })
    }

    /// The job that runs Jupyter, whose variables `get` looks up.
    ///
    /// # Errors
    /// There is no allocation; the path of this program is unknown.
    fn job(&self, get: &dyn Fn(&str) -> Option<String>) -> Result<ServiceJob, Failure> {
        let (host, access) = match (&self.ssh, self.slurm) {
            (_, true) => {
                let nodes = slurm_hosts(get, &JobShape::Ranks(1))?;
                let node = nodes.into_iter().next().map(|node| node.name);
                (node.ok_or("the allocation has no node")?, Access::Srun)
            }
            (Some(host), false) => (host.clone(), Access::Ssh { program: None }),
            (None, false) => ("localhost".to_owned(), Access::Ssh { program: None }),
        };
        // Names that begin with a hyphen are options of ssh.
        if host.starts_with('-') {
            return Err(format!("--ssh {host}: this is no name of a host").into());
        }
        let own = std::env::current_exe()?.to_string_lossy().into_owned();
        Ok(ServiceJob {
            name: "notebook".to_owned(),
            address: match self.node_address {
                true => host.clone(),
                false => Ipv4Addr::LOCALHOST.to_string(),
            },
            agent: match (&self.agent, access.is_local(&host)) {
                (Some(agent), false) => agent.clone(),
                _ => own,
            },
            host,
            access,
            start_timeout: Duration::from_secs(self.start_timeout.into()),
            programs: match &self.jupyter {
                Some(program) => vec![program.clone()],
                None => server::PROGRAMS.map(str::to_owned).to_vec(),
            },
            folder: self.folder.clone(),
            ports: match self.port {
                Some(port) => vec![port],
                None => PORTS.collect(),
            },
        })
    }

    fn tunnel_of(&self, job: &ServiceJob, get: &dyn Fn(&str) -> Option<String>) -> Tunnel {
        match (&self.ssh, self.slurm) {
            (_, true) => {
                let submitted = || get("SLURM_SUBMIT_HOST").filter(|name| !name.is_empty());
                let login = self.login.clone().or_else(submitted);
                Tunnel::Slurm {
                    login: login.unwrap_or_else(|| "LOGIN_NODE".to_owned()),
                    node: job.host.clone(),
                    by_address: self.node_address,
                }
            }
            (Some(host), false) if !job.access.is_local(host) => Tunnel::Ssh { host: host.clone() },
            _ => Tunnel::of_connection(get("SSH_CONNECTION").as_deref()),
        }
    }

    /// Lines for the user.
    fn announcement(&self, url: &str, tunnel: &[String]) -> String {
        match (tunnel.is_empty(), self.tunnel) {
            (true, _) | (_, true) => format!("Open in a browser: {url}\n"),
            (false, false) => format!(
                "Run where the browser is:  {}\nThen open in the browser:  {url}\n",
                line(tunnel)
            ),
        }
    }

    fn explain(&self, job: &ServiceJob, tunnel: &Tunnel) -> Result<JobExit, Failure> {
        let port = job.ports[0];
        let own = tunnel.own_port(port, &|_| None);
        let agent = job.agent_command().map(|words| line(&words));
        let command = job.command(&job.programs[0], &server::arguments(&job.address, port));
        let command = format!("env JUPYTER_TOKEN=... {}", line(&command));
        let tunnel = tunnel.command(own, port);
        let tunnel = (!tunnel.is_empty()).then(|| line(&tunnel));
        let rows = [
            (format!("agent of {}", job.host), agent),
            (
                format!("folder of {}", job.host),
                Some(shell_quoted(&job.folder)),
            ),
            ("notebook".to_owned(), Some(command)),
            ("tunnel".to_owned(), tunnel),
        ];
        let rows = rows
            .into_iter()
            .filter_map(|(name, text)| Some((name, text?)));
        let text: String = rows
            .map(|(name, text)| format!("{name}: {text}\n"))
            .collect();
        output::text(&text).map(|()| done())
    }
}

/// First free port of this host from `port` on.
fn free_port(port: u16) -> Option<u16> {
    let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    (port..=u16::MAX).take(PORTS.len()).find(free)
}

/// Words as a line of a shell.
fn line(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| shell_quoted(word)).collect();
    words.join(" ")
}
