//! Plans that are ready to run, and the keys under which a session keeps them.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;

use smallvec::SmallVec;
use thalweg_device::{Collectives, Device, KernelError, Variable};
use thalweg_graph::{Function, OutputId};
use thalweg_plan::{Fetch, Plan, SessionError};
use thalweg_tensor::{DType, Dims};

use crate::frame::Frame;

/// How long a step waits until it looks again whether another one is done.
const LOOK: Duration = Duration::from_millis(2);

/// What a plan is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) fetches: SmallVec<[Fetch; 4]>,
    pub(crate) feeds: SmallVec<[(OutputId, DType, Dims); 4]>,
    /// Whether nodes may be computed together.
    pub(crate) fuse: bool,
}

/// What a function's plan is for. What is told by its address is held, so that no other thing can
/// come to lie there.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct CallKey {
    pub(crate) function: Same<Function>,
    /// The calls that lead to it, by the names of their nodes.
    pub(crate) path: String,
    pub(crate) device: usize,
    /// As in [`Key`].
    pub(crate) fuse: bool,
    pub(crate) arguments: SmallVec<[ArgumentKey; 4]>,
}

/// What a function's plan depends on of an argument.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum ArgumentKey {
    Value(DType, Dims),
    Variable(Same<Variable>),
}

/// One thing, told from others by where it lies.
pub(crate) struct Same<T>(pub(crate) Arc<T>);

impl<T> Clone for Same<T> {
    fn clone(&self) -> Same<T> {
        Same(self.0.clone())
    }
}

impl<T> PartialEq for Same<T> {
    fn eq(&self, other: &Same<T>) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Eq for Same<T> {}

impl<T> Hash for Same<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// A plan, and the frames that its steps have left behind.
pub(crate) struct Ready {
    pub(crate) plan: Plan,
    #[allow(clippy::vec_box, reason = "frames are moved in and out by each step")]
    frames: Mutex<Vec<Box<Frame>>>,
    /// Whether a step has ended before. A plan that runs once (initializers) leaves no frame behind.
    ran: AtomicBool,
    /// Whether all ranks have said that they run the same together.
    agreed: Mutex<bool>,
}

impl Ready {
    pub(crate) fn new(plan: Plan) -> Ready {
        Ready {
            plan,
            frames: Mutex::default(),
            ran: AtomicBool::new(false),
            agreed: Mutex::default(),
        }
    }

    /// A frame for one step.
    ///
    /// # Errors
    /// [`SessionError::Memory`].
    pub(crate) fn take(
        &self,
        devices: &[Device],
        ranks: Option<&Arc<dyn Collectives>>,
    ) -> Result<Box<Frame>, SessionError> {
        let frame = self
            .frames
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        match frame {
            Some(frame) => Ok(frame),
            None => Ok(Box::new(Frame::new(&self.plan, devices, ranks)?)),
        }
    }

    /// Lets ranks agree on what they run together, once; one step at a time.
    ///
    /// # Errors
    /// What `agree` returns, and [`KernelError::Stopped`] where the step has ended meanwhile.
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
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK),
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
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        frames.clear();
    }

    /// Whether a step of this plan has ended well before.
    pub(crate) fn has_run(&self) -> bool {
        self.ran.load(Ordering::Relaxed)
    }

    /// Gives a frame back for later steps.
    pub(crate) fn give(&self, mut frame: Box<Frame>, succeeded: bool) {
        frame.clear(&self.plan);
        if !self.ran.load(Ordering::Relaxed) {
            self.ran.store(succeeded, Ordering::Relaxed);
            return;
        }
        self.frames
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(frame);
    }
}
