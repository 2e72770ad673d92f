//! Attention layers compared with Keras's: variables, outputs, gradients.

use serde_json::Value as Json;
use thalweg::layers::{Layer, Weights, dropout, multi_head_attention};
use thalweg::ops::Variable;
use thalweg::prelude::*;
use thalweg_tests::golden::{Tolerance, difference, lines, tensor};

/// The differences of a case from Keras's; `vague` leaves batch and time open.
fn differences(line: &Json, vague: bool) -> Vec<String> {
    let g = Graph::new();
    let given: Vec<Tensor> = [&line["targets"], &line["sources"]]
        .into_iter()
        .filter(|t| !t.is_null())
        .map(tensor)
        .collect();
    let placeholder = |value: &Tensor| {
        let dims = value.dims().iter().enumerate();
        let dims = dims.map(|(i, &d)| (!vague || i == 2).then_some(d));
        g.placeholder("x", value.dtype(), Shape::partial(dims))
    };
    let xs: Vec<Output<'_>> = given.iter().map(placeholder).collect();
    let number = |key: &str| line[key].as_u64().unwrap() as usize;
    let mut layer = multi_head_attention(number("heads"), number("width"));
    if line["bias"] == false {
        layer = layer.without_bias();
    }
    if line["causal"] == true {
        layer = layer.causal();
    }
    if !line["mask"].is_null() {
        layer = layer.mask(g.constant(tensor(&line["mask"])));
    }
    let y = match xs[..] {
        [targets, sources] => layer.between(targets, sources),
        _ => layer.on(xs[0]),
    };
    assert_eq!(g.errors(), [], "{}", line["name"]);
    let expected = line["variables"].as_array().unwrap();
    let infos = g.variables();
    let names: Vec<&str> = infos.iter().map(|v| &*v.name).collect();
    let wanted: Vec<&str> = expected
        .iter()
        .map(|v| v["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, wanted, "{}", line["name"]);
    let variables: Vec<Variable<'_>> = infos.iter().map(|v| Variable::of(&g, v)).collect();
    let assigned = variables.iter().zip(expected);
    let assigned: Vec<_> = assigned
        .map(|(v, e)| v.assign(tensor(&e["value"])))
        .collect();
    let loss = (y * g.constant(tensor(&line["factor"]))).sum();
    let handles = variables.iter().map(|v| v.handle());
    let sources: Vec<Output<'_>> = xs.iter().copied().chain(handles).collect();
    let grads = gradients(&[loss], &sources);
    assert_eq!(g.errors(), [], "{}", line["name"]);

    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    session.run(assigned, []).unwrap();
    let grads = grads.into_iter().map(|grad| grad.expect("a gradient"));
    let all: Vec<Output<'_>> = [y].into_iter().chain(grads).collect();
    let feeds: Vec<_> = xs.iter().zip(&given).map(|(x, t)| x.feed(t)).collect();
    let found = session.step(&all, &feeds).unwrap();
    let tolerance = Tolerance {
        rel: line["tolerance"]["rel"].as_f64().unwrap(),
        abs: line["tolerance"]["abs"].as_f64().unwrap(),
    };
    let expected = [&line["output"]].into_iter();
    let expected = expected.chain(line["grads"].as_array().unwrap());
    let compare = |(i, expected): (usize, &Json)| {
        let text = difference(found.tensor(i).unwrap(), &tensor(expected), tolerance)?;
        Some(format!("{} ({vague}), {i}: {text}", line["name"]))
    };
    expected.enumerate().filter_map(compare).collect()
}

#[test]
fn multi_head_attention_matches_keras() {
    let mut wrong = Vec::new();
    let all = lines("attention.jsonl.gz");
    for line in &all {
        wrong.extend(differences(line, false));
        wrong.extend(differences(line, true));
    }
    assert!(all.len() > 10, "{} cases", all.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn attention_dropout_applies_in_training_only() {
    let g = Graph::new();
    let training = g.placeholder("training", DType::Bool, []);
    let x = g.constant(Tensor::new(&[1, 6, 2], &[0.5f32; 12]).unwrap());
    let lossy = dropout(0.5).seed(3).training(training);
    let y = multi_head_attention(2, 4).dropout(lossy).on(x);
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let rows = |training_now: bool| {
        let y = session.step(y, [training.feed(training_now)]).unwrap();
        y.slice::<f32>(0).unwrap().to_vec()
    };
    // All steps are equal, so that their outputs are equal without dropout.
    let used = rows(false);
    assert!(used.chunks(2).all(|row| row == &used[..2]), "{used:?}");
    let learning = rows(true);
    assert!(
        learning.chunks(2).any(|row| row != &learning[..2]),
        "{learning:?}"
    );
}

#[test]
fn an_attention_mask_must_be_bool() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [2, 3, 4]);
    multi_head_attention(2, 2)
        .mask(g.constant([[1.0f32; 3]; 3]))
        .on(x);
    let text = g.errors()[0].to_string();
    assert!(text.contains("its mask is f32, but must be bool"), "{text}");
    assert!(text.contains("attention.rs:"), "{text}");
}
