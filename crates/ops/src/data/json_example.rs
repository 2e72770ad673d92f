//! DecodeJSONExample: `tf.train.Example` from protobuf's JSON.

use serde_json::{Map, Value};
use thalweg_data::example::ExampleWriter;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg_of};
use thalweg_tensor::{DType, Reservation, Tensor};

use crate::strings::decode_base64;

/// Bytes that a parsed text takes for each of its bytes, at most.
const PARSED_BYTES: usize = 40;

/// The message, or `None` of null, which is a field that is not there.
fn message<'a>(value: &'a Value, name: &str) -> Result<Option<&'a Map<String, Value>>, String> {
    match value {
        Value::Null => Ok(None),
        Value::Object(fields) => Ok(Some(fields)),
        _ => Err(format!("{name} must be an object")),
    }
}

/// The only field of a message, which has one of these names.
fn field<'a>(
    fields: &'a Map<String, Value>,
    names: &[&str],
) -> Result<Option<(&'a str, &'a Value)>, String> {
    if let Some(unknown) = fields.keys().find(|key| !names.contains(&key.as_str())) {
        return Err(format!(
            "there is no field '{unknown}': use {}",
            names.join(" or ")
        ));
    }
    let mut given = fields.iter().filter(|(_, value)| !value.is_null());
    let first = given.next();
    match given.next() {
        None => Ok(first.map(|(name, value)| (name.as_str(), value))),
        Some((other, _)) => Err(format!("'{other}' is a second value: give one")),
    }
}

/// The elements of a list's field `value`: one that is no array stands for itself.
fn elements<'a>(list: &'a Value, name: &str) -> Result<&'a [Value], String> {
    let value = match message(list, name)? {
        Some(list) => field(list, &["value"])?,
        None => None,
    };
    Ok(match value {
        None => &[],
        Some((_, Value::Array(all))) => all,
        Some((_, one)) => std::slice::from_ref(one),
    })
}

fn int(value: &Value) -> Result<i64, String> {
    let whole = |x: f64| {
        (x.fract() == 0.0 && x >= -(2f64.powi(63)) && x < 2f64.powi(63)).then_some(x as i64)
    };
    let found = match value {
        Value::Null => Some(0),
        Value::Number(number) => number.as_i64().or_else(|| {
            let float = number.as_f64().filter(|_| !number.is_u64());
            float.and_then(whole)
        }),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    found.ok_or_else(|| format!("{value} is no i64"))
}

fn float(value: &Value) -> Result<f32, String> {
    let found = match value {
        Value::Null => Some(0.0),
        Value::Number(number) => number.as_f64().map(|x| x as f32).filter(|x| x.is_finite()),
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f32::NAN),
            "Infinity" => Some(f32::INFINITY),
            "-Infinity" => Some(f32::NEG_INFINITY),
            text => text.parse().ok().filter(|x: &f32| x.is_finite()),
        },
        _ => None,
    };
    found.ok_or_else(|| format!("{value} is no f32"))
}

/// Bytes in Base64, in the standard alphabet or the one for URLs.
fn bytes(value: &Value) -> Result<Vec<u8>, String> {
    let text = match value {
        Value::Null => "",
        Value::String(text) => text,
        _ => return Err(format!("{value} is no string")),
    };
    let web_safe = text.bytes().map(|b| match b {
        b'+' => b'-',
        b'/' => b'_',
        other => other,
    });
    decode_base64(&web_safe.collect::<Vec<u8>>())
}

/// Adds a feature to those of an example.
fn with_feature(
    example: ExampleWriter,
    key: &str,
    feature: &Value,
) -> Result<ExampleWriter, String> {
    const KINDS: &[&str] = &[
        "bytesList",
        "bytes_list",
        "floatList",
        "float_list",
        "int64List",
        "int64_list",
    ];
    let list = match message(feature, "a feature")? {
        Some(feature) => field(feature, KINDS)?,
        None => None,
    };
    let Some((kind, list)) = list else {
        return Ok(example.empty(key));
    };
    let values = elements(list, kind)?.iter();
    Ok(match kind {
        "bytesList" | "bytes_list" => {
            example.bytes(key, values.map(bytes).collect::<Result<Vec<_>, _>>()?)
        }
        "floatList" | "float_list" => {
            example.floats(key, &values.map(float).collect::<Result<Vec<_>, _>>()?)
        }
        _ => example.ints(key, &values.map(int).collect::<Result<Vec<_>, _>>()?),
    })
}

/// The serialized example of a text.
fn example(text: &[u8]) -> Result<Vec<u8>, String> {
    let value: Value = serde_json::from_slice(text).map_err(|e| e.to_string())?;
    let Value::Object(fields) = &value else {
        return Err("an example must be an object".to_owned());
    };
    let Some((_, features)) = field(fields, &["features"])? else {
        return Ok(Vec::new());
    };
    let features = match message(features, "features")? {
        Some(features) => field(features, &["feature"])?,
        None => None,
    };
    let features = match features {
        Some((_, features)) => message(features, "feature")?,
        None => None,
    };
    let mut example = ExampleWriter::new();
    for (key, feature) in features.into_iter().flatten() {
        let next = with_feature(example, key, feature);
        example = next.map_err(|why| format!("feature '{key}': {why}"))?;
    }
    Ok(example.finish())
}

fn decode(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let mut all = cx.string_tensor(cx.tensor(0)?.dims())?;
    let mut stop = cx.stop_check();
    for (element, text) in cx.strings(0)?.iter().enumerate() {
        stop.tick()?;
        let mut held = Reservation::of(Some(cx.memory()));
        let bytes = text.len().saturating_mul(PARSED_BYTES);
        if !held.grow(bytes) {
            return Err(KernelError::Memory { bytes });
        }
        let example = example(text).map_err(|why| KernelError::Element {
            input: 0,
            element,
            reason: format!("Error while parsing JSON: {why}"),
        })?;
        all.push(&example)?;
    }
    Ok(vec![all.finish()?])
}

/// Examples from JSON.
pub(crate) static DECODE_JSON_EXAMPLE: Op = Op {
    def: OpDef {
        name: "DecodeJSONExample",
        summary: "Each tf.train.Example, serialized, from its JSON.",
        inputs: &[arg_of("json_examples", DType::String)],
        outputs: &[arg_of("binary_examples", DType::String)],
        shape: crate::support::shapes::unchanged,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(decode)],
};
