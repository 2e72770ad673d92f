//! Compiled steps, and the keys under which a session caches them.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use smallvec::SmallVec;
use thalweg_device::{Collectives, Device, KernelError, Variable};
use thalweg_graph::{Function, OutputId};
use thalweg_plan::{Fetch, Plan, SessionError, Store, failed};
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{DType, Dims, Memory, Reservation, Shape};

use crate::frame::Frame;

/// Time between two checks whether another step of the plan has finished agreeing.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Cache key of a plan: fetches, and the dtypes and dimensions of feeds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) fetches: SmallVec<[Fetch; 4]>,
    pub(crate) feeds: SmallVec<[(OutputId, DType, Dims); 4]>,
    /// `true` if nodes may be fused.
    pub(crate) fuse: bool,
}

/// Cache key of a function's plan. Objects compared by address are kept alive here, so that no other object can come to
/// lie there.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct CallKey {
    pub(crate) function: ByAddress<Function>,
    /// The calls that lead to it, by the names of their nodes.
    pub(crate) path: String,
    pub(crate) device: usize,
    /// As in [`Key`].
    pub(crate) fuse: bool,
    pub(crate) arguments: SmallVec<[ArgumentKey; 4]>,
    /// The numbers of the needed results; `None` for all.
    pub(crate) live: Option<SmallVec<[i64; 4]>>,
}

/// The properties of an argument that a function's plan depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum ArgumentKey {
    /// The dtype of a value, and the known part of its shape.
    Value(DType, Shape),
    /// A stack or an array that is only read, and the known part of the shape of its tensors.
    Holder(Shape),
    Variable(ByAddress<Variable>),
}

/// A shared object, compared and hashed by its address.
pub(crate) struct ByAddress<T>(pub(crate) Arc<T>);

impl<T> Clone for ByAddress<T> {
    fn clone(&self) -> ByAddress<T> {
        ByAddress(self.0.clone())
    }
}

impl<T> PartialEq for ByAddress<T> {
    fn eq(&self, other: &ByAddress<T>) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Eq for ByAddress<T> {}

impl<T> Hash for ByAddress<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// A compiled plan, with a pool of frames that earlier steps have left behind.
pub(crate) struct CompiledStep {
    pub(crate) plan: Plan,
    #[allow(clippy::vec_box, reason = "frames are moved in and out by each step")]
    frames: Mutex<Vec<Box<Frame>>>,
    /// `true` once a step has succeeded. A plan that runs once (initializers) keeps no frame.
    ran: AtomicBool,
    /// The store's number of replaced variables when the plan was last known to use none of them.
    replacements: AtomicU64,
    /// `true` once all ranks have agreed to run the same collectives.
    agreed: Mutex<bool>,
    /// Memory of the plan.
    _held: Reservation,
}

/// Reserves the memory of a plan, if plans are counted. Where there is none, `evict` drops cached plans.
///
/// # Errors
/// [`SessionError::PlanMemory`].
pub(crate) fn reserve_plan(
    memory: Option<&Arc<Memory>>,
    plan: &Plan,
    evict: impl FnOnce(),
) -> Result<Reservation, SessionError> {
    let mut held = Reservation::of(memory);
    let bytes = plan.estimated_bytes();
    if held.grow(bytes) {
        return Ok(held);
    }
    evict();
    match held.grow(bytes) {
        true => Ok(held),
        false => Err(SessionError::PlanMemory {
            bytes,
            limit: held.limit(),
        }),
    }
}

impl CompiledStep {
    /// A step of a plan whose memory [is reserved](reserve_plan).
    pub(crate) fn new(plan: Plan, held: Reservation) -> CompiledStep {
        CompiledStep {
            plan,
            replacements: AtomicU64::new(0),
            frames: Mutex::default(),
            ran: AtomicBool::new(false),
            agreed: Mutex::default(),
            _held: held,
        }
    }

    /// Checks that no variable of the plan was replaced.
    ///
    /// # Errors
    /// [`KernelError::Retired`], of the first node that uses such a variable.
    pub(crate) fn check_variables(&self, store: &Store) -> Result<(), SessionError> {
        let now = store.replacements();
        if self.replacements.load(Ordering::Acquire) == now {
            return Ok(());
        }
        for program in &self.plan.programs {
            for instruction in &program.instructions {
                let mut variables = instruction.variables.iter().flatten();
                if let Some(retired) = variables.find(|v| v.is_retired()) {
                    let variable = retired.name().to_owned();
                    let node = program.graph.node(instruction.node);
                    return Err(failed(node, KernelError::Retired { variable }));
                }
            }
        }
        self.replacements.store(now, Ordering::Release);
        Ok(())
    }

    /// Takes a frame for one step from the pool, or makes one.
    ///
    /// # Errors
    /// [`SessionError::Memory`].
    pub(crate) fn take_frame(
        &self,
        devices: &[Device],
        ranks: Option<&Arc<dyn Collectives>>,
    ) -> Result<Box<Frame>, SessionError> {
        let frame = self.frames.lock().unpoisoned().pop();
        match frame {
            Some(frame) => Ok(frame),
            None => Ok(Box::new(Frame::new(&self.plan, devices, ranks)?)),
        }
    }

    /// Runs `agree` once, one step at a time: the ranks compare the collectives that they will run.
    ///
    /// # Errors
    /// Those of `agree`, and [`KernelError::Stopped`] where the step has ended meanwhile.
    pub(crate) fn agree(
        &self,
        ended: &dyn Fn() -> bool,
        agree: impl FnOnce() -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        let mut agreed = loop {
            match self.agreed.try_lock() {
                Ok(agreed) => break agreed,
                Err(TryLockError::Poisoned(agreed)) => break agreed.into_inner(),
                // Another step of the plan asks the other ranks, which may take long.
                Err(TryLockError::WouldBlock) if ended() => return Err(KernelError::Stopped),
                Err(TryLockError::WouldBlock) => std::thread::sleep(POLL_INTERVAL),
            }
        };
        if !*agreed {
            agree()?;
            *agreed = true;
        }
        Ok(())
    }

    /// Drops the frames that no step uses.
    pub(crate) fn release(&self) {
        let mut frames = self.frames.lock().unpoisoned();
        frames.clear();
    }

    /// `true` once a step of this plan has succeeded.
    pub(crate) fn has_run(&self) -> bool {
        self.ran.load(Ordering::Relaxed)
    }

    /// Returns a frame to the pool for later steps.
    pub(crate) fn return_frame(&self, mut frame: Box<Frame>, succeeded: bool) {
        frame.clear(&self.plan);
        if !self.ran.load(Ordering::Relaxed) {
            self.ran.store(succeeded, Ordering::Relaxed);
            return;
        }
        self.frames.lock().unpoisoned().push(frame);
    }
}
