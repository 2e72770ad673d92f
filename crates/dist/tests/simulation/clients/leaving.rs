//! Ends of clients' sessions: regular, repeated, and in the middle of calls.

use std::time::Duration;

use tonic::Code;

use super::{SimulatedClient, one};
use crate::simulation::calls::{Answer, Client, Trouble};
use crate::tf_client::messages::*;

impl SimulatedClient {
    async fn close_one(&mut self, handle: &str) -> Answer<CloseSessionResponse> {
        let request = CloseSessionRequest {
            session_handle: handle.to_owned(),
        };
        let limited = self.limited();
        let closed = self.calls.call(
            "CloseSession",
            limited,
            request,
            async |c: &mut Client, q| c.close_session(q).await,
        );
        closed.await
    }

    /// Closes the session twice.
    pub(in crate::simulation) async fn close_twice(&mut self) -> Answer<()> {
        let Some(session) = self.session.take() else {
            return Ok(());
        };
        let first = self.close_one(&session.handle).await;
        match (first, self.close_one(&session.handle).await) {
            (Err(Trouble::Wrong(why)), _) | (_, Err(Trouble::Wrong(why))) => Err(why.into()),
            (Ok(_), Ok(_)) => Err("a session was closed twice".to_owned().into()),
            (Ok(_), Err(Trouble::Fault(Code::FailedPrecondition, why))) => {
                Err(format!("a session that is closed: {why}").into())
            }
            _ => Ok(()),
        }
    }

    /// Disconnects in the middle of a call.
    pub(in crate::simulation) async fn leave_call(&mut self, id: usize) -> Answer<()> {
        let leaves_after = Duration::from_millis(self.numbers.below(200));
        let done = match self.numbers.below(4) {
            0 => tokio::time::timeout(leaves_after, self.give(id)).await,
            1 => tokio::time::timeout(leaves_after, self.give_in_pieces(id)).await,
            2 => tokio::time::timeout(leaves_after, self.close_twice()).await,
            _ => {
                self.close_twice().await?;
                tokio::time::timeout(leaves_after, async { self.handle().await.map(|_| ()) }).await
            }
        };
        done.unwrap_or_else(|_| Ok(self.go()?))
    }

    /// Abandons a partial run in its middle, and a callable.
    pub(in crate::simulation) async fn leave_pieces(&mut self, id: usize) -> Answer<()> {
        if self.alone {
            return Ok(self.go()?);
        }
        let step = self.begin().await?;
        if self.numbers.below(2) == 0 {
            self.piece(&step, ("x:0", &one(id)), "sum:0").await?;
        }
        Ok(())
    }

    /// Closes all sessions, and clears the containers of all tasks.
    pub(in crate::simulation) async fn reset(&mut self) -> Answer<()> {
        let limited = self.limited();
        self.session = None;
        let reset = self.calls.call(
            "Reset",
            limited,
            ResetRequest::default(),
            async |c: &mut Client, q| c.reset(q).await,
        );
        reset.await.map(|_| ())
    }

    /// Makes mistakes and expects their errors: a wrong graph version, an unknown callable.
    pub(in crate::simulation) async fn mistakes(&mut self) -> Answer<()> {
        let session_handle = self.handle().await?;
        let request = ExtendSessionRequest {
            session_handle: session_handle.clone(),
            graph_def: None,
            current_graph_version: 7,
        };
        let extended = self.calls.call(
            "ExtendSession",
            false,
            request,
            async |c: &mut Client, q| c.extend_session(q).await,
        );
        match extended.await {
            Ok(_) => return Err("a graph of another version was extended".to_owned().into()),
            Err(Trouble::Fault(Code::Aborted, why)) if why.contains("version") => {}
            Err(other) => return Err(other),
        }
        let Some(handle) = self.session.as_mut().and_then(|s| s.callable.take()) else {
            return Ok(());
        };
        let request = ReleaseCallableRequest {
            session_handle,
            handle,
        };
        let released = self.calls.call(
            "ReleaseCallable",
            false,
            request,
            async |c: &mut Client, q| c.release_callable(q).await,
        );
        released.await.map(|_| ())
    }

    /// Lists the devices of all tasks.
    pub(in crate::simulation) async fn list(&mut self) -> Answer<()> {
        let request = ListDevicesRequest::default();
        let listed = self
            .calls
            .call("ListDevices", false, request, async |c: &mut Client, q| {
                c.list_devices(q).await
            });
        match listed.await?.local_device.len() {
            1 => Ok(()),
            n => Err(format!("a task has {n} devices").into()),
        }
    }
}
