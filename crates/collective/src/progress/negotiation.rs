//! Negotiation: collectives that this rank has announced, and their agreement with those of other ranks.

use std::sync::mpsc::Sender;

use serde_json::{Value, json};
use thalweg_device::{Collective, CollectiveRequest, ReduceOp, Reduction};
use thalweg_tensor::{DType, Tensor};

use super::shared::QueuedRequest;
use crate::control::{Announced, Control};
use crate::error::{CollectiveError, Result};

/// Collectives and joins that wait for other ranks.
#[derive(Default)]
pub(super) struct Negotiation {
    /// Announced collectives, in order, with their keys at the coordinator.
    announced: Vec<(String, QueuedRequest)>,
    /// Recipient of the last rank, while this rank waits until all have joined.
    joining: Option<Sender<Result<usize>>>,
}

/// Error of a rank that joins in a job whose ranks do not negotiate.
pub(super) fn not_negotiated() -> CollectiveError {
    CollectiveError::Argument(
        "the ranks of this job run the same collectives in one order, so none can join before the others: begin all of \
         them with Hvd::init_negotiated"
            .to_owned(),
    )
}

impl Negotiation {
    /// `true` if anything waits.
    pub(super) fn waits(&self) -> bool {
        !self.announced.is_empty() || self.joining.is_some()
    }

    /// Name of the collective that has waited longest.
    pub(super) fn first(&self) -> Option<&str> {
        let (_, queued) = self.announced.first()?;
        Some(&queued.request.name)
    }

    /// Tells the coordinator that this rank is ready for a collective of these ranks.
    ///
    /// # Errors
    /// The collective, and the reason why it cannot be announced.
    pub(super) fn announce(
        &mut self,
        control: &Control,
        members: &[usize],
        queued: QueuedRequest,
    ) -> std::result::Result<(), (QueuedRequest, CollectiveError)> {
        let request = &queued.request;
        let (set, name) = (request.set, &request.name);
        let key = format!("{set}/{name}");
        if self.announced.iter().any(|(k, _)| *k == key) {
            let text = format!(
                "'{name}' waits already: give collectives that run at the same time names of their own"
            );
            return Err((queued, CollectiveError::Argument(text)));
        }
        match control.announce(&key, &description(request), members) {
            Ok(()) => self.announced.push((key, queued)),
            Err(error) => return Err((queued, error)),
        }
        self.report_wait(control);
        Ok(())
    }

    /// Sets the collective in which this rank waits, for ranks that ask.
    pub(super) fn report_wait(&self, control: &Control) {
        if let Some((_, queued)) = self.announced.first() {
            control.enter(&queued.request.name, queued.queued_at);
        }
    }

    /// Tells the coordinator that this rank has no more data.
    pub(super) fn join(&mut self, control: &Control, sender: Sender<Result<usize>>) {
        if self.joining.is_some() {
            let text = "this rank joins already".to_owned();
            return drop(sender.send(Err(CollectiveError::Argument(text))));
        }
        match control.join_others() {
            Ok(()) => self.joining = Some(sender),
            Err(error) => drop(sender.send(Err(error))),
        }
    }

    /// Ends the join: all ranks have joined.
    pub(super) fn joined(&mut self, last: usize) {
        if let Some(sender) = self.joining.take() {
            let _ = sender.send(Ok(last));
        }
    }

    /// Removes the collective that this rank has announced under a key.
    pub(super) fn take(&mut self, key: &str) -> Option<QueuedRequest> {
        let at = self.announced.iter().position(|(k, _)| k == key)?;
        Some(self.announced.remove(at).1)
    }

    /// Checks that the first collective may wait any longer.
    ///
    /// # Errors
    /// The reason for which the job ended; [`CollectiveError::Late`].
    pub(super) fn may_wait(&self, control: &Control) -> Result<()> {
        let first = self.announced.first();
        first.map_or_else(
            || control.failure().map_or(Ok(()), Err),
            |(key, queued)| control.may_wait_until_ready(key, queued.queued_at.elapsed()),
        )
    }

    /// Removes and returns all that waits, which ends for this reason.
    pub(super) fn cancel(&mut self, error: &CollectiveError) -> Vec<QueuedRequest> {
        if let Some(sender) = self.joining.take() {
            let _ = sender.send(Err(error.clone()));
        }
        let all = std::mem::take(&mut self.announced);
        all.into_iter().map(|(_, queued)| queued).collect()
    }
}

/// Kind of a collective, the number of its reduction or root, and its scales.
fn kind(kind: &Collective) -> (&'static str, i64, [f64; 2]) {
    let (does, reduction) = match *kind {
        Collective::Reduce(reduction) => ("reduce", reduction),
        Collective::Scatter(reduction) => ("scatter", reduction),
        Collective::Broadcast { root } => return ("broadcast", root as i64, [1.0; 2]),
        Collective::Gather => return ("gather", 0, [1.0; 2]),
        Collective::Exchange { .. } => return ("exchange", 0, [1.0; 2]),
        Collective::Barrier => return ("barrier", 0, [1.0; 2]),
    };
    let Reduction {
        op,
        prescale,
        postscale,
    } = reduction;
    (does, op.number(), [prescale, postscale])
}

/// Description of a collective, which must be the same on all ranks. Numbers of rows that may differ are 0.
fn description(request: &CollectiveRequest) -> Value {
    let (does, number, scales) = kind(&request.kind);
    let mut dims = request.input.dims().to_vec();
    if let (Collective::Gather | Collective::Exchange { .. }, Some(rows)) =
        (&request.kind, dims.first_mut())
    {
        *rows = 0;
    }
    json!({
        "set": request.set,
        "name": request.name,
        "does": does,
        "number": number,
        // As bits: they must be the same, and JSON rounds.
        "scales": scales.map(f64::to_bits),
        "dtype": request.input.dtype().name(),
        "dims": dims,
    })
}

/// Text of a description, for the user.
fn text(of: &Value) -> String {
    let word = |key: &str| of[key].as_str().unwrap_or_default().to_owned();
    let number = of["number"].as_i64().unwrap_or_default();
    let with = match of["does"].as_str() {
        Some("reduce" | "scatter") => ReduceOp::of_number(number).map(|op| format!(" {op}")),
        Some("broadcast") => Some(format!(" from {number}")),
        _ => None,
    };
    let (name, does, dtype, dims) = (word("name"), word("does"), word("dtype"), &of["dims"]);
    let scales = of["scales"].as_array().into_iter().flatten();
    let scales: Vec<f64> = scales
        .map(|s| f64::from_bits(s.as_u64().unwrap_or_default()))
        .collect();
    let scaled = match scales.iter().any(|&s| s != 1.0) {
        true => format!(" scaled by {scales:?}"),
        false => String::new(),
    };
    format!(
        "{name} = {does}{} {dtype}{dims}{scaled}",
        with.unwrap_or_default()
    )
}

/// Description that the members of a set have announced, if all have announced the same, and it can run.
///
/// # Errors
/// [`CollectiveError::Differs`]: two ranks have announced different collectives. [`CollectiveError::Argument`]: the collective
/// needs a value of a rank that has joined.
pub(super) fn agreed(announced: &Announced) -> Result<&Value> {
    let (first, of) = &announced.first;
    if let Some((rank, other)) = &announced.differs {
        return Err(CollectiveError::Differs {
            rank: *rank,
            theirs: text(other),
            ours: format!("as rank {first} {}", text(of)),
        });
    }
    match announced.joined.first() {
        Some(rank) if needs(of, &announced.joined) => Err(CollectiveError::Argument(format!(
            "{} needs a value of rank {rank}, which has joined: sums, averages, gathers, barriers, and broadcasts from \
             ranks that have not joined do not",
            text(of)
        ))),
        _ => Ok(of),
    }
}

/// `true` if a collective has no result without values of these ranks.
fn needs(of: &Value, joined: &[usize]) -> bool {
    let number = of["number"].as_i64().unwrap_or_default();
    match of["does"].as_str() {
        Some("reduce") => !matches!(
            ReduceOp::of_number(number),
            Some(ReduceOp::Sum | ReduceOp::Average)
        ),
        Some("broadcast") => usize::try_from(number).is_ok_and(|root| joined.contains(&root)),
        Some("gather" | "barrier") => false,
        _ => true,
    }
}

/// Request of a rank that has joined: zeros, or no rows.
///
/// # Errors
/// [`CollectiveError::Argument`]: the description is malformed, or there is no memory for the zeros.
pub(super) fn zeros(of: &Value) -> Result<CollectiveRequest> {
    let made = || -> Option<(CollectiveRequest, DType, Vec<usize>)> {
        let number = of["number"].as_i64()?;
        let scale = |at: usize| Some(f64::from_bits(of["scales"][at].as_u64()?));
        let kind = match of["does"].as_str()? {
            "reduce" => Collective::Reduce(
                Reduction::of(ReduceOp::of_number(number)?).scaled(scale(0)?, scale(1)?),
            ),
            "broadcast" => Collective::Broadcast {
                root: usize::try_from(number).ok()?,
            },
            "gather" => Collective::Gather,
            "barrier" => Collective::Barrier,
            _ => return None,
        };
        let dims = of["dims"].as_array()?.iter();
        let dims: Option<Vec<usize>> = dims.map(|d| usize::try_from(d.as_u64()?).ok()).collect();
        let request = CollectiveRequest {
            name: of["name"].as_str()?.to_owned(),
            set: i32::try_from(of["set"].as_i64()?).ok()?,
            kind,
            input: Tensor::vector::<f32>(&[]),
        };
        Some((request, DType::from_name(of["dtype"].as_str()?)?, dims?))
    };
    let malformed = || {
        CollectiveError::Argument(format!(
            "other ranks run {}, which this one cannot",
            text(of)
        ))
    };
    let (mut request, dtype, dims) = made().ok_or_else(malformed)?;
    let zeros = Tensor::zeros(dtype, &dims);
    request.input = zeros.map_err(|e| CollectiveError::Argument(e.to_string()))?;
    Ok(request)
}
