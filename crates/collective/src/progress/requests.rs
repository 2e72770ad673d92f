//! Requests of tensors, run as collectives of bytes.

use std::sync::Arc;

use thalweg_device::{Collective, CollectiveRequest, Reduction};
use thalweg_tensor::{DType, Memory, Tensor, dispatch};

use crate::aligned::Aligned;
use crate::error::{CollectiveError, Result};
use crate::ranks::Ranks;

/// Runs a request; its results are allocated in `memory`.
pub(super) fn run(
    ranks: &mut Ranks,
    request: CollectiveRequest,
    memory: Option<&Arc<Memory>>,
) -> Result<Vec<Tensor>> {
    if request.input.dtype() != DType::Bool {
        return run_numbers(ranks, request, memory);
    }
    // Not every byte is a valid bool: received bytes are converted.
    let bits = request.input.as_slice::<bool>().map_err(no_memory)?;
    let bytes: Vec<u8> = bits.iter().map(|&b| u8::from(b)).collect();
    let input = Tensor::new_in(request.input.dims(), &bytes, memory).map_err(no_memory)?;
    let request = CollectiveRequest { input, ..request };
    let mut results = run_numbers(ranks, request, memory)?;
    if let Some(first) = results.first_mut() {
        let bytes = first.as_slice::<u8>().map_err(no_memory)?;
        let bits: Vec<bool> = bytes.iter().map(|&b| b != 0).collect();
        *first = Tensor::new_in(first.dims(), &bits, memory).map_err(no_memory)?;
    }
    Ok(results)
}

fn run_numbers(
    ranks: &mut Ranks,
    request: CollectiveRequest,
    memory: Option<&Arc<Memory>>,
) -> Result<Vec<Tensor>> {
    let CollectiveRequest {
        name,
        set,
        kind,
        input,
    } = request;
    let at = SetCollective {
        ranks,
        name: &name,
        set,
        memory,
    };
    match kind {
        Collective::Reduce(reduction) => at.reduce(input, reduction),
        Collective::Gather => at.gather(&input),
        Collective::Broadcast { root } => at.broadcast(input, root),
        Collective::Scatter(reduction) => at.scatter(input, reduction),
        Collective::Exchange { splits } => at.exchange(&input, &splits),
        Collective::Barrier => {
            at.ranks.barrier(set, &name)?;
            Ok(Vec::new())
        }
    }
}

/// Collective of a set of ranks.
struct SetCollective<'a> {
    ranks: &'a mut Ranks,
    name: &'a str,
    set: i32,
    memory: Option<&'a Arc<Memory>>,
}

/// All bytes of a tensor, mutable; bytes of a copy if the tensor is shared.
fn bytes_mut(tensor: &mut Tensor) -> Result<&mut [u8]> {
    let dtype = tensor.dtype();
    dispatch!(dtype, NUMBERS, T => {
        let elements = tensor.as_mut_slice::<T>().map_err(no_memory)?;
        Ok(bytemuck::cast_slice_mut(elements))
    }, else Err(CollectiveError::Undefined { op: "a collective", dtype }))
}

fn no_memory(error: thalweg_tensor::TensorError) -> CollectiveError {
    CollectiveError::Argument(error.to_string())
}

impl SetCollective<'_> {
    /// Name of the collective with all that must be the same on all ranks.
    fn full_name(&self, kind: &str, dtype: DType, dims: &[usize]) -> String {
        format!("{} = {kind} {dtype}{dims:?}", self.name)
    }

    fn zeros(&self, dtype: DType, dims: &[usize]) -> Result<Tensor> {
        match self.memory {
            Some(memory) => Tensor::zeros_in(dtype, dims, memory),
            None => Tensor::zeros(dtype, dims),
        }
        .map_err(no_memory)
    }

    /// Tensor that is not shared: this one, or a copy.
    fn own(&self, mut tensor: Tensor) -> Result<Tensor> {
        match self.memory {
            Some(memory) if !tensor.is_alone() => tensor.copied_to(memory).map_err(no_memory),
            _ => Ok(tensor),
        }
    }

    fn reduce(self, input: Tensor, reduction: Reduction) -> Result<Vec<Tensor>> {
        let dtype = input.dtype();
        let name = self.full_name(reduction.op.name(), dtype, input.dims());
        let mut value = self.own(input)?;
        let bytes = bytes_mut(&mut value)?;
        self.ranks
            .all_reduce(self.set, &name, bytes, dtype, reduction)?;
        Ok(vec![value])
    }

    fn broadcast(self, input: Tensor, root: usize) -> Result<Vec<Tensor>> {
        let kind = format!("broadcast from {root}");
        let name = self.full_name(&kind, input.dtype(), input.dims());
        let root = self.ranks.place_of(self.set, root)?;
        let mut value = self.own(input)?;
        let bytes = bytes_mut(&mut value)?;
        self.ranks.broadcast(self.set, &name, root, bytes)?;
        Ok(vec![value])
    }

    /// Gathers numbers of each rank.
    fn gather_numbers(&mut self, name: &str, own: &[u64]) -> Result<Vec<Vec<u64>>> {
        let (_, size) = self.ranks.place(self.set)?;
        let own: &[u8] = bytemuck::cast_slice(own);
        let mut all = Aligned::zeroed(own.len() * size);
        self.ranks
            .all_gather(self.set, name, own, &vec![own.len(); size], all.bytes_mut())?;
        let all: &[u64] = bytemuck::cast_slice(all.bytes());
        Ok(all
            .chunks((own.len() / 8).max(1))
            .map(<[u64]>::to_vec)
            .collect())
    }

    fn gather(mut self, input: &Tensor) -> Result<Vec<Tensor>> {
        let (dtype, dims) = (input.dtype(), input.dims());
        let (&rows, rest) = dims.split_first().ok_or_else(|| scalar(self.name))?;
        let name = self.full_name("gather", dtype, rest);
        let all = self.gather_numbers(&format!("{name}, rows"), &[rows as u64])?;
        let rows: Vec<u64> = all.iter().map(|r| r[0]).collect();
        let (total, lens) = bytes(&rows, rest, dtype)?;
        let mut dims = dims.to_vec();
        dims[0] = total;
        let mut output = self.zeros(dtype, &dims)?;
        let bytes = bytes_mut(&mut output)?;
        self.ranks
            .all_gather(self.set, &name, input.bytes(), &lens, bytes)?;
        Ok(vec![output])
    }

    fn scatter(self, input: Tensor, reduction: Reduction) -> Result<Vec<Tensor>> {
        let (dtype, mut dims) = (input.dtype(), input.dims().to_vec());
        let (&rows, rest) = dims.split_first().ok_or_else(|| scalar(self.name))?;
        let name = self.full_name(&format!("scatter {}", reduction.op.name()), dtype, &dims);
        let (place, size) = self.ranks.place(self.set)?;
        let own = |p: usize| rows / size + usize::from(p < rows % size);
        let row = rest.iter().product::<usize>() * dtype.size();
        let lens: Vec<usize> = (0..size).map(|p| own(p) * row).collect();
        let mut value = self.own(input)?;
        let bytes = bytes_mut(&mut value)?;
        self.ranks
            .reduce_scatter(self.set, &name, bytes, &lens, dtype, reduction)?;
        dims[0] = own(place);
        let begin: usize = lens[..place].iter().sum();
        let mut output = self.zeros(dtype, &dims)?;
        bytes_mut(&mut output)?.copy_from_slice(&value.bytes()[begin..begin + lens[place]]);
        Ok(vec![output])
    }

    fn exchange(mut self, input: &Tensor, splits: &[usize]) -> Result<Vec<Tensor>> {
        let (dtype, mut dims) = (input.dtype(), input.dims().to_vec());
        let (&rows, rest) = dims.split_first().ok_or_else(|| scalar(self.name))?;
        let rest = &rest.to_vec()[..];
        let name = self.full_name("exchange", dtype, rest);
        let (place, size) = self.ranks.place(self.set)?;
        let splits = &row_splits(splits, rows, size)?;
        let own: Vec<u64> = splits.iter().map(|&s| s as u64).collect();
        let all = self.gather_numbers(&format!("{name}, splits"), &own)?;
        let received: Vec<u64> = all.iter().map(|r| r[place]).collect();
        let (_, sent) = bytes(&own, rest, dtype)?;
        let (total, lens) = bytes(&received, rest, dtype)?;
        dims[0] = total;
        let mut output = self.zeros(dtype, &dims)?;
        let into = bytes_mut(&mut output)?;
        self.ranks
            .all_to_all(self.set, &name, (input.bytes(), &sent), (into, &lens))?;
        let rows: Vec<i32> = received.iter().map(|&r| r as i32).collect();
        Ok(vec![output, Tensor::from(rows)])
    }
}

fn scalar(name: &str) -> CollectiveError {
    CollectiveError::Argument(format!("{name}: a scalar has no rows"))
}

/// Rows for each of `size` ranks: those of `splits`, or equal numbers if it is empty.
fn row_splits(splits: &[usize], rows: usize, size: usize) -> Result<Vec<usize>> {
    let sum = splits.iter().try_fold(0usize, |sum, &s| sum.checked_add(s));
    match splits.is_empty() {
        true if rows.is_multiple_of(size) => Ok(vec![rows / size; size]),
        false if splits.len() == size && sum == Some(rows) => Ok(splits.to_vec()),
        _ => Err(CollectiveError::Argument(format!(
            "splits {splits:?} do not share {rows} rows among {size} ranks: give a number for each rank, whose sum is \
             {rows}"
        ))),
    }
}

/// Number of all rows, and the bytes of the rows of each rank. The numbers of rows come from other ranks, so they are checked.
fn bytes(rows: &[u64], rest: &[usize], dtype: DType) -> Result<(usize, Vec<usize>)> {
    let row = rest.iter().product::<usize>() * dtype.size();
    let bytes = |&rows: &u64| usize::try_from(rows).ok()?.checked_mul(row.max(1));
    let checked: Option<Vec<usize>> = rows.iter().map(bytes).collect();
    let total = checked.as_ref().and_then(|all| {
        let sum = all.iter().try_fold(0usize, |sum, &b| sum.checked_add(b))?;
        Some(sum / row.max(1))
    });
    let (Some(lens), Some(total)) = (checked, total) else {
        let text = format!("ranks say that they have {rows:?} rows: no memory holds them");
        return Err(CollectiveError::Argument(text));
    };
    match row {
        0 => Ok((total, vec![0; rows.len()])),
        _ => Ok((total, lens)),
    }
}
