//! A TensorFlow client: makes sessions, extends them, runs steps, partial runs and callables, and disconnects at any
//! time.

mod callables;
mod leaving;
mod pieces;

use thalweg_graph::{DeviceSpec, Graph};
use thalweg_graphdef::tensor::{Budget, from_proto, to_proto};
use thalweg_graphdef::{ExportOptions, GraphDef, export};
use thalweg_ops::{NewGraph, ReduceOps, SourceOps, StateOps};
use thalweg_tensor::{DType, Tensor};

use super::calls::{Answer, Calls, Client, Trouble, is_lost};
use super::faults::SeededRandom;
use crate::tf_client::messages::*;

/// Maximum number of gradients of a client.
pub(super) const MOST: usize = 512;
/// Prefix of the names of an extension's nodes.
const LATE: &str = "late";

/// Returns the graph of a client, in two pieces: it adds numbered gradients to a variable of its own on each of the
/// `homes`, and returns the numbers.
pub(super) fn graph(client: u32, homes: &[String]) -> Result<(GraphDef, GraphDef), String> {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [MOST as i64]);
    let y = g.placeholder("y", DType::F32, []);
    let (mut value, mut adds, mut logs) = (x, Vec::new(), Vec::new());
    for (i, home) in homes.iter().enumerate() {
        let on: DeviceSpec = home.parse().map_err(|e| format!("{home}: {e}"))?;
        let name = format!("log{client}_{i}");
        let log = g.device(on, || g.variable(&name, vec![0.0f32; MOST]));
        adds.push(log.assign_add(value));
        // Through the master from one home to the next.
        value = value + log.read() - log.read();
        logs.push(log);
    }
    g.group("add", adds);
    g.group("init", g.initializers());
    let sum = x.reduce_sum(&[0], false).named("sum");
    let _ = (sum * y).named("product");
    g.name_scope(LATE, || {
        for (i, log) in logs.iter().enumerate() {
            let _ = (log.read() + 0.0).named(&format!("log{i}"));
        }
    });
    let mut first = export(&g, &ExportOptions::default()).map_err(|e| e.to_string())?;
    let late = |node: &thalweg_graphdef::messages::NodeDef| node.name.starts_with(LATE);
    let mut second = GraphDef {
        versions: first.versions.clone(),
        ..GraphDef::default()
    };
    second.node = first.node.iter().filter(|n| late(n)).cloned().collect();
    first.node.retain(|n| !late(n));
    Ok((first, second))
}

/// A session, as its client knows it.
#[derive(Default)]
pub(super) struct ClientSession {
    pub(super) handle: String,
    callable: Option<i64>,
}

/// State of a client.
pub(super) struct SimulatedClient {
    pub(super) calls: Calls,
    pub(super) numbers: SeededRandom,
    homes: usize,
    /// `true` if its masters have no other tasks. Their partial runs wait on threads of their own, which the
    /// simulation does not see.
    alone: bool,
    graph: (GraphDef, GraphDef),
    /// Number of masters, and the host of the current one.
    masters: u32,
    pub(super) master: String,
    session: Option<ClientSession>,
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

fn fed(name: &str, value: &Tensor) -> Result<NamedTensorProto, String> {
    Ok(NamedTensorProto {
        name: name.to_owned(),
        tensor: Some(to_proto(value).map_err(|e| e.to_string())?),
    })
}

fn one(id: usize) -> Tensor {
    let mut one = vec![0.0f32; MOST];
    one[id] = 1.0;
    Tensor::vector(&one)
}

fn values(tensors: &[NamedTensorProto]) -> Result<Vec<Vec<f32>>, String> {
    let all = tensors.iter().map(|t| {
        let proto = t.tensor.clone().unwrap_or_default();
        let tensor = from_proto(&proto, &mut Budget::new(1 << 20)).map_err(|e| e.to_string())?;
        let values = tensor.as_slice::<f32>().map_err(|e| e.to_string())?;
        Ok(values.to_vec())
    });
    all.collect()
}

fn is(what: &str, found: &[Vec<f32>], expected: f32) -> Answer<()> {
    match found == [[expected]] {
        true => Ok(()),
        false => Err(format!("{what} gave {found:?}, not {expected}").into()),
    }
}

impl SimulatedClient {
    pub(super) fn new(
        calls: Calls,
        numbers: SeededRandom,
        client: u32,
        (homes, masters): (&[String], u32),
    ) -> Result<SimulatedClient, String> {
        Ok(SimulatedClient {
            calls,
            numbers,
            homes: homes.len(),
            alone: masters == 1 && homes[0].starts_with("/job:worker"),
            masters,
            master: "worker0".to_owned(),
            graph: graph(client, homes)?,
            session: None,
        })
    }

    fn limited(&mut self) -> bool {
        self.numbers.below(2) == 0
    }

    /// Abandons the session and the connection, and connects to a random master.
    pub(super) fn go(&mut self) -> Result<(), String> {
        let master = self.numbers.below(u64::from(self.masters));
        self.master = format!("worker{master}");
        self.session = None;
        self.calls.go(&self.master)
    }

    /// Returns the session's handle; makes the session, in two pieces, if there is none.
    pub(super) async fn handle(&mut self) -> Answer<String> {
        if let Some(session) = &self.session {
            return Ok(session.handle.clone());
        }
        let limited = self.limited();
        let request = CreateSessionRequest {
            graph_def: Some(self.graph.0.clone()),
            ..CreateSessionRequest::default()
        };
        let made = self.calls.call(
            "CreateSession",
            limited,
            request,
            async |c: &mut Client, q| c.create_session(q).await,
        );
        let handle = made.await?.session_handle;
        let request = ExtendSessionRequest {
            session_handle: handle.clone(),
            graph_def: Some(self.graph.1.clone()),
            current_graph_version: 0,
        };
        let extended = self.calls.call(
            "ExtendSession",
            limited,
            request,
            async |c: &mut Client, q| c.extend_session(q).await,
        );
        let extended = extended.await;
        if extended.is_err() {
            self.go()?;
        }
        let version = extended?.new_graph_version;
        if version != 1 {
            return Err(format!("the graph has version {version}").into());
        }
        self.session = Some(ClientSession {
            handle: handle.clone(),
            callable: None,
        });
        Ok(handle)
    }

    /// Runs a step.
    async fn step(&mut self, request: RunStepRequest) -> Answer<RunStepResponse> {
        let what = format!("RunStep {:?} {:?}", request.target, request.fetch);
        let limited = self.limited();
        let step = self
            .calls
            .call(&what, limited, request, async |c: &mut Client, q| {
                c.run_step(q).await
            });
        step.await
    }

    /// Initializes the variables.
    pub(super) async fn init(&mut self) -> Answer<()> {
        let request = RunStepRequest {
            session_handle: self.handle().await?,
            target: owned(&["init"]),
            ..RunStepRequest::default()
        };
        self.step(request).await.map(|_| ())
    }

    /// Reads the variables.
    pub(super) async fn read(&mut self) -> Answer<Vec<Vec<f32>>> {
        let names: Vec<String> = (0..self.homes)
            .map(|i| format!("{LATE}/log{i}:0"))
            .collect();
        let request = RunStepRequest {
            session_handle: self.handle().await?,
            fetch: names,
            ..RunStepRequest::default()
        };
        Ok(values(&self.step(request).await?.tensor)?)
    }

    fn gradient(&mut self, handle: String, id: usize) -> Result<RunStepRequest, String> {
        Ok(RunStepRequest {
            session_handle: handle,
            feed: vec![
                fed("x:0", &one(id))?,
                fed("y:0", &Tensor::scalar(id as f32))?,
            ],
            fetch: owned(&["product:0"]),
            target: owned(&["add"]),
            request_id: 1 + self.numbers.below(1 << 62) as i64,
            ..RunStepRequest::default()
        })
    }

    /// Gives a gradient in a step. A request that may be lost is sometimes sent again.
    pub(super) async fn give(&mut self, id: usize) -> Answer<()> {
        let handle = self.handle().await?;
        let request = self.gradient(handle, id)?;
        let mut done = self.step(request.clone()).await;
        if let Err(Trouble::Fault(code, _)) = &done
            && is_lost(*code)
            && self.numbers.below(2) == 0
        {
            done = self.step(request).await;
        }
        is("a step", &values(&done?.tensor)?, id as f32)
    }

    /// Gives a gradient, and sends the answered request again.
    pub(super) async fn give_twice(&mut self, id: usize) -> Answer<()> {
        let handle = self.handle().await?;
        let request = self.gradient(handle, id)?;
        let done = self.step(request.clone()).await?;
        is("a step", &values(&done.tensor)?, id as f32)?;
        match self.step(request).await {
            Ok(_) => Err("a request was taken twice".to_owned().into()),
            Err(Trouble::Wrong(why)) => Err(why.into()),
            Err(Trouble::Fault(..)) => Ok(()),
        }
    }
}
