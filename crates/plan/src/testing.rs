//! Helpers of the unit tests: graphs of bare nodes, a planner over CPUs, ranks and a GPU that run nothing.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;
use thalweg_device::collectives::{Collectives, GpuCollectives, RankOf};
use thalweg_device::gpu::{
    Address, Call, Command, Driver, Function, Gpu, GpuError, Handle, ReadyCall,
};
use thalweg_device::{
    CollectiveRequest, Cpu, Device, Files, KernelError, PlannedCollective, Ticket,
};
use thalweg_graph::op::Effect;
use thalweg_graph::{
    Attrs, DeviceSpec, Fact, Graph, GraphData, Node, NodeId, OpDef, Origin, Output, OutputId,
};
use thalweg_ops::OpSet;
use thalweg_tensor::{DType, Memory, Shape, Tensor};

use crate::compile::compile;
use crate::error::SessionError;
use crate::machine::Machine;
use crate::options::{Parallel, PlanOptions};
use crate::plan::Plan;
use crate::program::Program;
use crate::request::{Fetch, PlanContext, Request};
use crate::store::SessionState;

/// An op without inputs, attributes or a kernel.
pub(crate) const fn bare_op(name: &'static str, effect: Effect) -> OpDef {
    OpDef {
        name,
        effect,
        ..OpDef::EMPTY
    }
}

/// A node of this op, whose outputs are scalars of f32.
pub(crate) fn bare_node(op: &'static OpDef, inputs: &[OutputId], controls: &[NodeId]) -> Node {
    Node {
        name: op.name.to_owned(),
        op,
        inputs: inputs.into(),
        controls: controls.into(),
        attrs: Attrs::default(),
        device: DeviceSpec::default(),
        colocation: SmallVec::new(),
        outputs: SmallVec::from_elem(Fact::new(DType::F32, Shape::scalar()), 1),
        origin: Origin::Other("a test".into()),
    }
}

/// Output 0 of a node.
pub(crate) fn first(node: NodeId) -> OutputId {
    OutputId { node, index: 0 }
}

/// Compiles steps of graphs, without fusion unless a test asks for it.
pub(crate) struct Planner {
    pub(crate) machine: Machine,
    pub(crate) options: PlanOptions,
    pub(crate) session: SessionState,
    pub(crate) separate_memory: bool,
}

impl Planner {
    pub(crate) fn on(devices: Vec<Device>) -> Planner {
        let mut machine = Machine::new(devices, &OpSet::default(), Files::none(), None);
        machine.cores = 8;
        Planner {
            machine,
            options: PlanOptions {
                soft_placement: false,
                deny_fallback: false,
                parallel: Parallel::Never,
                optimise: false,
                wire: None,
            },
            session: SessionState::default(),
            separate_memory: false,
        }
    }

    /// CPUs with this many threads each.
    pub(crate) fn cpus(threads: &[usize]) -> Planner {
        let cpu = |(i, &threads): (usize, &usize)| {
            Device::Cpu(Cpu::new(threads).named(Cpu::local(i as u32), None))
        };
        Planner::on(threads.iter().enumerate().map(cpu).collect())
    }

    /// A CPU, and a GPU as device 1.
    pub(crate) fn with_gpu() -> Planner {
        let cpu = Device::Cpu(Cpu::new(1));
        Planner::on(vec![cpu, Device::Gpu(idle_gpu())])
    }

    pub(crate) fn optimised(mut self) -> Planner {
        self.options.optimise = true;
        self
    }

    pub(crate) fn context(&self) -> PlanContext<'_> {
        PlanContext {
            separate_memory: self.separate_memory,
            ..self.machine.context(&self.session, &self.options)
        }
    }

    /// The plan that computes `fetches` on device 0.
    pub(crate) fn plan(
        &self,
        fetches: &[Output<'_>],
        feeds: &[Output<'_>],
    ) -> Result<Plan, SessionError> {
        self.plan_on(fetches, feeds, &[])
    }

    /// The plan that computes `fetches`, with these nodes on other devices than 0.
    pub(crate) fn plan_on(
        &self,
        fetches: &[Output<'_>],
        feeds: &[Output<'_>],
        elsewhere: &[(Output<'_>, u32)],
    ) -> Result<Plan, SessionError> {
        let data = fetches[0].graph().snapshot();
        let fetches: Vec<Fetch> = fetches.iter().map(|o| Fetch::Value(o.id())).collect();
        let mut devices = vec![0; data.len()];
        for (output, device) in elsewhere {
            devices[output.id().node.index()] = *device;
        }
        self.plan_of(&data, &fetches, feeds, &devices)
    }

    pub(crate) fn plan_of(
        &self,
        data: &GraphData,
        fetches: &[Fetch],
        feeds: &[Output<'_>],
        devices: &[u32],
    ) -> Result<Plan, SessionError> {
        let feeds: Vec<(OutputId, Fact)> = feeds.iter().map(|o| (o.id(), o.fact())).collect();
        let request = Request {
            feeds: &feeds,
            fetches,
            devices,
            variables: &[],
        };
        compile(data, &request, self.context())
    }
}

/// The ops of a program's instructions, in order.
pub(crate) fn ops(program: &Program) -> Vec<&'static str> {
    let instructions = program.instructions.iter();
    instructions
        .map(|i| program.graph.node(i.node).op.name)
        .collect()
}

/// A graph with every op.
pub(crate) fn graph() -> Graph {
    <Graph as thalweg_ops::NewGraph>::new()
}

/// Ranks that exchange nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdleRanks {
    pub(crate) negotiate: bool,
}

impl Collectives for IdleRanks {
    fn ranks(&self, set: i32) -> Result<RankOf, KernelError> {
        match set {
            0 => Ok(RankOf { rank: 1, size: 3 }),
            _ => Err(KernelError::Invalid(format!("there is no set {set}"))),
        }
    }

    fn run(
        &self,
        _: &Ticket,
        _: &Arc<Memory>,
        _: &mut dyn FnMut() -> Result<CollectiveRequest, KernelError>,
    ) -> Result<Option<Vec<Tensor>>, KernelError> {
        Ok(None)
    }

    fn abandon(&self, _: u64) {}

    fn agree(&self, _: &[PlannedCollective], _: &dyn Fn() -> bool) -> Result<(), KernelError> {
        Ok(())
    }

    fn negotiates(&self) -> bool {
        self.negotiate
    }

    fn for_gpus(&self) -> Option<&dyn GpuCollectives> {
        None
    }
}

/// A GPU whose driver runs nothing.
pub(crate) fn idle_gpu() -> Gpu {
    Gpu::new(Gpu::local(0), Arc::new(IdleDriver::default()), None).unwrap()
}

/// A driver that gives out addresses and handles, without libraries.
#[derive(Debug, Default)]
struct IdleDriver {
    next: AtomicU64,
}

impl IdleDriver {
    fn number(&self, by: u64) -> u64 {
        self.next.fetch_add(by, Ordering::Relaxed)
    }
}

// SAFETY: no command runs, and no address is given out twice.
unsafe impl Driver for IdleDriver {
    fn name(&self) -> String {
        "an idle card".to_owned()
    }

    fn memory(&self) -> Result<(usize, usize), GpuError> {
        Ok((1 << 30, 1 << 30))
    }

    fn queue(&self) -> Result<Handle, GpuError> {
        Ok(0)
    }

    fn drop_queue(&self, _: Handle) {}

    fn allocate(&self, bytes: usize) -> Result<Address, GpuError> {
        Ok(self.number((bytes as u64).next_multiple_of(256)))
    }

    fn free(&self, _: Address) {}

    fn allocate_host(&self, _: usize) -> Result<NonNull<u8>, GpuError> {
        Err(GpuError::NoCard)
    }

    unsafe fn free_host(&self, _: NonNull<u8>, _: usize) {}

    fn load(&self, _: &Function) -> Result<Handle, GpuError> {
        Ok(self.number(1))
    }

    fn prepare(&self, _: &Call, _: bool) -> Result<ReadyCall, String> {
        Err("there are no libraries".to_owned())
    }

    unsafe fn submit(&self, _: Handle, _: &Command) -> Result<(), GpuError> {
        Ok(())
    }

    fn wait(&self, _: Handle) -> Result<(), GpuError> {
        Ok(())
    }

    fn begin(&self, _: Handle) -> Result<(), GpuError> {
        Ok(())
    }

    fn end(&self, _: Handle) -> Result<Handle, GpuError> {
        Ok(0)
    }

    fn drop_graph(&self, _: Handle) {}
}
