//! Mutated op cases: other shapes, extreme integers, attributes out of range. A mutated case has results, or an error
//! that blames its inputs; it never panics.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use thalweg::graph::{Attr, Graph};
use thalweg::ops::{NewGraph, SourceOps};
use thalweg::tensor::{DType, Tensor};
use thalweg_tests::golden::{Case, Input, cases};
use thalweg_tests::runtime::{Runtime, attributes};
use thalweg_tests::session::{Entry, SessionRuntime};

/// A pseudo-random number generator with a fixed seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % n.max(1)
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

const EXTREMES: &[i64] = &[
    -1,
    0,
    1,
    -2,
    7,
    i64::MIN,
    i64::MAX,
    i64::MAX / 2,
    i64::MIN + 1,
];

/// Zeros in a shape near the tensor's.
fn reshaped(t: &Tensor, random: &mut Random) -> Tensor {
    let mut dims = t.dims().to_vec();
    let at = random.below(dims.len());
    match random.below(6) {
        0 => dims.insert(at, 1),
        1 if !dims.is_empty() => drop(dims.remove(at)),
        2 if !dims.is_empty() => dims[at] = 0,
        3 if !dims.is_empty() => dims[at] += 1,
        4 => dims.insert(at, 0),
        _ => dims.push(2),
    }
    Tensor::zeros(t.dtype(), &dims).unwrap()
}

/// The tensor with one extreme integer, or in another dtype.
fn revalued(t: &Tensor, random: &mut Random) -> Tensor {
    let (at, value) = (random.below(t.len()), random.of(EXTREMES));
    let mut t = t.clone();
    match t.dtype() {
        _ if t.is_empty() => {}
        DType::I32 => {
            t.as_mut_slice::<i32>().unwrap()[at] =
                value.clamp(i32::MIN.into(), i32::MAX.into()) as i32
        }
        DType::I64 => t.as_mut_slice::<i64>().unwrap()[at] = value,
        DType::F32 => {
            t.as_mut_slice::<f32>().unwrap()[at] =
                random.of(&[f32::NAN, f32::INFINITY, -0.0, f32::MAX])
        }
        _ => t = Tensor::zeros(random.of(&DType::ALL[..14]), t.dims()).unwrap(),
    }
    t
}

fn mutate_attr(value: &Attr, random: &mut Random) -> Attr {
    match value {
        Attr::Int(_) => Attr::Int(random.of(EXTREMES)),
        Attr::Float(_) => Attr::Float(random.of(&[f32::NAN, f32::INFINITY, -1.0, 0.0])),
        Attr::Bool(v) => Attr::Bool(!v),
        Attr::Str(_) => Attr::Str(
            random
                .of(&["", "SAME", "VALID", "EXPLICIT", "NCHW", "NHWC"])
                .to_owned(),
        ),
        Attr::Type(_) => Attr::Type(random.of(&DType::ALL)),
        Attr::Ints(v) => {
            let mut v = v.clone();
            let at = random.below(v.len());
            match random.below(4) {
                0 => drop(v.pop()),
                1 => v.push(1),
                _ if v.is_empty() => v.push(-1),
                _ => v[at] = random.of(EXTREMES),
            }
            Attr::Ints(v)
        }
        other => other.clone(),
    }
}

/// The case with one input or attribute changed.
fn mutated(case: &Case, random: &mut Random) -> Case {
    let mut case = case.clone();
    let parts = case.inputs.len() + case.attrs.len();
    let part = random.below(parts);
    if let Some(input) = case.inputs.get_mut(part) {
        if let Input::Tensor(t) = input {
            *t = if random.below(2) == 0 {
                reshaped(t, random)
            } else {
                revalued(t, random)
            };
        } else if let Input::Variable(_, dims, _) = input {
            dims.push(2);
        }
    } else if let Some((_, value)) = case.attrs.get_mut(part - case.inputs.len()) {
        *value = mutate_attr(value, random);
    }
    case
}

/// `true` for results that are valid but too large for a test.
fn too_large(case: &Case) -> bool {
    let g = Graph::new();
    let mut inputs = Vec::new();
    for input in &case.inputs {
        match input {
            Input::Tensor(t) if t.dtype() != DType::String => inputs.push(g.constant(t)),
            _ => return false,
        }
    }
    let node = attributes(&g, g.op(&case.op).inputs(inputs), case).build();
    let elements = |o: thalweg::graph::Output<'_>| o.shape().elements();
    let large = |n: usize| (1 << 20..1 << 44).contains(&n);
    node.outputs().into_iter().filter_map(elements).any(large)
}

#[test]
fn mutated_cases_have_results_or_errors_of_their_inputs() {
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let mut random = Random(0x5eed_1234_5678_9abc);
    let mut panics: Vec<String> = Vec::new();
    let (mut errors, mut runs) = (0, 0);
    for (i, case) in cases(&std::env::var("GOLDEN").unwrap_or_default())
        .iter()
        .enumerate()
    {
        for round in 0..6 {
            let case = mutated(case, &mut random);
            let runtime = SessionRuntime {
                threads: 1,
                optimise: round % 2 == 0,
                entry: [
                    Entry::Constant,
                    Entry::HostConstant,
                    Entry::Fed,
                    Entry::FedUnknown,
                ][(i + round) % 4],
                gpu: None,
            };
            let run = || {
                if too_large(&case) {
                    Ok(None)
                } else {
                    runtime.run(&case).map(Some)
                }
            };
            runs += 1;
            let what = match catch_unwind(AssertUnwindSafe(run)) {
                Ok(Ok(_)) => continue,
                Ok(Err(e)) => {
                    errors += 1;
                    // A wrong input is the client's mistake, and no op takes it for its own.
                    if !e.contains("panicked") && !e.contains("defect in the op") {
                        continue;
                    }
                    e
                }
                Err(p) => p
                    .downcast_ref::<String>()
                    .cloned()
                    .unwrap_or("a panic".to_owned()),
            };
            let inputs: Vec<String> = case.inputs.iter().map(describe).collect();
            panics.push(format!(
                "{} {:?} ({}) {:?}: {what}",
                case.name,
                case.attrs,
                inputs.join(", "),
                runtime.entry
            ));
        }
    }
    set_hook(hook);
    let shown: Vec<&String> = panics.iter().take(30).collect();
    assert!(
        panics.is_empty(),
        "{} of {runs} panic, or take the blame:\n{shown:#?}",
        panics.len()
    );
    assert!(
        errors > runs / 10,
        "only {errors} of {runs} are errors: they are hardly mutated"
    );
}

fn describe(input: &Input) -> String {
    match input {
        Input::Tensor(t) => t.to_string(),
        Input::Variable(dtype, dims, _) => format!("variable {dtype}{dims:?}"),
    }
}
