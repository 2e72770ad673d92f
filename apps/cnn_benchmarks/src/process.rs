//! The process's role: alone, a task of a cluster, or a rank of a job.

use thalweg::dist::limits::Machine;
use thalweg::dist::{ClusterSpec, Server, ServerOptions};
use thalweg::hvd::Hvd;
use thalweg::parallel::{Process, VariableUpdate};
use thalweg::prelude::*;
use thalweg::session::CpuOptions;
use thalweg_examples::output;

use crate::Result;
use crate::flags::{Device, Job};
use crate::settings::{Mode, Settings};

/// # Errors
/// An invalid cluster specification, or a server that fails to start.
pub fn process(settings: &Settings) -> Result<Process> {
    let flags = &settings.flags;
    let threads = flags.devices.num_intra_threads.unwrap_or(0);
    let session = SessionOptions::new().threads(threads);
    let session = match flags.devices.device {
        Device::Cpu => limit_memory(settings, session.cpus(settings.towers)),
        Device::Gpu => {
            let allow_tf32 = flags.extensions.allow_tf32;
            session.gpus(settings.towers).allow_tf32(allow_tf32)
        }
    };
    let kept = flags.output.max_ckpts_to_keep;
    if settings.update == VariableUpdate::Horovod {
        return Ok(Process::rank(&Hvd::init()?, session).max_to_keep(kept));
    }
    let Some(job) = settings.job() else {
        return Ok(Process::alone(session).max_to_keep(kept));
    };
    let exchange = &flags.exchange;
    let jobs = [
        ("ps", &*exchange.ps_hosts),
        ("worker", &*exchange.worker_hosts),
    ];
    let cluster = ClusterSpec::from_flags(&jobs)?;
    let options = ServerOptions::listening("")
        .session(session.clone())
        .launched(flags.extensions.protection.as_deref())?;
    let (name, what) = match job {
        Job::Ps => ("ps", "Running parameter server"),
        _ => ("worker", "Starting worker"),
    };
    let server = Server::new(cluster, name, exchange.task_index, options)?;
    if !flags.extensions.json {
        output::line(format_args!("{what} {}", exchange.task_index));
    }
    Ok(Process::of(server, session).max_to_keep(kept))
}

/// Limits the towers' memory to the machine's, in training: a model that needs more is an error before its first step,
/// and not a process that the system kills. Inference has no limit, because a limit would keep it from caching
/// transformed filters.
fn limit_memory(settings: &Settings, session: SessionOptions) -> SessionOptions {
    let bytes = usize::try_from(Machine::here().memory).unwrap_or(usize::MAX);
    match settings.mode {
        Mode::Train => session.each_cpu(CpuOptions::new().memory_limit(bytes / settings.towers)),
        _ => session,
    }
}
