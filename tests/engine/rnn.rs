//! Recurrent layers compared with TensorFlow's, as a loop and unrolled.

use serde_json::Value as Json;
use thalweg::layers::{Cell, Rnn, Sequence, gru_cell, lstm_cell, rnn, rnn_cell};
use thalweg::ops::Variable;
use thalweg::prelude::*;
use thalweg_tests::golden::{Tolerance, difference, lines, tensor};
use thalweg_tests::gradients::{GradientCase, case, check, mixed};

/// A case's description of a layer.
struct CaseLayer<'g> {
    x: Output<'g>,
    initial: Vec<Output<'g>>,
    lengths: Option<Output<'g>>,
    time_major: bool,
    unrolled: bool,
}

impl<'g> CaseLayer<'g> {
    fn over<C: Cell>(&self, cell: C) -> Sequence<'g> {
        let mut layer: Rnn<'g, C> = rnn(cell);
        if self.unrolled {
            layer = layer.unrolled();
        }
        if self.time_major {
            layer = layer.time_major();
        }
        if let Some(lengths) = self.lengths {
            layer = layer.lengths(lengths);
        }
        if !self.initial.is_empty() {
            layer = layer.initial_state(self.initial.iter().copied());
        }
        layer.over(self.x)
    }

    fn build(&self, cell: &Json) -> Sequence<'g> {
        let units = cell["units"].as_u64().unwrap() as usize;
        if cell["class"] == "gru" {
            return self.over(gru_cell(units));
        }
        if cell["class"] == "basic" {
            return self.over(rnn_cell(units));
        }
        let lstm = lstm_cell(units);
        self.over(match cell["forget_bias"].as_f64() {
            Some(bias) => lstm.forget_bias(bias),
            None => lstm,
        })
    }
}

fn tensors(list: &Json) -> Vec<Tensor> {
    list.as_array().unwrap().iter().map(tensor).collect()
}

/// The differences of a case from TensorFlow's; `vague` leaves dimensions open.
fn differences(line: &Json, vague: bool) -> Vec<String> {
    let g = Graph::new();
    let placeholder = |value: &Tensor, known: &[usize]| {
        let dims = value.dims().iter().enumerate();
        let dim = |(i, &d): (usize, &usize)| (!vague || known.contains(&i)).then_some(d);
        g.placeholder("given", value.dtype(), Shape::partial(dims.map(dim)))
    };
    let unrolled = line["form"] == "unrolled";
    let time_major = line["time_major"] == true;
    let value = tensor(&line["x"]);
    let time_axis = if time_major { 0 } else { 1 };
    let x = match unrolled {
        true => placeholder(&value, &[time_axis, 2]),
        false => placeholder(&value, &[2]),
    };
    let states = tensors(&line["initial"]);
    let initial: Vec<Output<'_>> = states.iter().map(|s| placeholder(s, &[])).collect();
    let lengths = line["lengths"].as_array().map(|l| {
        let lengths: Vec<i64> = l.iter().map(|n| n.as_i64().unwrap()).collect();
        g.constant(lengths)
    });
    let said = CaseLayer {
        x,
        initial: initial.clone(),
        lengths,
        time_major,
        unrolled,
    };
    let made = said.build(&line["cell"]);
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
    let given = variables.iter().zip(expected);
    let given: Vec<_> = given.map(|(v, e)| v.assign(tensor(&e["value"]))).collect();

    let results: Vec<Output<'_>> = [made.outputs].into_iter().chain(made.state).collect();
    let factors = tensors(&line["factors"]);
    let terms = results.iter().zip(&factors);
    let terms: Vec<Output<'_>> = terms
        .map(|(r, f)| (*r * g.constant(f.clone())).sum())
        .collect();
    let sources: Vec<Output<'_>> = [x]
        .into_iter()
        .chain(initial.iter().copied())
        .chain(variables.iter().map(|v| v.handle()))
        .collect();
    let grads = gradients(&[g.add_n(&terms)], &sources);
    assert_eq!(g.errors(), [], "{}", line["name"]);

    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let tolerance = Tolerance {
        rel: line["tolerance"]["rel"].as_f64().unwrap(),
        abs: line["tolerance"]["abs"].as_f64().unwrap(),
    };
    let mut wrong = Vec::new();
    let mut compare = |what: &str, found: &Tensor, expected: &Tensor| {
        if let Some(text) = difference(found, expected, tolerance) {
            wrong.push(format!("{} ({vague}): {what}: {text}", line["name"]));
        }
    };
    let first_bias = session.step(variables[1], []).unwrap();
    compare(
        "bias at first",
        first_bias.tensor(0).unwrap(),
        &tensor(&line["first_bias"]),
    );
    session.run(given, []).unwrap();
    let mut feeds = vec![x.feed(&value)];
    feeds.extend(initial.iter().zip(&states).map(|(i, s)| i.feed(s)));
    let mut expected = vec![tensor(&line["outputs"])];
    expected.extend(tensors(&line["state"]));
    let found = session.step(&results, &feeds).unwrap();
    for (i, expected) in expected.iter().enumerate() {
        compare(&format!("result {i}"), found.tensor(i).unwrap(), expected);
    }
    for (i, expected) in tensors(&line["grads"]).iter().enumerate() {
        let found = grads[i].map(|grad| session.step(grad, &feeds).unwrap());
        let zeros = Tensor::zeros(expected.dtype(), expected.dims()).unwrap();
        let found = found.map_or(zeros, |f| f.tensor(0).unwrap().clone());
        compare(&format!("gradient {i}"), &found, expected);
    }
    wrong
}

#[test]
fn recurrent_cells_match_tensorflow() {
    let mut wrong = Vec::new();
    let all = lines("rnn.jsonl.gz");
    for line in &all {
        wrong.extend(differences(line, false));
        wrong.extend(differences(line, true));
    }
    assert!(all.len() > 25, "{} cases", all.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A layer over three sequences of length `time`, from a given state.
fn layer(gru: bool, time: usize, lengths: Option<[i32; 3]>, unrolled: bool) -> GradientCase {
    let name = format!("gru {gru}, {time} steps, lengths {lengths:?}, unrolled {unrolled}");
    let inputs = vec![
        mixed(&[3, time, 2], 1),
        mixed(&[3, 4], 2),
        mixed(&[3, 4], 3),
    ];
    case(&name, inputs, move |g, x| {
        g.set_seed(1);
        let said = CaseLayer {
            x: x[0],
            initial: x[1..if gru { 2 } else { 3 }].to_vec(),
            lengths: lengths.map(|l| g.constant(l)),
            time_major: false,
            unrolled,
        };
        let made = match gru {
            true => said.over(gru_cell(4)),
            false => said.over(lstm_cell(4)),
        };
        [made.outputs].into_iter().chain(made.state).collect()
    })
}

#[test]
fn gradients_of_loops_and_unrolled_layers_match_differences() {
    let mut wrong = Vec::new();
    for (time, lengths) in [(1, None), (4, None), (5, Some([2i32, 0, 4]))] {
        for (gru, unrolled) in [(true, true), (true, false), (false, true), (false, false)] {
            let case = layer(gru, time, lengths, unrolled);
            let found = check(&case, false, &SessionOptions::new().threads(1));
            wrong.extend(found.err().map(|e| format!("{}: {e}", case.name)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Outputs, states, and gradients of weights and inputs of a layer over `batch` sequences.
fn results(gru: bool, batch: usize, time: usize, lengths: bool, unrolled: bool) -> Vec<Tensor> {
    let g = Graph::new();
    g.set_seed(5);
    let x = g.constant(mixed(&[batch, time, 3], 7));
    let said = CaseLayer {
        x,
        initial: Vec::new(),
        lengths: lengths.then(|| {
            let lengths = (0..batch).map(|i| (i * 5 % (time + 1)) as i32);
            g.constant(lengths.collect::<Vec<_>>())
        }),
        time_major: false,
        unrolled,
    };
    let made = match gru {
        true => said.over(gru_cell(6)),
        false => said.over(lstm_cell(6)),
    };
    let mut all: Vec<Output<'_>> = [made.outputs].into_iter().chain(made.state).collect();
    let loss = g.add_n(&all.iter().map(|y| y.square().sum()).collect::<Vec<_>>());
    let handles = g.variables().into_iter().map(|v| g.output(v.handle));
    let sources: Vec<Output<'_>> = [x].into_iter().chain(handles).collect();
    let grads = gradients(&[loss], &sources).into_iter();
    all.extend(grads.map(|grad| grad.expect("a gradient")));
    assert_eq!(g.errors(), []);
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let found = session.step(&all, []).unwrap();
    (0..all.len())
        .map(|i| found.tensor(i).unwrap().clone())
        .collect()
}

#[test]
fn the_loop_matches_the_unrolled_layer() {
    let tolerance = Tolerance {
        rel: 1e-11,
        abs: 1e-11,
    };
    for gru in [false, true] {
        for (batch, time) in [(1, 1), (1, 9), (4, 2), (3, 17), (7, 40)] {
            for lengths in [false, true] {
                let steps = results(gru, batch, time, lengths, true);
                let looped = results(gru, batch, time, lengths, false);
                assert_eq!(steps.len(), looped.len());
                for (i, (a, b)) in looped.iter().zip(&steps).enumerate() {
                    let found = difference(a, b, tolerance);
                    assert_eq!(found, None, "{i} of {gru} {batch} {time} {lengths}");
                }
            }
        }
    }
}

#[test]
fn a_loop_over_an_empty_sequence_returns_the_initial_state() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [2, -1, 3]);
    let start = g.constant([[1.0f32, 2.0], [3.0, 4.0]]);
    let made = rnn(gru_cell(2)).initial_state([start]).over(x);
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let none = Tensor::zeros(DType::F32, &[2, 0, 3]).unwrap();
    let fetched = session
        .step((made.outputs, made.state[0]), [x.feed(none)])
        .unwrap();
    assert_eq!(fetched.tensor(0).unwrap().dims(), [2, 0, 2]);
    assert_eq!(fetched.slice::<f32>(1).unwrap(), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn mistakes_name_the_layer_and_the_line_with_advice() {
    let said = |build: &dyn Fn(&Graph)| {
        let g = Graph::new();
        build(&g);
        let text = g.errors()[0].to_string();
        assert!(text.contains("rnn.rs:"), "{text}");
        assert!(text.starts_with("node 'rnn' (rnn)"), "{text}");
        text
    };
    let x = |g: &Graph| g.placeholder("x", DType::F32, [3, -1, 2]).id();
    let text = said(&|g| {
        rnn(gru_cell(4)).unrolled().over(g.output(x(g)));
    });
    assert!(
        text.contains("without a known number of steps it has to be a loop"),
        "{text}"
    );
    let text = said(&|g| {
        rnn(gru_cell(4)).over(g.constant([[1.0f32]]));
    });
    assert!(text.contains("must have 3 dimensions"), "{text}");
    let text = said(&|g| {
        rnn(gru_cell(4)).lengths([1i32, 2]).over(g.output(x(g)));
    });
    assert!(
        text.contains("its lengths are i32[2], but must be i32 or i64 of shape [3]"),
        "{text}"
    );
    let text = said(&|g| {
        let part = g.constant([[0.0f32; 4]; 3]);
        rnn(lstm_cell(4)).initial_state([part]).over(g.output(x(g)));
    });
    assert!(
        text.contains("has 1 parts, but the state of its cell has 2"),
        "{text}"
    );
    let text = said(&|g| {
        let part = g.constant([[0.0f32; 5]; 3]);
        rnn(gru_cell(4)).initial_state([part]).over(g.output(x(g)));
    });
    assert!(text.contains("but must be f32[3,4]"), "{text}");
}
