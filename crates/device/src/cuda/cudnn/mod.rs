//! Convolutions by cuDNN's graph API: it takes other zeros before an image than behind it, and all float dtypes, and
//! reports the numerical properties of each engine.

mod api;
mod operation;
mod status;

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use cudarc::cudnn::sys::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptorType_t as Kind, cudnnBackendHeurMode_t as Heuristic,
    cudnnBackendNumericalNote_t as Note,
};
use thalweg_tensor::DType;
use thalweg_tensor::sync::Unpoisoned;

pub(super) use api::CudnnApi;
use api::{Context, Descriptor};
use operation::Refusal;
use status::Status;

use super::cublaslt::CublasLtApi;
use super::driver_api::Stream;
use super::opened::OpenedLibrary;
use super::{Library, MAX_CANDIDATES};
use crate::gpu::{Address, Algorithm, Convolution, Engine, GpuError};

/// Maximum bytes of a convolution's workspace, whatever the card.
const MAX_WORKSPACE: usize = 4 << 30;

/// Share of a card's memory that the workspace of a convolution may take, as a divisor.
const WORKSPACE_SHARE: usize = 16;

/// Maximum number of engines that are tried for a convolution.
const MAX_ENGINES: usize = 64;

/// cuDNN, opened.
#[derive(Debug)]
pub(super) struct Convolutions {
    api: CudnnApi,
    /// The library's file.
    pub(super) path: PathBuf,
    /// Its version, where it reports one.
    pub(super) version: Option<u64>,
    /// The largest workspace in bytes.
    max_workspace: usize,
    /// The handle, which has one stream at a time.
    context: Mutex<Option<Context>>,
    /// The properties of the card that plans are for, where that card is not there.
    absent: Option<Arc<Descriptor>>,
}

/// A prepared convolution.
#[derive(Debug)]
pub(super) struct ConvolutionPlan {
    plan: Descriptor,
    pub(super) workspace: usize,
    pub(super) engine: Engine,
}

fn error(status: Status, detail: &str) -> GpuError {
    GpuError::Driver {
        what: "convolve by cuDNN",
        reason: format!("{status}: {detail}"),
    }
}

impl Convolutions {
    /// Opens the library for the context that the thread is in, and a card with so many bytes of memory. cuBLASLt is open.
    ///
    /// # Errors
    /// [`GpuError::Missing`], [`GpuError::Lacking`], [`GpuError::Driver`].
    pub(super) fn open(memory: usize) -> Result<Convolutions, GpuError> {
        let library = OpenedLibrary::open(Library::Cudnn)?;
        let api = CudnnApi::of(&library)?;
        let context = Context::new(&api).map_err(|s| error(s, &api.last_error()))?;
        Ok(Convolutions {
            api,
            path: library.path().to_owned(),
            version: Library::Cudnn.version_of(&library),
            max_workspace: max_workspace(memory),
            context: Mutex::new(Some(context)),
            absent: None,
        })
    }

    /// Opens the library to make plans for a card that is not there, with these properties as JSON.
    /// Such plans do not run.
    ///
    /// # Errors
    /// [`GpuError::Missing`]; [`GpuError::Driver`], where the library is older than 9.8 or the properties are incomplete.
    pub(super) fn for_absent_card(properties: &str) -> Result<Convolutions, GpuError> {
        let library = open_library()?;
        let api = CudnnApi::of(&library)?;
        let made = Descriptor::new(&api, Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)
            .and_then(|d| d.text(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, properties))
            .and_then(Descriptor::finalize);
        let absent = made.map_err(|s| error(s, &api.last_error()))?;
        let parsed: Option<serde_json::Value> = serde_json::from_str(properties).ok();
        let memory = parsed.and_then(|p| p.get("totalGlobalMem")?.as_u64());
        let memory = memory.and_then(|m| usize::try_from(m).ok());
        Ok(Convolutions {
            api,
            path: library.path().to_owned(),
            version: Library::Cudnn.version_of(&library),
            max_workspace: max_workspace(memory.unwrap_or(0)),
            context: Mutex::new(None),
            absent: Some(Arc::new(absent)),
        })
    }

    /// The properties of the card that the library was opened for, as JSON.
    ///
    /// # Errors
    /// [`GpuError::Driver`], where the library is older than 9.8.
    pub(super) fn card_properties(&self) -> Result<String, GpuError> {
        let context = self.context.lock().unpoisoned();
        let handle = context
            .as_ref()
            .map_or(std::ptr::null_mut(), Context::handle);
        let properties = Descriptor::new(&self.api, Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)
            .and_then(|d| {
                let name = Name::CUDNN_ATTR_DEVICEPROP_HANDLE;
                d.pointers(name, Type::CUDNN_TYPE_HANDLE, &[handle])
            })
            .and_then(Descriptor::finalize)
            .and_then(|d| d.read_text(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION));
        properties.map_err(|s| error(s, &self.api.last_error()))
    }

    /// Plans for a convolution, the best by the library's heuristics first; at least one, and at most
    /// [`MAX_CANDIDATES`]. Their engines are deterministic, compute in the dtype's precision, and fit into the memory.
    ///
    /// # Errors
    /// The reason that the library has none. It is no error of the program: kernels of our own compute then.
    pub(super) fn plans(
        &self,
        c: &Convolution,
        tf32: bool,
    ) -> Result<Vec<ConvolutionPlan>, Refusal> {
        let said = |status: Status| format!("{status}: {}", self.api.last_error());
        let context = self.context.lock().unpoisoned();
        let handle = context.as_ref().map(Context::handle);
        let graph =
            Arc::new(operation::graph(&self.api, c, handle)?.map_err(|s| refusal(vec![said(s)]))?);
        let mut refusals = Vec::new();
        // Without a card, engines of the second list may crash, and one plan is all that is asked for.
        let heuristics = [
            Heuristic::CUDNN_HEUR_MODE_A,
            Heuristic::CUDNN_HEUR_MODE_FALLBACK,
        ];
        let (heuristics, wanted) = match self.absent.is_some() {
            true => (&heuristics[..1], 1),
            false => (&heuristics[..], MAX_CANDIDATES),
        };
        let mut plans = Vec::new();
        for &heuristic in heuristics {
            let engines = match self.engines(&graph, heuristic) {
                Ok(engines) => engines,
                Err(status) => {
                    refusals.push(said(status));
                    continue;
                }
            };
            for config in engines {
                match self.planned(&Arc::new(config), handle, allowed(c.dtype, tf32)) {
                    Ok(Ok(plan)) => plans.push(plan),
                    Ok(Err(reason)) => refusals.push(reason),
                    // The next engine may be able to.
                    Err(status) => refusals.push(said(status)),
                }
                if plans.len() == wanted {
                    return Ok(plans);
                }
            }
        }
        match plans.is_empty() {
            true => Err(refusal(refusals)),
            false => Ok(plans),
        }
    }

    /// The engines for a graph, best first.
    fn engines(&self, graph: &Arc<Descriptor>, mode: Heuristic) -> Result<Vec<Descriptor>, Status> {
        let mut heuristic = Descriptor::new(&self.api, Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?
            .refer(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)?
            .number(
                Name::CUDNN_ATTR_ENGINEHEUR_MODE,
                Type::CUDNN_TYPE_HEUR_MODE,
                mode as i32,
            )?;
        if let Some(card) = &self.absent {
            heuristic = heuristic.refer(Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, card)?;
        }
        Arc::new(heuristic.finalize()?).descriptors(
            Name::CUDNN_ATTR_ENGINEHEUR_RESULTS,
            Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
            MAX_ENGINES,
        )
    }

    /// Returns a plan by one engine, or the reason that the engine is not used.
    fn planned(
        &self,
        config: &Arc<Descriptor>,
        handle: Option<*mut c_void>,
        allowed: impl Fn(i32) -> Result<(), &'static str>,
    ) -> Result<Result<ConvolutionPlan, String>, Status> {
        // The library reports the properties of an absent card's engine only once it has made a plan with it.
        let early = match self.absent {
            Some(_) => Some(self.finalized(config, handle)?),
            None => None,
        };
        let engine = config
            .descriptors(
                Name::CUDNN_ATTR_ENGINECFG_ENGINE,
                Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR,
                1,
            )?
            .pop();
        let Some(engine) = engine else {
            return Ok(Err("an engine that has no name".to_owned()));
        };
        let number = engine.integer(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX)?;
        let notes = engine.numbers(
            Name::CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
            Type::CUDNN_TYPE_NUMERICAL_NOTE,
        )?;
        if let Some(why) = notes.iter().find_map(|&n| allowed(n).err()) {
            return Ok(Err(format!("engine {number} {why}")));
        }
        let plan = match early {
            Some(plan) => plan,
            None => self.finalized(config, handle)?,
        };
        let workspace = plan.integer(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)?;
        let fits = usize::try_from(workspace)
            .ok()
            .filter(|&w| w <= self.max_workspace);
        let Some(workspace) = fits else {
            let bytes = format!("engine {number} works with {workspace} bytes, which is too much");
            return Ok(Err(bytes));
        };
        Ok(Ok(ConvolutionPlan {
            plan,
            workspace,
            engine: Engine {
                number,
                algorithm: algorithm(&notes),
            },
        }))
    }

    fn finalized(
        &self,
        config: &Arc<Descriptor>,
        handle: Option<*mut c_void>,
    ) -> Result<Descriptor, Status> {
        let mut plan = Descriptor::new(&self.api, Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?
            .refer(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config)?;
        if let Some(handle) = handle {
            let name = Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE;
            plan = plan.pointers(name, Type::CUDNN_TYPE_HANDLE, &[handle])?;
        }
        if let Some(card) = &self.absent {
            plan = plan.refer(Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, card)?;
        }
        plan.finalize()
    }

    /// Submits a convolution to a stream.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    ///
    /// # Safety
    /// The addresses are those of two inputs and an output as large as the convolution's, and of a workspace of its
    /// length; nothing else uses the output and the workspace until the stream has run it.
    pub(super) unsafe fn submit(
        &self,
        plan: &ConvolutionPlan,
        addresses: [Address; 3],
        workspace: Address,
        stream: Stream,
    ) -> Result<(), GpuError> {
        let context = self.context.lock().unpoisoned();
        let Some(context) = &*context else {
            return Err(GpuError::Driver {
                what: "convolve by cuDNN",
                reason: "the plan is for a card that is not there".to_owned(),
            });
        };
        let pointer = |address: Address| address as usize as *mut c_void;
        let pack = Descriptor::new(&self.api, Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
            .and_then(|d| {
                d.integers(
                    Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                    &operation::NUMBERS,
                )
            })
            .and_then(|d| {
                let name = Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS;
                d.pointers(name, Type::CUDNN_TYPE_VOID_PTR, &addresses.map(pointer))
            })
            .and_then(|d| {
                let name = Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE;
                d.pointers(name, Type::CUDNN_TYPE_VOID_PTR, &[pointer(workspace)])
            })
            .and_then(Descriptor::finalize);
        // SAFETY: by the caller's promise.
        let run = |pack| unsafe { context.execute(&plan.plan, &pack, stream) };
        pack.and_then(run)
            .map_err(|s| error(s, &self.api.last_error()))
    }
}

/// Opens cuDNN, after cuBLASLt: its engines call that one, and end the process where it is missing.
///
/// # Errors
/// [`GpuError::Missing`], [`GpuError::Lacking`].
pub(super) fn open_library() -> Result<OpenedLibrary, GpuError> {
    CublasLtApi::of(&OpenedLibrary::open(Library::CublasLt)?)?;
    OpenedLibrary::open(Library::Cudnn)
}

/// One text for the reasons why no engine is taken: each once, in the order of engines.
fn refusal(mut reasons: Vec<String>) -> Refusal {
    let mut seen = BTreeSet::new();
    reasons.retain(|reason| seen.insert(reason.clone()));
    match reasons.is_empty() {
        true => "cuDNN knows no engine for it".to_owned(),
        false => format!("cuDNN: {}", reasons.join(", ")),
    }
}

/// The largest workspace for a card with so many bytes of memory.
fn max_workspace(memory: usize) -> usize {
    (memory / WORKSPACE_SHARE).min(MAX_WORKSPACE)
}

/// Returns the algorithm of an engine with these numerical notes.
fn algorithm(notes: &[i32]) -> Algorithm {
    let has = |all: &[Note]| all.iter().any(|&n| notes.contains(&(n as i32)));
    if has(&[Note::CUDNN_NUMERICAL_NOTE_FFT]) {
        Algorithm::Fft
    } else if has(&[
        Note::CUDNN_NUMERICAL_NOTE_WINOGRAD,
        Note::CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4,
        Note::CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
        Note::CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13,
    ]) {
        Algorithm::Winograd
    } else {
        Algorithm::Direct
    }
}

/// Checks whether an engine with a numerical note may compute elements of `dtype`.
fn allowed(dtype: DType, tf32: bool) -> impl Fn(i32) -> Result<(), &'static str> {
    let exact = match dtype {
        DType::F64 => true,
        DType::F32 => !tf32,
        _ => false,
    };
    move |note| {
        const NONDETERMINISTIC: i32 = Note::CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC as i32;
        const TENSOR_CORE: i32 = Note::CUDNN_NUMERICAL_NOTE_TENSOR_CORE as i32;
        const DOWN: i32 = Note::CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS as i32;
        const REDUCED: i32 = Note::CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION as i32;
        match note {
            NONDETERMINISTIC => Err("does not give the same every time"),
            TENSOR_CORE if exact && dtype == DType::F32 => Err("computes in TF32"),
            DOWN if exact => Err("computes in a smaller dtype"),
            REDUCED => Err("adds up in a smaller dtype"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_takes_a_sixteenth_of_the_card_and_four_gigabytes_at_most() {
        assert_eq!(max_workspace(16 << 30), 1 << 30);
        assert_eq!(max_workspace(141 << 30), 4 << 30);
        assert_eq!(max_workspace(0), 0);
    }

    #[test]
    fn an_engine_that_may_be_less_exact_than_its_dtype_is_refused() {
        let notes = [
            Note::CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC,
            Note::CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
            Note::CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
            Note::CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
            Note::CUDNN_NUMERICAL_NOTE_FFT,
        ];
        let cases = [
            (DType::F16, false, [false, true, true, false, true]),
            (DType::F32, false, [false, false, false, false, true]),
            (DType::F32, true, [false, true, true, false, true]),
            (DType::F64, false, [false, true, false, false, true]),
        ];
        for (dtype, tf32, expected) in cases {
            let may = allowed(dtype, tf32);
            let found = notes.map(|note| may(note as i32).is_ok());
            assert_eq!(found, expected, "{dtype}, {tf32}");
        }
        // A note of a newer library.
        assert_eq!(allowed(DType::F32, false)(99_999), Ok(()));
    }

    #[test]
    fn the_notes_of_an_engine_tell_its_algorithm() {
        let winograd = Note::CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 as i32;
        let fft = Note::CUDNN_NUMERICAL_NOTE_FFT as i32;
        for (notes, expected) in [
            (&[][..], Algorithm::Direct),
            (&[99_999], Algorithm::Direct),
            (&[winograd], Algorithm::Winograd),
            (&[winograd, fft], Algorithm::Fft),
        ] {
            assert_eq!(algorithm(notes), expected);
        }
    }
}
