//! Links over MPI. A message is a header, as over TCP, and then its bytes, in messages of MPI.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpi::collective::{CommunicatorCollectives, Root, SystemOperation};
use mpi::datatype::Equivalence;
use mpi::environment::Universe;
use mpi::point_to_point::{Destination, Source};
use mpi::request::{LocalScope, Request};
use mpi::topology::Communicator;
use mpi::{Threading, request};
use serde_json::{Value, json};
use thalweg_tensor::DType;

use super::{Incoming, Links, Outgoing, check_message};
use crate::aligned::Aligned;
use crate::control::{Control, Coordinator};
use crate::error::{CollectiveError, Result};
use crate::reduce::{Combine, Reducer};

/// Maximum bytes of a message of MPI, whose counts have 31 bits.
const MAX_MESSAGE: usize = 1 << 30;
/// MPI's tag of headers.
const HEADER_TAG: i32 = 1;
/// MPI's tag of contents.
const CONTENT_TAG: i32 = 2;
/// Bytes of the text that the first rank broadcasts.
const TEXT_BYTES: usize = 512;
/// Time for which a wait polls MPI without sleeping.
const SPIN_TIME: Duration = Duration::from_micros(200);
/// Sleep between two polls after that.
const POLL_INTERVAL: Duration = Duration::from_micros(20);

/// Rendezvous through MPI, before there are links.
pub(crate) struct MpiRendezvous {
    universe: Universe,
    pub(crate) address: SocketAddr,
    pub(crate) secret: String,
}

fn rendezvous(error: impl std::fmt::Display) -> CollectiveError {
    CollectiveError::Rendezvous(error.to_string())
}

impl MpiRendezvous {
    /// Initializes MPI. The first rank starts the coordinator, and broadcasts its address.
    ///
    /// # Errors
    /// MPI was initialized before, cannot be used by several threads, or there is no coordinator.
    pub(crate) fn begin() -> Result<(MpiRendezvous, Option<Coordinator>)> {
        let begun = mpi::initialize_with_threading(Threading::Multiple);
        let (universe, threading) = begun.ok_or_else(|| rendezvous("MPI was begun already"))?;
        if threading < Threading::Serialized {
            return Err(rendezvous("this MPI cannot be called by several threads"));
        }
        let world = universe.world();
        let mut text = [0u8; TEXT_BYTES];
        let mut coordinator = None;
        if world.rank() == 0 {
            let told = match start_coordinator(world.size() as usize) {
                Ok((started, told)) => {
                    coordinator = Some(started);
                    told
                }
                Err(e) => json!({ "error": e.to_string() }),
            };
            let told = told.to_string();
            let len = told.len().min(TEXT_BYTES);
            text[..len].copy_from_slice(&told.as_bytes()[..len]);
        }
        world.process_at_rank(0).broadcast_into(&mut text[..]);
        let end = text.iter().position(|&b| b == 0).unwrap_or(TEXT_BYTES);
        let told: Value = serde_json::from_slice(&text[..end]).map_err(rendezvous)?;
        if let Some(error) = told["error"].as_str() {
            return Err(rendezvous(error));
        }
        let address = told["address"].as_str().and_then(|a| a.parse().ok());
        let met = MpiRendezvous {
            universe,
            address: address.ok_or_else(|| rendezvous("the first rank has no address"))?,
            secret: told["secret"].as_str().unwrap_or_default().to_owned(),
        };
        Ok((met, coordinator))
    }

    /// This rank, and the number of ranks.
    pub(crate) fn place(&self) -> (usize, usize) {
        let world = self.universe.world();
        (world.rank() as usize, world.size() as usize)
    }

    /// Links over MPI.
    pub(crate) fn links(self, control: Arc<Control>) -> MpiLinks {
        MpiLinks {
            universe: self.universe,
            control,
        }
    }
}

/// Starts a coordinator; returns it with its address and secret for the other ranks.
fn start_coordinator(size: usize) -> std::io::Result<(Coordinator, Value)> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let own = (name.trim(), 0).to_socket_addrs();
    let own = own.ok().and_then(|mut all| all.find(SocketAddr::is_ipv4));
    let ip = own.map_or_else(|| [127, 0, 0, 1].into(), |a| a.ip());
    // The loopback, if the name is no address of this machine.
    let listener = TcpListener::bind((ip, 0)).or_else(|_| TcpListener::bind(("127.0.0.1", 0)))?;
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let secret: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    let coordinator = Coordinator::start_in_rank(listener, size, &secret)?;
    let told = json!({ "address": coordinator.address().to_string(), "secret": secret });
    Ok((coordinator, told))
}

/// Links of a rank that `mpirun` has started.
pub(crate) struct MpiLinks {
    /// MPI is finalized with it.
    universe: Universe,
    control: Arc<Control>,
}

impl MpiLinks {
    /// Waits for requests. If the job has ended, MPI is aborted: its requests cannot be cancelled.
    fn wait<'a, D: ?Sized>(&self, mut all: Vec<Request<'a, D, &LocalScope<'a>>>, peer: usize) {
        let began = Instant::now();
        loop {
            all = all.into_iter().filter_map(|r| r.test().err()).collect();
            if all.is_empty() {
                return;
            }
            let waited = began.elapsed();
            if waited < SPIN_TIME {
                std::thread::yield_now();
                continue;
            }
            if let Err(why) = self.control.may_wait(peer, "a message", waited) {
                let line = format!("error: {why}: MPI is aborted\n");
                let _ = std::io::stderr().write_all(line.as_bytes());
                self.universe.world().abort(1);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Sends and receives messages of MPI.
    fn transfer(
        &self,
        send: Option<(usize, &[u8])>,
        receive: Option<(usize, &mut [u8])>,
        tag: i32,
    ) {
        let world = self.universe.world();
        let to = send.map(|s| s.0);
        let peer = receive.as_ref().map(|r| r.0).or(to).unwrap_or(0);
        request::scope(|scope| {
            let mut all: Vec<Request<'_, [u8], &LocalScope<'_>>> = Vec::new();
            if let Some((from, bytes)) = receive {
                let from = world.process_at_rank(from as i32);
                let parts = bytes.chunks_mut(MAX_MESSAGE);
                all.extend(parts.map(|p| from.immediate_receive_into_with_tag(scope, p, tag)));
            }
            if let Some((to, bytes)) = send {
                let to = world.process_at_rank(to as i32);
                let parts = bytes.chunks(MAX_MESSAGE);
                all.extend(parts.map(|p| to.immediate_send_with_tag(scope, p, tag)));
            }
            self.wait(all, peer);
        });
    }

    fn reduced<T: Equivalence + Copy>(&self, data: &mut [T], op: SystemOperation) {
        let world = self.universe.world();
        for part in data.chunks_mut(MAX_MESSAGE / size_of::<T>()) {
            let own = part.to_vec();
            request::scope(|scope| {
                let request = world.immediate_all_reduce_into(scope, &own[..], part, op);
                self.wait(vec![request], 0);
            });
        }
    }
}

fn header(tag: u64, len: usize) -> [u8; 16] {
    let mut header = [0; 16];
    header[..8].copy_from_slice(&tag.to_le_bytes());
    header[8..].copy_from_slice(&(len as u64).to_le_bytes());
    header
}

impl Links for MpiLinks {
    fn rank(&self) -> usize {
        self.universe.world().rank() as usize
    }

    fn size(&self) -> usize {
        self.universe.world().size() as usize
    }

    fn exchange(
        &mut self,
        send: Option<Outgoing<'_>>,
        receive: Option<Incoming<'_>>,
    ) -> Result<()> {
        let out = send.map(|s| (s.to, header(s.tag, s.bytes.len())));
        let mut header_in = [0; 16];
        let from = receive.as_ref().map(|r| r.from);
        self.transfer(
            out.as_ref().map(|(to, header)| (*to, &header[..])),
            from.map(|from| (from, &mut header_in[..])),
            HEADER_TAG,
        );
        if let Some(r) = &receive {
            let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
            let received = (number(&header_in[..8]), number(&header_in[8..]) as usize);
            check_message(r.from, received, (r.tag, r.sink.len()))?;
        }
        let out = send.map(|s| (s.to, s.bytes));
        let Some(mut receive) = receive else {
            self.transfer(out, None, CONTENT_TAG);
            return Ok(());
        };
        if let Some(room) = receive.sink.room(0) {
            self.transfer(out, Some((receive.from, room)), CONTENT_TAG);
            return Ok(());
        }
        let mut piece = Aligned::zeroed(receive.sink.len());
        self.transfer(out, Some((receive.from, piece.bytes_mut())), CONTENT_TAG);
        receive.sink.take(0, piece.bytes());
        Ok(())
    }

    fn all_reduce(&mut self, data: &mut [u8], reducer: Reducer) -> Result<bool> {
        let (dtype, combine) = reducer.parts();
        let op = match combine {
            Combine::Sum => SystemOperation::sum(),
            Combine::Product => SystemOperation::product(),
            // MPI does not define the result for NaN.
            Combine::Min | Combine::Max => return Ok(false),
        };
        if data.is_empty() {
            return Ok(false);
        }
        match dtype {
            DType::F32 => self.reduced::<f32>(bytemuck::cast_slice_mut(data), op),
            DType::F64 => self.reduced::<f64>(bytemuck::cast_slice_mut(data), op),
            DType::I32 => self.reduced::<i32>(bytemuck::cast_slice_mut(data), op),
            DType::I64 => self.reduced::<i64>(bytemuck::cast_slice_mut(data), op),
            _ => return Ok(false),
        }
        reducer.finish(data);
        Ok(true)
    }
}
