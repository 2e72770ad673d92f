//! Compiles a graph and a request to a plan.

mod builder;
mod emit;
mod functions;
mod gpu;
mod hosted;
mod loop_shapes;
mod partial;
mod request_graph;
mod unroll;
mod update_shapes;
mod uses;

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use thalweg_device::{Device, Variable};
use thalweg_graph::partition::{self, Partitioned, partition};
use thalweg_graph::simplify::Simplified;
use thalweg_graph::{GraphData, Node, NodeId, OutputId};

use crate::bindings::{Bindings, FindVariable};
use crate::channels_last::with_channels_last;
use crate::collectives;
use crate::deferred_products::defer_products;
use crate::error::SessionError;
use crate::options::Parallel;
use crate::order::{Accesses, order_sections};
use crate::plan::{Arrival, Channel, FetchPlan, Plan, estimated_bytes};
use crate::program::{Action, Instruction, Program};
use crate::request::{Fetch, PlanContext, Request};
use crate::task_part::TaskPart;
use builder::{Builder, Built};
use functions::{Functions, inline};
use gpu::GpuBuilder;
use loop_shapes::with_loop_shapes;
pub use partial::{client_channel, with_client_channels};
use request_graph::complete;
pub use request_graph::simplified;
use unroll::unrolled;
use uses::Uses;

/// Stands for the slot of an input that lies nowhere: a variable's handle.
pub const NO_SLOT: u32 = u32::MAX;

/// Compiles the plan of `request`.
///
/// # Errors
/// A missing feed, shapes that do not fit, a node without a kernel.
pub fn compile(
    data: &GraphData,
    request: &Request<'_>,
    context: PlanContext<'_>,
) -> Result<Plan, SessionError> {
    let simplified = simplified(data, request, context)?;
    planned(unrolled(simplified, context), false, request, context)
}

/// Compiles the plan of a part, whose nodes are in order; `devices` is by node.
///
/// # Errors
/// As [`compile`].
pub fn compile_part(
    part: &TaskPart,
    devices: Vec<u32>,
    context: PlanContext<'_>,
) -> Result<Plan, SessionError> {
    let fetches: Vec<OutputId> = part.fetches.iter().map(|(_, o)| *o).collect();
    let values: Vec<Fetch> = fetches.iter().map(|&o| Fetch::Value(o)).collect();
    let request = Request {
        feeds: &[],
        fetches: &values,
        devices: &[],
        variables: &[],
    };
    let simplified = Simplified {
        graph: part.graph.clone(),
        feeds: part.feeds.iter().map(|&(_, node)| Some(node)).collect(),
        fetches,
        targets: Vec::new(),
        devices,
    };
    planned(simplified, true, &request, context)
}

/// Compiles the plan of a step whose feeds and fetches go through channels; see [`with_client_channels`].
///
/// # Errors
/// As [`compile`].
pub fn compile_partial(
    simplified: Simplified,
    context: PlanContext<'_>,
) -> Result<Plan, SessionError> {
    let request = Request {
        feeds: &[],
        fetches: &[],
        devices: &[],
        variables: &[],
    };
    planned(
        with_client_channels(simplified, None),
        false,
        &request,
        context,
    )
}

/// Returns the nodes of a simplified graph in the order of the step; `variable` finds the variable behind a handle.
///
/// # Errors
/// A placeholder that is not fed, a cycle.
pub fn ordered(
    simplified: &Simplified,
    variable: FindVariable<'_>,
    context: PlanContext<'_>,
) -> Result<Vec<NodeId>, SessionError> {
    let graph = &simplified.graph;
    let device = |n: NodeId| simplified.devices[n.index()];
    let bindings = Bindings::with(graph, &device, &[], context.kernels, variable)?;
    complete(graph, &bindings.accesses(graph, context.kernels))
}

/// Checks that the plan of a graph is not larger than all plans may be together.
///
/// # Errors
/// [`SessionError::PlanMemory`].
fn check_size(graph: &GraphData, context: PlanContext<'_>) -> Result<(), SessionError> {
    let bytes = estimated_bytes(graph);
    match context.max_bytes {
        Some(limit) if bytes > limit => Err(SessionError::PlanMemory {
            bytes,
            limit: Some(limit),
        }),
        _ => Ok(()),
    }
}

/// Compiles a simplified graph, whose nodes may be in order already.
fn planned(
    simplified: Simplified,
    in_order: bool,
    request: &Request<'_>,
    context: PlanContext<'_>,
) -> Result<Plan, SessionError> {
    check_size(&simplified.graph, context)?;
    let simplified = with_loop_shapes(simplified, context);
    let (mut simplified, moved) = hosted::to_host(simplified, in_order, context)?;
    if context.fuse {
        simplified = with_channels_last(simplified, context);
        simplified = defer_products(simplified, context);
        simplified = crate::fusion::fused(simplified, context);
    }
    let graph = &simplified.graph;
    let device = |n: NodeId| simplified.devices[n.index()];
    let bindings = Bindings::new(graph, &device, request.variables, context)?;
    let accesses = bindings.accesses(graph, context.kernels);
    let order = match in_order {
        true => graph.ids().collect(),
        false => complete(graph, &accesses)?,
    };
    order_sections(&mut simplified.graph, &order);
    let collectives = {
        let (graph, devices) = (&mut simplified.graph, &simplified.devices);
        collectives::order_collectives(graph, (&order, devices), context)?
    };
    let first = simplified.devices.first().copied().unwrap_or(0);
    if simplified.devices.iter().all(|&d| d == first) {
        let whole = Whole {
            feeds: simplified
                .feeds
                .iter()
                .map(|f| one(f.map(|n| (0, n))))
                .collect(),
            fetches: simplified.fetches.iter().map(|&o| (0, o)).collect(),
        };
        let handles = handles(request, &simplified.fetches, &bindings);
        let on = (0, first as usize);
        let part = OrderedGraph::new(simplified.graph, order, first, request, context)?;
        // Nodes of functions have accesses of their own.
        let bound = match part.functions.is_empty() {
            true => (bindings, accesses),
            false => part.bound(first, request, context)?,
        };
        let built = program(context, on, part, bound, (&whole, &[], &[]))?;
        let segments = vec![(0, built.program.len() as u32)];
        let plan = whole.plan(request, context, smallvec![built], Vec::new(), segments);
        return Ok(Plan {
            handles,
            moved,
            collectives,
            ..plan
        });
    }
    let plan = several(simplified, &order, request, context)?;
    Ok(Plan {
        moved,
        collectives,
        ..plan
    })
}

/// Returns the variables behind the fetches that are handles, with the numbers of these.
fn handles(
    request: &Request<'_>,
    values: &[OutputId],
    bindings: &Bindings,
) -> Vec<(usize, Arc<Variable>)> {
    let fetches = request.fetches.iter().enumerate();
    let fetches = fetches.filter(|(_, f)| matches!(f, Fetch::Value(_)));
    let variable = |(number, output): (usize, &OutputId)| {
        let &variable = bindings.variable_of.get(output)?;
        Some((number, bindings.variables[variable].clone()))
    };
    let values = fetches.map(|(number, _)| number).zip(values);
    values.filter_map(variable).collect()
}

/// The nodes of one device, in the order in which they run.
struct OrderedGraph {
    graph: GraphData,
    /// Without the nodes of functions.
    order: Vec<NodeId>,
    /// On a GPU: the functions of branches and loops, whose nodes are in the graph.
    functions: Functions,
}

impl OrderedGraph {
    fn new(
        mut graph: GraphData,
        order: Vec<NodeId>,
        device: u32,
        request: &Request<'_>,
        context: PlanContext<'_>,
    ) -> Result<OrderedGraph, SessionError> {
        let bind =
            |graph: &GraphData| Bindings::new(graph, &|_| device, request.variables, context);
        let functions = match &context.devices[device as usize] {
            Device::Cpu(_) => Functions::default(),
            Device::Gpu(_) => inline(&mut graph, device, &bind, context)?,
        };
        check_size(&graph, context)?;
        Ok(OrderedGraph {
            graph,
            order,
            functions,
        })
    }

    /// Returns the variables of the nodes, and their accesses.
    fn bound(
        &self,
        device: u32,
        request: &Request<'_>,
        context: PlanContext<'_>,
    ) -> Result<(Bindings, Accesses), SessionError> {
        let bindings = Bindings::new(&self.graph, &|_| device, request.variables, context)?;
        let accesses = bindings.accesses(&self.graph, context.kernels);
        Ok((bindings, accesses))
    }
}

/// Compiles the program of one device; `on` is its number among the programs, and its device's.
fn program(
    context: PlanContext<'_>,
    on: (u32, usize),
    part: OrderedGraph,
    (bindings, accesses): (Bindings, Accesses),
    (whole, cut, parts): (&Whole, &[partition::Channel], &[u32]),
) -> Result<Built, SessionError> {
    let (number, device) = on;
    let OrderedGraph {
        graph,
        order,
        functions,
    } = part;
    let mut uses = whole.uses(number, &graph);
    match &context.devices[device] {
        Device::Cpu(_) => {
            let builder = Builder::new(context, device, bindings, accesses);
            builder.build(graph, &order, (uses, &whole.fetched(number)))
        }
        Device::Gpu(gpu) => {
            let results = functions.values().flatten().flat_map(|f| &f.results);
            results.flatten().for_each(|&result| uses.add(result));
            let on = (device, gpu);
            let builder = GpuBuilder::new(context, on, &graph, bindings, accesses, uses);
            let builder = builder.between(number, cut, parts).with(functions);
            let mut built = builder.build(&order, &whole.fetched(number))?;
            built.program.graph = graph;
            Ok(built)
        }
    }
}

/// Compiles a plan over several devices.
fn several(
    simplified: Simplified,
    order: &[NodeId],
    request: &Request<'_>,
    context: PlanContext<'_>,
) -> Result<Plan, SessionError> {
    let cut = partition(simplified.graph, order, &simplified.devices, false, &|_| {
        None
    });
    let whole = Whole {
        feeds: simplified
            .feeds
            .iter()
            .map(|f| f.map_or(SmallVec::new(), |f| cut.feed(f).into()))
            .collect(),
        fetches: simplified
            .fetches
            .iter()
            .map(|o| {
                let (part, node) = cut.node(o.node).unwrap_or((0, NodeId::INVALID));
                (part, OutputId { node, ..*o })
            })
            .collect(),
    };
    let Partitioned {
        parts,
        channels,
        segments,
        ..
    } = cut;
    let devices: SmallVec<[u32; 4]> = parts.iter().map(|p| p.device).collect();
    let mut programs: SmallVec<[Built; 1]> = SmallVec::new();
    for (number, part) in parts.into_iter().enumerate() {
        let device = part.device;
        let order: Vec<NodeId> = part.graph.ids().collect();
        let part = OrderedGraph::new(part.graph, order, device, request, context)?;
        let bound = part.bound(device, request, context)?;
        let on = (number as u32, device as usize);
        let of = (&whole, &channels[..], &devices[..]);
        programs.push(program(context, on, part, bound, of)?);
    }
    let channels = channels
        .iter()
        .map(|c| {
            let to = &programs[c.to as usize];
            Channel {
                to: c.to,
                receive: to.receive(c.recv),
                slot: to.landing(c.recv),
            }
        })
        .collect();
    let segments = segments
        .iter()
        .map(|&(p, end)| (p, programs[p as usize].instructions_before(end)))
        .collect();
    Ok(whole.plan(request, context, programs, channels, segments))
}

/// The feeds and fetches of the whole step, by program.
struct Whole {
    feeds: Vec<SmallVec<[(u32, NodeId); 2]>>,
    fetches: Vec<(u32, OutputId)>,
}

fn one(feed: Option<(u32, NodeId)>) -> SmallVec<[(u32, NodeId); 2]> {
    feed.into_iter().collect()
}

impl Whole {
    /// Counts, by node and output, the uses of a program's outputs; a fetch is a use.
    fn uses(&self, program: u32, graph: &GraphData) -> Uses {
        let mut uses = Uses::new(graph);
        for (_, node) in graph.nodes() {
            node.inputs.iter().for_each(|&i| uses.add(i));
        }
        let fetches = self.fetches.iter().filter(|(p, _)| *p == program);
        fetches.for_each(|(_, o)| uses.add(*o));
        uses
    }

    /// Returns the fetches of a program, each once.
    fn fetched(&self, program: u32) -> Vec<OutputId> {
        let own = self.fetches.iter().filter(|(p, _)| *p == program);
        let mut all: Vec<OutputId> = own.map(|(_, o)| *o).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn plan(
        self,
        request: &Request<'_>,
        context: PlanContext<'_>,
        programs: SmallVec<[Built; 1]>,
        channels: Vec<Channel>,
        segments: Vec<(u32, u32)>,
    ) -> Plan {
        let mut values = self.fetches.iter();
        let fetch = |fetch: &Fetch| match fetch {
            Fetch::Run(_) => None,
            Fetch::Value(_) => {
                let &(program, output) = values.next()?;
                let built = &programs[program as usize];
                Some(FetchPlan {
                    program,
                    slot: built.slot(output)?,
                    dims: built
                        .program
                        .graph
                        .fact(output)
                        .and_then(|f| f.shape.to_dims()),
                })
            }
        };
        let fetches = request.fetches.iter().map(fetch).collect();
        let feed = |of: &SmallVec<[(u32, NodeId); 2]>| {
            of.iter()
                .filter_map(|&(p, node)| {
                    let slot = programs[p as usize].slot(OutputId { node, index: 0 })?;
                    Some((p, slot))
                })
                .collect()
        };
        let feeds = self.feeds.iter().map(feed).collect();
        let programs: SmallVec<[Program; 1]> = programs.into_iter().map(|b| b.program).collect();
        let mut plan = Plan {
            programs,
            channels,
            segments,
            feeds,
            fetches,
            handles: Vec::new(),
            moved: Vec::new(),
            collectives: Vec::new(),
            parallel: false,
            arrivals: Vec::new(),
            waits: false,
        };
        let waits = |(_, node): (NodeId, &Arc<Node>)| node.op.effect.may_block();
        plan.arrivals = arrivals(&plan.programs);
        let blocks = plan.programs.iter().any(|p| p.graph.nodes().any(waits));
        plan.waits = blocks || !plan.arrivals.is_empty();
        plan.parallel = match context.parallel {
            Parallel::WhereWorth => plan.is_worth_threads(context.devices, context.cores),
            Parallel::Always => plan.threads(context.devices) > 1,
            Parallel::Never => false,
        };
        plan
    }
}

/// Returns the values that these programs receive from other tasks or clients.
fn arrivals(programs: &[Program]) -> Vec<Arrival> {
    let of = |(program, p): (usize, &Program)| -> Vec<Arrival> {
        let instructions = p.instructions.iter().enumerate();
        let arrival = |(at, i): (usize, &Instruction)| match i.action {
            Action::ReceiveRemote { channel } => Some(Arrival {
                program: program as u32,
                instruction: at as u32,
                channel,
            }),
            _ => None,
        };
        instructions.filter_map(arrival).collect()
    };
    programs.iter().enumerate().flat_map(of).collect()
}

#[cfg(test)]
mod tests;
