//! Optimizers and averages of weights, compared step by step with TensorFlow, Keras or a paper's formulas.

use serde_json::Value as Json;
use thalweg::prelude::*;
use thalweg_tests::golden::tensor;

use crate::training::for_each_recorded;

/// The variables of a recorded run.
const NAMES: [&str; 2] = ["w", "b"];

/// A comparison: name, computed value, expected value.
type Comparison = (String, Tensor, Tensor);

/// The optimizer that a line names; settings that it does not give have their defaults.
fn optimizer<'g>(settings: &Json) -> Box<dyn Optimizer<'g> + 'g> {
    let number = |key: &str| settings[key].as_f64().map(|n| n as f32);
    let rate = number("learning_rate").unwrap();
    let betas = number("beta_1").zip(number("beta_2"));
    let (epsilon, decay) = (number("epsilon"), number("weight_decay"));
    let excluded: fn(&str) -> bool = match settings["exclude"].is_array() {
        true => |name| name == "b",
        false => |_| false,
    };
    // An optimizer, with a setting where there is one.
    fn set<O, T>(optimizer: O, value: Option<T>, with: impl Fn(O, T) -> O) -> O {
        match value {
            Some(value) => with(optimizer, value),
            None => optimizer,
        }
    }
    match settings["class"].as_str().unwrap() {
        "AdadeltaOptimizer" => {
            let o = set(Adadelta::new(rate), number("rho"), Adadelta::rho);
            Box::new(set(o, epsilon, Adadelta::epsilon))
        }
        "FtrlOptimizer" => {
            let o = Ftrl::new(rate);
            let initial = settings["initial_accumulator_value"].as_f64();
            let o = set(o, initial, Ftrl::initial_accumulator);
            let o = set(o, number("learning_rate_power"), Ftrl::learning_rate_power);
            let o = set(o, number("l1_regularization_strength"), Ftrl::l1);
            let o = set(o, number("l2_regularization_strength"), Ftrl::l2);
            let shrinkage = number("l2_shrinkage_regularization_strength");
            let o = set(o, shrinkage, Ftrl::l2_shrinkage);
            Box::new(set(o, number("beta"), Ftrl::beta))
        }
        "Adamax" => {
            let o = set(Adamax::new(rate), betas, |o, (a, b)| o.betas(a, b));
            Box::new(set(o, epsilon, Adamax::epsilon))
        }
        "Nadam" => {
            let o = set(Nadam::new(rate), betas, |o, (a, b)| o.betas(a, b));
            Box::new(set(o, epsilon, Nadam::epsilon))
        }
        "AdamW" => {
            let o = set(AdamW::new(rate), betas, |o, (a, b)| o.betas(a, b));
            let o = set(o, decay, AdamW::weight_decay).exclude(excluded);
            Box::new(set(o, epsilon, AdamW::epsilon))
        }
        "Lamb" | "lamb" => {
            let o = set(Lamb::new(rate), betas, |o, (a, b)| o.betas(a, b));
            let o = set(o, decay, Lamb::weight_decay).exclude(excluded);
            Box::new(set(o, epsilon, Lamb::epsilon))
        }
        "SGD" => {
            let o = Momentum::new(rate, number("momentum").unwrap());
            let o = set(o, decay, Momentum::weight_decay).exclude(excluded);
            Box::new(o.nesterov(settings["nesterov"].as_bool().unwrap()))
        }
        "lars" => {
            let o = Lars::new(rate).momentum(number("momentum").unwrap());
            let o = set(o, decay, Lars::weight_decay).exclude(excluded);
            let o = o.trust_coefficient(number("trust_coefficient").unwrap());
            Box::new(o.nesterov(settings["nesterov"].as_bool().unwrap()))
        }
        other => panic!("no optimizer is called {other}"),
    }
}

/// A recorded tensor of one row a step, as placeholders to be fed such a row.
fn places<'g>(g: &'g Graph, recorded: &Json) -> Vec<Output<'g>> {
    let like = |name: &&str| {
        let all = tensor(&recorded[*name]);
        g.placeholder("place", all.dtype(), &all.dims()[1..])
    };
    NAMES.iter().map(like).collect()
}

/// Row `i` of a recorded tensor.
fn row(recorded: &Json, i: usize) -> Tensor {
    let all = tensor(recorded);
    let size = all.bytes().len() / all.dims()[0];
    let bytes = &all.bytes()[i * size..(i + 1) * size];
    Tensor::from_bytes(all.dtype(), &all.dims()[1..], bytes).unwrap()
}

/// Runs `train`, feeding `places` the rows of `fed`, and compares `variables` after each step with the
/// rows of `expected`.
fn compare_steps<'g>(
    session: &Session<'g>,
    (train, places, fed): (Operation<'g>, &[Output<'g>], &Json),
    (variables, expected): (&[Variable<'g>], &Json),
) -> Vec<Comparison> {
    let steps = tensor(&fed["w"]).dims()[0];
    let mut found = vec![Vec::new(); variables.len()];
    for step in 0..steps {
        let feeds = places.iter().zip(NAMES);
        let feeds = feeds.map(|(place, name)| place.feed(row(&fed[name], step)));
        session.run(train, feeds.collect::<Vec<_>>()).unwrap();
        let after = session.step(variables, []).unwrap();
        for (i, found) in found.iter_mut().enumerate() {
            found.push(after.tensor(i).unwrap().clone());
        }
    }
    let stacked = NAMES.into_iter().zip(found).map(|(name, found)| {
        let expected = tensor(&expected[name]);
        let bytes: Vec<u8> = found.iter().flat_map(|t| t.bytes().to_vec()).collect();
        let found = Tensor::from_bytes(expected.dtype(), expected.dims(), &bytes).unwrap();
        (name.to_owned(), found, expected)
    });
    stacked.collect()
}

#[test]
fn every_optimizer_matches_the_recorded_steps_and_slots() {
    for_each_recorded("optimizer", |line| {
        let g = Graph::new();
        let variables = NAMES.map(|name| g.variable(name, tensor(&line["initial"][name])));
        let places = places(&g, &line["gradients"]);
        let pairs: Vec<_> = places.iter().copied().zip(variables).collect();
        let optimizer = optimizer(&line["optimizer"]);
        let train = optimizer.apply_gradients(&g, &pairs, None);
        let session = Session::new(&g).unwrap();
        session.run(g.initializers(), []).unwrap();
        let run = (train, &places[..], &line["gradients"]);
        let mut compared = compare_steps(&session, run, (&variables, &line["weights"]));
        for name in NAMES {
            let expected = line["slots"][name].as_array().unwrap();
            for (i, expected) in expected.iter().enumerate() {
                let suffix = if i == 0 { "" } else { "_1" };
                let slot = format!("{name}/{}{suffix}", optimizer.name());
                let info = g.variables().into_iter().find(|v| v.name == slot);
                let value = g.output(info.unwrap_or_else(|| panic!("no {slot}")).value);
                let found = session.run::<Tensor>(value, []).unwrap();
                compared.push((slot, found, tensor(expected)));
            }
        }
        compared
    });
}

#[test]
fn averages_of_weights_match_tensorflow() {
    for_each_recorded("moving_average", |line| {
        let g = Graph::new();
        let variables = NAMES.map(|name| g.variable(name, tensor(&line["initial"][name])));
        let places = places(&g, &line["added"]);
        let step = create_global_step(&g);
        let mut averages = MovingAverage::new(line["decay"].as_f64().unwrap() as f32);
        if line["by_step"].as_bool().unwrap() {
            averages = averages.num_updates(step);
        }
        let added = variables.iter().zip(&places);
        let mut updates: Vec<_> = added.map(|(v, &place)| v.assign_add(place)).collect();
        updates.push(step.assign_add(1i64));
        let train = g.control_dependencies(updates, || averages.apply(&g, &variables));
        let found = variables.map(|v| averages.average(v).unwrap());
        let session = Session::new(&g).unwrap();
        session.run(g.initializers(), []).unwrap();
        let run = (train, &places[..], &line["added"]);
        compare_steps(&session, run, (&found, &line["averages"]))
    });
}
