//! Checks of one host that joins a job which runs: its agent, its state, and its connection to the launcher.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use super::hosts::mistakes;
use super::network::CONNECT_TIMEOUT;
use crate::protocol::{Answer, Peer, ProbeRequest, Request};
use crate::reach::NonceSocket;
use crate::remote::AgentLink;
use crate::screen::ScreenEvent;
use crate::secret::job_secret;

/// Host that joins a job. Its agent is asked one question after another, and nothing waits for the answers.
pub(crate) struct JoiningHost {
    name: String,
    link: Arc<AgentLink>,
    question: Question,
    asked_at: Instant,
    checks: JoinChecks,
}

/// Checks of a host that joins.
pub(crate) struct JoinChecks {
    /// Question for its state.
    pub(crate) probe: ProbeRequest,
    /// Address of the launcher that it has to reach; `None` to check no connection.
    pub(crate) launcher: Option<IpAddr>,
    /// Time in which the agent greets.
    pub(crate) start_timeout: Duration,
}

/// Question that the agent has not answered yet.
enum Question {
    Greeting,
    State,
    /// It connects to this socket.
    Connection(#[expect(dead_code, reason = "it answers until it is dropped")] NonceSocket),
}

impl JoiningHost {
    /// Host whose agent was just started.
    pub(crate) fn new(name: &str, link: Arc<AgentLink>, checks: JoinChecks) -> JoiningHost {
        JoiningHost {
            name: name.to_owned(),
            link,
            question: Question::Greeting,
            asked_at: Instant::now(),
            checks,
        }
    }

    /// Connection to its agent.
    pub(crate) fn link(&self) -> &Arc<AgentLink> {
        &self.link
    }

    /// Returns `true` once all checks are done.
    ///
    /// # Errors
    /// The reason why the host cannot join: a check has failed, the agent is lost, or it does not answer in time.
    pub(crate) fn poll(&mut self, events: &SyncSender<ScreenEvent>) -> Result<bool, String> {
        let Some(answer) = self.link.poll_answer()? else {
            let timeout = match self.question {
                Question::Greeting => self.checks.start_timeout,
                Question::State => super::hosts::PROBE_TIMEOUT,
                Question::Connection(_) => 2 * CONNECT_TIMEOUT,
            };
            return match self.asked_at.elapsed() > timeout {
                true => Err(format!("it has not answered within {timeout:.0?}")),
                false => Ok(false),
            };
        };
        match (&self.question, answer) {
            (Question::Greeting, Answer::Hello { .. }) => {
                let probe = Request::Probe(self.checks.probe.clone());
                self.ask(Question::State, probe);
                Ok(false)
            }
            (Question::State, Answer::Probe(answer)) => {
                let mistakes = mistakes(&answer, &self.name, events);
                if !mistakes.is_empty() {
                    return Err(mistakes.join("; "));
                }
                match self.checks.launcher {
                    Some(own) => self.ask_to_connect(own).map(|()| false),
                    None => Ok(true),
                }
            }
            (Question::Connection(_), Answer::Connected { errors }) => {
                let own = self.checks.launcher.map(|ip| ip.to_string());
                match errors.into_iter().flatten().next() {
                    Some(reason) => Err(format!(
                        "it does not reach the launcher at {}: {reason}: give --address, the address of this host that the \
                         others reach, or open the ports",
                        own.unwrap_or_default()
                    )),
                    None => Ok(true),
                }
            }
            _ => Err("its agent answers something else".to_owned()),
        }
    }

    fn ask(&mut self, question: Question, request: Request) {
        self.question = question;
        self.asked_at = Instant::now();
        self.link.send(request);
    }

    fn ask_to_connect(&mut self, own: IpAddr) -> Result<(), String> {
        let nonce = job_secret().map_err(|e| e.to_string())?;
        let address = own.to_string();
        let socket = NonceSocket::open(&address, 0, &nonce)
            .map_err(|e| format!("this host does not listen at {own}: {e}"))?;
        let peer = Peer {
            address,
            port: socket.port(),
            nonce,
        };
        let request = Request::Connect {
            to: vec![peer],
            seconds: CONNECT_TIMEOUT.as_secs(),
        };
        self.ask(Question::Connection(socket), request);
        Ok(())
    }
}
