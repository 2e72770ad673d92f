//! Calls of a TensorFlow client: each ends in time, with a response or an error that a fault explains.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};

use super::network::{Connections, Connector, PORT};
use super::world::{TIMEOUTS, World};
use crate::tf_client::messages::master_service_client::MasterServiceClient;
use crate::transport::connections::ping::{PING_ANSWER, ping_interval};

pub(super) type Client = MasterServiceClient<Channel>;

/// Time limit of a call that has one.
const LIMIT: Duration = Duration::from_secs(2);
/// Maximum duration of a call without a time limit. An absent task is waited for (5 s), a silent one is lost after 1
/// s, for each task in turn; the end of a session waits for its steps (5 s).
const NEVER: Duration = Duration::from_secs(20);

/// Reason of a call without a response.
#[derive(Debug)]
pub(super) enum Trouble {
    /// A fault explains it.
    Fault(Code, String),
    /// No fault explains it.
    Wrong(String),
}

impl From<String> for Trouble {
    fn from(why: String) -> Trouble {
        Trouble::Wrong(why)
    }
}

pub(super) type Answer<T> = Result<T, Trouble>;

/// A client's connection to a master.
#[derive(Clone)]
pub(super) struct Calls {
    client: Client,
    connections: Arc<Connections>,
    world: Arc<World>,
    /// Name of the calling host.
    name: String,
}

impl Calls {
    /// Connects the current host, of this name, to another one.
    pub(super) fn connect(
        world: &Arc<World>,
        connections: &Arc<Connections>,
        name: &str,
        to: &str,
    ) -> Result<Calls, String> {
        let endpoint = Endpoint::from_shared(format!("http://{to}:{PORT}"));
        let endpoint = endpoint.map_err(|e| e.to_string())?;
        let endpoint = endpoint
            .http2_keep_alive_interval(ping_interval(TIMEOUTS.heartbeat))
            .keep_alive_while_idle(true)
            .keep_alive_timeout(PING_ANSWER);
        let connector = Connector {
            connections: connections.clone(),
            heartbeat: TIMEOUTS.heartbeat,
        };
        Ok(Calls {
            client: Client::new(endpoint.connect_with_connector_lazy(connector)),
            connections: connections.clone(),
            world: world.clone(),
            name: name.to_owned(),
        })
    }

    /// Closes the connection, and connects to this host.
    pub(super) fn go(&mut self, to: &str) -> Result<(), String> {
        *self = Calls::connect(&self.world, &self.connections, &self.name, to)?;
        Ok(())
    }

    /// Makes a call, with a time limit if `limited`.
    pub(super) async fn call<Q, A>(
        &self,
        what: &str,
        limited: bool,
        request: Q,
        make: impl AsyncFnOnce(&mut Client, Request<Q>) -> Result<Response<A>, Status>,
    ) -> Answer<A> {
        let mut request = Request::new(request);
        let most = match limited {
            true => {
                request.set_timeout(LIMIT);
                // The limit begins with the connection: one attempt may be in progress and fail, and then another.
                LIMIT + LIMIT / 10 + 2 * TIMEOUTS.heartbeat
            }
            false => NEVER,
        };
        let mut client = self.client.clone();
        let began = Instant::now();
        let done = tokio::time::timeout(most, make(&mut client, request)).await;
        let (name, took) = (&self.name, began.elapsed());
        let Ok(done) = done else {
            return Err(format!("{name}: {what} took {took:?}").into());
        };
        match done {
            Ok(answer) => {
                self.world.note(format!("{name}: {what}"));
                Ok(answer.into_inner())
            }
            Err(status) => {
                let (code, text) = (status.code(), status.message());
                let why = format!("{name}: {what} failed: {code:?} {text}");
                match is_explained(&status) {
                    true => {
                        self.world.note(&why);
                        Err(Trouble::Fault(code, text.to_owned()))
                    }
                    false => Err(Trouble::Wrong(format!("no fault explains that {why}"))),
                }
            }
        }
    }
}

/// `true` if a fault explains an error: of the connection, of an unreachable task, of a lost session or lost
/// variables, of an exhausted resource.
fn is_explained(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::Cancelled
        | Code::FailedPrecondition
        | Code::ResourceExhausted => true,
        Code::Unknown | Code::Internal => status.source().is_some(),
        _ => false,
    }
}

/// `true` if a failed call may still run on the server.
pub(super) fn is_lost(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::Unknown | Code::Internal)
}
