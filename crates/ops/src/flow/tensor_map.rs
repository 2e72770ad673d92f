//! EmptyTensorMap, TensorMapSize, TensorMapInsert, TensorMapLookup, TensorMapErase, TensorMapHasKey, TensorMapStackKeys.
//! A map is immutable: each op returns a new one.

use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Arg, AttrDef, Gradient, arg, arg_of, type_attr};
use thalweg_tensor::{DType, Memory, Nesting, Reservation, Shape, Tensor};

use super::rows::stacked;
use crate::support::shapes::scalar;
use crate::support::tensors::reserved;

/// Maximum number of entries of one map: an op copies all entries.
const MAX_ENTRIES: usize = 1 << 20;
/// Bytes of an entry beside those of its key.
const ENTRY_BYTES: usize = 2 * size_of::<Tensor>() + 64;

/// Tensors by keys, which are tensors too. Keys are equal if they have one dtype, one shape and the same bytes.
#[derive(Clone, Default)]
struct Entries(BTreeMap<Arc<[u8]>, (Tensor, Tensor)>);

/// A map as a value.
pub(super) struct TensorMap {
    entries: Entries,
    memory: Arc<Memory>,
    _held: Reservation,
}

/// The bytes that tell keys apart.
fn key_bytes(cx: &TensorCx<'_>, key: &Tensor) -> Result<Arc<[u8]>, KernelError> {
    let name = key.dtype().to_string();
    let _held = reserved(key.byte_size().saturating_mul(2), Some(cx.memory()))?;
    let mut bytes = Vec::with_capacity(name.len() + 8 * (key.dims().len() + 2) + key.byte_size());
    let mut sized = |part: &[u8]| {
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend(part);
    };
    sized(name.as_bytes());
    let dims = key.dims().iter().map(|&size| size as u64);
    sized(&dims.flat_map(u64::to_le_bytes).collect::<Vec<_>>());
    match key.dtype() {
        DType::String => key.as_strings()?.iter().for_each(&mut sized),
        dtype if dtype.is_handle() => {
            return Err(invalid(format!(
                "keys of a map are numbers or strings, not {dtype}"
            )));
        }
        _ => sized(key.bytes()),
    }
    Ok(bytes.into())
}

fn invalid(why: impl Into<String>) -> KernelError {
    KernelError::Invalid(why.into())
}

impl Entries {
    /// The entries as a variant, which count against a memory.
    fn value(self, memory: &Arc<Memory>) -> Result<Tensor, KernelError> {
        if self.0.len() > MAX_ENTRIES {
            return Err(invalid(format!("a map has at most {MAX_ENTRIES} entries")));
        }
        let bytes = self.0.keys().map(|key| key.len() + ENTRY_BYTES);
        let held = reserved(bytes.fold(0, usize::saturating_add), Some(memory))?;
        let mut nesting = Nesting::default();
        for (key, value) in self.0.values() {
            nesting.add(key)?;
            nesting.add(value)?;
        }
        let map = TensorMap {
            entries: self,
            memory: memory.clone(),
            _held: held,
        };
        Ok(Tensor::variant(Arc::new(map), nesting)?)
    }
}

impl TensorMap {
    /// A map without entries.
    pub(super) fn empty(memory: &Arc<Memory>) -> Result<Tensor, KernelError> {
        Entries::default().value(memory)
    }

    /// The entries of both maps; values of a key in both are combined by `f`.
    pub(super) fn merge(
        &self,
        other: &TensorMap,
        mut f: impl FnMut(&Tensor, &Tensor) -> Result<Tensor, KernelError>,
    ) -> Result<Tensor, KernelError> {
        let mut entries = self.entries.clone();
        for (key, (tensor, value)) in &other.entries.0 {
            let value = match entries.0.get(key) {
                Some((_, own)) => f(own, value)?,
                None => value.clone(),
            };
            entries.0.insert(key.clone(), (tensor.clone(), value));
        }
        entries.value(&self.memory)
    }
}

/// The map at the first input.
fn map(cx: &TensorCx<'_>) -> Result<Arc<TensorMap>, KernelError> {
    cx.object::<TensorMap>(0)
}

const MAP: Arg = arg_of("input_handle", DType::Variant);
const OUTPUT: Arg = arg_of("output_handle", DType::Variant);
const KEY: Arg = arg("key", "key_dtype");
const KEY_DTYPE: AttrDef = type_attr("key_dtype", &DType::ALL);
const VALUE_DTYPE: AttrDef = type_attr("value_dtype", &DType::ALL);
const MAP_OP: OpDef = OpDef {
    gradient: Gradient::Missing,
    ..OpDef::EMPTY
};

/// A map without entries.
pub(crate) static EMPTY: Op = Op {
    def: OpDef {
        name: "EmptyTensorMap",
        summary: "A map from tensors to tensors without entries.",
        outputs: &[arg_of("handle", DType::Variant)],
        shape: scalar,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| Ok(vec![TensorMap::empty(cx.memory())?]))],
};

/// The number of entries.
pub(crate) static SIZE: Op = Op {
    def: OpDef {
        name: "TensorMapSize",
        summary: "The number of entries of a map.",
        inputs: &[MAP],
        outputs: &[arg_of("size", DType::I32)],
        shape: scalar,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        Ok(vec![Tensor::scalar(map(cx)?.entries.0.len() as i32)])
    })],
};

/// The value of a key.
pub(crate) static LOOKUP: Op = Op {
    def: OpDef {
        name: "TensorMapLookup",
        summary: "The value of a key, which the map must have.",
        inputs: &[MAP, KEY],
        outputs: &[arg("value", "value_dtype")],
        attrs: &[KEY_DTYPE, VALUE_DTYPE],
        shape: |cx| {
            cx.set(0, Shape::unknown());
            Ok(())
        },
        ..MAP_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let (map, key) = (map(cx)?, cx.tensor(1)?);
        let Some((_, value)) = map.entries.0.get(&key_bytes(cx, key)?) else {
            return Err(invalid(
                "Trying to lookup non-existent key. Insert it first",
            ));
        };
        match cx.attrs().dtype("value_dtype") {
            Some(dtype) if dtype != value.dtype() => Err(invalid(format!(
                "the value of the key is {}, and value_dtype is {dtype}",
                value.dtype()
            ))),
            _ => Ok(vec![value.clone()]),
        }
    })],
};

/// A map with one more entry, or another value of a key.
pub(crate) static INSERT: Op = Op {
    def: OpDef {
        name: "TensorMapInsert",
        summary: "The map with this value of a key.",
        inputs: &[MAP, KEY, arg("value", "value_dtype")],
        outputs: &[OUTPUT],
        attrs: &[KEY_DTYPE, VALUE_DTYPE],
        shape: scalar,
        ..MAP_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let (map, key) = (map(cx)?, cx.held(1)?);
        let mut entries = map.entries.clone();
        entries.0.insert(key_bytes(cx, &key)?, (key, cx.held(2)?));
        Ok(vec![entries.value(cx.memory())?])
    })],
};

/// A map without an entry that it had.
pub(crate) static ERASE: Op = Op {
    def: OpDef {
        name: "TensorMapErase",
        summary: "The map without a key, which it must have.",
        inputs: &[MAP, KEY],
        outputs: &[OUTPUT],
        attrs: &[KEY_DTYPE, VALUE_DTYPE],
        shape: scalar,
        ..MAP_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let mut entries = map(cx)?.entries.clone();
        match entries.0.remove(&key_bytes(cx, cx.tensor(1)?)?) {
            Some(_) => Ok(vec![entries.value(cx.memory())?]),
            None => Err(invalid(
                "Trying to erase non-existent item. Insert it first",
            )),
        }
    })],
};

/// `true` if a map has a key.
pub(crate) static HAS_KEY: Op = Op {
    def: OpDef {
        name: "TensorMapHasKey",
        summary: "True if the map has a key.",
        inputs: &[MAP, KEY],
        outputs: &[arg_of("has_key", DType::Bool)],
        attrs: &[KEY_DTYPE],
        shape: scalar,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let has = map(cx)?
            .entries
            .0
            .contains_key(&key_bytes(cx, cx.tensor(1)?)?);
        Ok(vec![Tensor::scalar(has)])
    })],
};

/// All keys of a map, of one shape.
pub(crate) static STACK_KEYS: Op = Op {
    def: OpDef {
        name: "TensorMapStackKeys",
        summary: "All keys of a map, one after the other, in the order of their bytes.",
        inputs: &[MAP],
        outputs: &[arg("keys", "key_dtype")],
        attrs: &[KEY_DTYPE],
        shape: |cx| {
            cx.set(0, Shape::unknown());
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let map = map(cx)?;
        let keys: Vec<Tensor> = map.entries.0.values().map(|(key, _)| key.clone()).collect();
        let Some(first) = keys.first() else {
            return Err(invalid("TensorMapStackKeys cannot be called on empty map."));
        };
        let dtype = cx.attrs().dtype("key_dtype").unwrap_or(DType::F32);
        if keys.iter().any(|key| key.dtype() != dtype) {
            return Err(invalid(format!(
                "Key does not match requested dtype. It must be {dtype}"
            )));
        }
        if keys.iter().any(|key| key.dims() != first.dims()) {
            return Err(invalid("Keys must all have the same shape."));
        }
        Ok(vec![stacked(cx.memory(), dtype, &keys, &Shape::unknown())?])
    })],
};
