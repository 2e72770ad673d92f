//! State of all hosts: agents, programs, disks, clocks and ports.

use std::net::IpAddr;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::ask::Asker;
use crate::error::Result;
use crate::layout::HostResources;
use crate::probe::probe;
use crate::protocol::{Answer, ProbeAnswer, ProbeRequest, Request};
use crate::screen::{ScreenEvent, show};

/// Difference of two clocks that is shown.
const NOTED_DIFFERENCE: Duration = Duration::from_secs(1);
/// Difference of two clocks with which certificates fail.
const MAX_DIFFERENCE: Duration = Duration::from_secs(60);
/// Time in which a host tells its state.
pub(super) const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// State of a host.
pub(crate) struct HostState {
    pub(crate) resources: HostResources,
    /// Address from which the launcher is reached.
    pub(crate) own_address: Option<IpAddr>,
}

/// Waits until all agents have answered.
///
/// # Errors
/// Some have not; the error names each of them, and why.
pub(crate) fn greet(asker: &mut Asker<'_>, timeout: Duration) -> Result<()> {
    let answered = asker.answers(timeout, &|_| None)?;
    let wrong =
        |answer: &Option<Answer>| matches!(answer, Some(a) if !matches!(a, Answer::Hello { .. }));
    match answered.iter().any(wrong) {
        true => Err("an agent does not greet its launcher".into()),
        false => Ok(()),
    }
}

/// Asks all hosts for their state. `request` gives the question for each.
///
/// # Errors
/// A host has no such program or folder, its disk is full, or its clock is wrong. All are named.
pub(crate) fn probe_hosts(
    asker: &mut Asker<'_>,
    request: &dyn Fn(usize) -> ProbeRequest,
) -> Result<Vec<HostState>> {
    asker.send(&|host| Request::Probe(request(host)));
    let local = |host| Some(Answer::Probe(probe(&request(host))));
    let answers = asker.answers(PROBE_TIMEOUT, &local)?;
    let mut errors = Vec::new();
    let mut states = Vec::new();
    for (host, answer) in asker.hosts().iter().zip(answers) {
        let Some(Answer::Probe(answer)) = answer else {
            errors.push(format!("the host '{}' does not tell its state", host.name));
            continue;
        };
        let mistakes = mistakes(&answer, &host.name, asker.events()).into_iter();
        errors.extend(mistakes.map(|e| format!("the host '{}': {e}", host.name)));
        states.push(HostState {
            own_address: answer.own_address,
            resources: HostResources {
                taken_ports: answer.taken_ports.into_iter().collect(),
                gpus: answer.gpus,
                cores: answer.cores,
            },
        });
    }
    match errors.is_empty() {
        true => Ok(states),
        false => Err(errors.join("\n").into()),
    }
}

/// Mistakes that keep a host from running tasks. A clock that differs a little is shown.
pub(super) fn mistakes(
    answer: &ProbeAnswer,
    host: &str,
    events: &SyncSender<ScreenEvent>,
) -> Vec<String> {
    let mut all = answer.errors.clone();
    match clock_difference(answer) {
        difference if difference > MAX_DIFFERENCE => all.push(format!(
            "its clock differs by {} s from that of this host: set it (NTP)",
            difference.as_secs()
        )),
        difference if difference > NOTED_DIFFERENCE => {
            let seconds = difference.as_secs_f64();
            let line =
                format!("the clock of '{host}' differs by {seconds:.1} s from that of this host");
            show(ScreenEvent::Note(line), events);
        }
        _ => {}
    }
    all
}

/// Difference between the clock of a host that has just answered and that of this one.
fn clock_difference(answer: &ProbeAnswer) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let own = now.map_or(0, |now| now.as_millis() as u64);
    Duration::from_millis(own.abs_diff(answer.clock))
}
