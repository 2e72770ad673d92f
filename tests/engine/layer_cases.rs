//! Initializers and layers compared with TensorFlow's: numbers, variables, outputs, gradients and updates.

use std::error::Error;
use std::fmt::Debug;

use serde_json::{Value as Json, json};
use thalweg::graph::Value;
use thalweg::layers::{VariableScope, VariableScopes, update_ops};
use thalweg::ops::{DataFormat, Variable};
use thalweg::prelude::*;
use thalweg::session::Feed;
use thalweg_tests::golden::{Tolerance, difference, lines, tensor};

use crate::layer_options::{Options, initializer, number, regularizer};

#[test]
fn initializers_match_tensorflow() {
    let tolerance = Tolerance {
        rel: 1e-6,
        abs: 1e-7,
    };
    let (mut count, mut wrong) = (0, Vec::new());
    for line in lines("layers.jsonl.gz") {
        let what = &line["initializer"];
        let g = Graph::new();
        if what.is_null() {
            continue;
        }
        count += 1;
        if let Some(seed) = line["graph_seed"].as_i64() {
            g.set_seed(seed);
        }
        let expected = tensor(&line["value"]);
        let w = g.get_variable("w", expected.dims()).dtype(expected.dtype());
        let w = w.initializer(initializer(what)).build();
        assert_eq!(g.errors(), [], "{}", line["name"]);
        let session = Session::new(&g).unwrap();
        session.run(w.initializer(), []).unwrap();
        let found = session.step(w, []).unwrap();
        if let Some(text) = difference(found.tensor(0).unwrap(), &expected, tolerance) {
            wrong.push(format!("{}: {text}", line["name"]));
        }
    }
    assert!(count >= 60, "{count} initializers");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A layer of `layers.jsonl.gz` in a graph.
struct BuiltLayer<'g> {
    x: Output<'g>,
    y: Output<'g>,
    training: Option<Output<'g>>,
}

/// Builds the layer; images in another format are transposed before and after it.
fn build<'g>(g: &'g Graph, line: &Json, format: DataFormat) -> BuiltLayer<'g> {
    let dims = line["dims"].as_array().unwrap().iter();
    let dims: Vec<i64> = dims.map(|d| d.as_i64().unwrap()).collect();
    let x = g.placeholder("x", tensor(&line["input"]).dtype(), dims);
    let fed = line["training"] == "fed";
    let fed = fed.then(|| g.placeholder("training", DType::Bool, []));
    let training = match fed {
        Some(fed) => Value::Output(fed),
        None => Value::from(line["training"].as_bool().unwrap()),
    };
    let options = Options(&line["options"]);
    let kind = line["layer"].as_str().unwrap();
    let on = || match format {
        DataFormat::Nhwc => options.on(kind, x, training.clone(), format),
        DataFormat::Nchw => {
            let turned = x.transpose([0, 3, 1, 2]);
            let y = options.on(kind, turned, training.clone(), format);
            y.transpose([0, 2, 3, 1])
        }
    };
    let around = &line["scope"];
    let y = match around.is_null() {
        true => on(),
        false => {
            let mut scope = VariableScope::new("around");
            if !around["initializer"].is_null() {
                scope = scope.initializer(initializer(&around["initializer"]));
            }
            if !around["regularizer"].is_null() {
                scope = scope.regularizer(regularizer(&around["regularizer"]));
            }
            g.variable_scope(scope, on)
        }
    };
    BuiltLayer {
        x,
        y,
        training: fed,
    }
}

impl<'g> BuiltLayer<'g> {
    /// The output, and the gradients of a run: of the sum of the output times the weights.
    fn with_gradients(&self, run: &Json) -> Vec<Output<'g>> {
        let graph = self.y.graph();
        let mut fetches = vec![self.y];
        if !run["weights"].is_null() {
            let loss = (self.y * graph.constant(tensor(&run["weights"]))).sum();
            let float_input = self.x.dtype().is_float().then_some(self.x);
            let trained = graph
                .trainable_variables()
                .into_iter()
                .map(Variable::handle);
            let sources: Vec<Output<'_>> = float_input.into_iter().chain(trained).collect();
            let grads = gradients(&[loss], &sources);
            fetches.extend(grads.into_iter().map(|grad| grad.expect("a gradient")));
        }
        fetches
    }
}

/// A name, the computed value, and TensorFlow's.
type RecordedPair<'a> = (String, Tensor, &'a Json);

/// The results of a step, and the recorded ones.
fn step<'a, 'g>(
    session: &Session<'g>,
    fetches: &[Output<'g>],
    feeds: &[Feed<'g>],
    expected: impl IntoIterator<Item = (String, &'a Json)>,
) -> Result<Vec<RecordedPair<'a>>, Box<dyn Error>> {
    let found = session.step(fetches, feeds)?;
    let mut all = Vec::new();
    for (i, (name, recorded)) in expected.into_iter().enumerate() {
        all.push((name, found.tensor(i)?.clone(), recorded));
    }
    Ok(all)
}

fn array(list: &Json) -> &[Json] {
    list.as_array().map_or(&[], |list| list)
}

/// An error where the computed value is not the recorded one.
fn same<T: PartialEq + Debug>(what: &str, found: &T, recorded: &T) -> Result<(), String> {
    match found == recorded {
        true => Ok(()),
        false => Err(format!("{what}: {found:?}, not {recorded:?}")),
    }
}

/// The differences of a layer from TensorFlow's.
fn check(line: &Json, format: DataFormat) -> Result<Vec<String>, Box<dyn Error>> {
    let g = Graph::new();
    let built = build(&g, line, format);
    let (infos, expected) = (g.variables(), array(&line["variables"]));
    let found = infos
        .iter()
        .map(|v| json!([v.name, v.trainable, g.output(v.value).dtype().name()]));
    let recorded = expected
        .iter()
        .map(|v| json!([v["name"], v["trainable"], v["initial"]["dtype"]]));
    same("variables", &found.collect::<Json>(), &recorded.collect())?;
    let variables: Vec<Variable<'_>> = infos.iter().map(|v| Variable::of(&g, v)).collect();
    let values: Vec<Output<'_>> = variables.iter().map(|v| v.value()).collect();
    let given = variables.iter().zip(expected);
    let given: Vec<_> = given.map(|(v, e)| v.assign(tensor(&e["given"]))).collect();

    let session = Session::new(&g)?;
    session.run(g.initializers(), [])?;
    let named = |what: &str, i: usize| format!("{what} {}", infos[i].name);
    let initial = expected.iter().enumerate();
    let initial = initial.map(|(i, e)| (named("initial", i), &e["initial"]));
    let mut all = step(&session, &values, &[], initial)?;
    session.run(given, [])?;
    let losses = g.collection("regularization_losses");
    let recorded = array(&line["regularization"]);
    same("losses", &losses.len(), &recorded.len())?;
    let recorded = recorded.iter().map(|e| ("regularization".to_owned(), e));
    all.extend(step(&session, &losses, &[], recorded)?);
    for run in array(&line["runs"]) {
        let mut feeds = vec![built.x.feed(tensor(&line["input"]))];
        if let Some(training) = built.training {
            feeds.push(training.feed(run["training"] == true));
        }
        let fetches = built.with_gradients(run);
        let grads = array(&run["grads"]);
        same("fetches", &fetches.len(), &(1 + grads.len()))?;
        let grads = grads.iter().enumerate();
        let grads = grads.map(|(i, e)| (format!("gradient {i}"), e));
        let recorded = std::iter::once(("output".to_owned(), &run["output"])).chain(grads);
        all.extend(step(&session, &fetches, &feeds, recorded)?);

        let (updates, after) = (update_ops(&g), array(&run["after"]));
        same("no updates", &updates.is_empty(), &after.is_empty())?;
        session.run(updates, &feeds)?;
        let after = after.iter().enumerate();
        let after = after.map(|(i, e)| (named("updated", i), e));
        all.extend(step(&session, &values, &[], after)?);
    }
    let tolerance = Tolerance {
        rel: number(&line["tolerance"], "rel"),
        abs: number(&line["tolerance"], "abs"),
    };
    let wrong = all.into_iter().filter_map(|(what, found, expected)| {
        let text = difference(&found, &tensor(expected), tolerance)?;
        Some(format!("{} ({format:?}): {what}: {text}", line["name"]))
    });
    Ok(wrong.collect())
}

#[test]
fn layers_match_tensorflow() {
    let (mut count, mut wrong) = (0, Vec::new());
    for line in lines("layers.jsonl.gz") {
        let Some(kind) = line["layer"].as_str() else {
            continue;
        };
        count += 1;
        let mut check = |format| match check(&line, format) {
            Ok(found) => wrong.extend(found),
            Err(error) => wrong.push(format!("{} ({format:?}): {error}", line["name"])),
        };
        check(DataFormat::Nhwc);
        let images = line["dims"].as_array().unwrap().len() == 4;
        let ordered = kind.contains("conv") || kind.contains("pool") || kind == "batch_norm";
        if images && ordered {
            check(DataFormat::Nchw);
        }
    }
    assert!(count > 60, "{count} layers");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
