//! Checks of updates and casts that are launched together, on a card or the emulated GPU.

use thalweg::prelude::*;

use super::gpu_branches::on_gpu;
use super::test_gpu::Gpu;

type Minimize = for<'g> fn(Output<'g>) -> Operation<'g>;

const OPTIMIZERS: [(&str, Minimize); 7] = [
    ("gradient descent", |loss| {
        GradientDescent::new(0.1).minimize(loss)
    }),
    ("momentum", |loss| {
        Momentum::new(0.1, 0.9).nesterov(true).minimize(loss)
    }),
    ("adam", |loss| Adam::new(0.1).minimize(loss)),
    ("rms prop", |loss| RmsProp::new(0.1).minimize(loss)),
    ("adagrad", |loss| Adagrad::new(0.1).minimize(loss)),
    ("adadelta", |loss| Adadelta::new(0.1).minimize(loss)),
    ("ftrl", |loss| Ftrl::new(0.1).minimize(loss)),
];

/// Lengths of variables: within a block, of several blocks, empty, of one element.
const LENGTHS: [usize; 4] = [7, 2500, 0, 1];

/// The variables after three steps on sums of squares computed in `f16`, and by event of updates in a trace of the last step
/// the number of nodes.
fn trained(
    minimize: Minimize,
    device: &str,
    options: SessionOptions,
) -> (Vec<Vec<f32>>, Vec<usize>) {
    let g = Graph::new();
    let (variables, train) = g.device(device, || {
        let variable = |(at, &len): (usize, &usize)| {
            let value = |i: usize| ((i * 7 + at) % 11) as f32 / 11.0 - 0.5;
            let values: Vec<f32> = (0..len).map(value).collect();
            g.variable(&format!("v{at}"), Tensor::new(&[len], &values).unwrap())
        };
        let variables: Vec<_> = LENGTHS.iter().enumerate().map(variable).collect();
        let losses = variables.iter().map(|v| {
            let half = v.value().cast(DType::F16);
            half.square().sum().cast(DType::F32)
        });
        let loss = losses.reduce(|a, b| a + b).unwrap();
        (variables, minimize(loss))
    });
    let session = Session::with_options(&g, options).unwrap();
    session.run(g.initializers(), []).unwrap();
    session.run(train, []).unwrap();
    session.run(train, []).unwrap();
    let traced = RunOptions::new().traced();
    let (_, trace) = session.step_with(train, [], &traced).unwrap();
    let updates = trace.events.iter();
    let updates = updates.filter(|e| e.op.starts_with("ResourceApply"));
    let nodes = updates.map(|e| e.members.len()).collect();
    let values = variables.iter().map(|v| {
        let got = session.step(v.value(), []).unwrap();
        got.slice::<f32>(0).unwrap().to_vec()
    });
    (values.collect(), nodes)
}

pub fn updates_of_all_variables_are_one_launch_and_match_the_cpu(gpu: &Gpu) {
    for (name, minimize) in OPTIMIZERS {
        let (on_gpu, nodes) = trained(minimize, "/gpu:0", gpu.options());
        let (on_cpu, _) = trained(minimize, "/cpu:0", SessionOptions::new().threads(1));
        assert_eq!(nodes, [LENGTHS.len()], "{name}");
        for (a, b) in on_gpu.iter().flatten().zip(on_cpu.iter().flatten()) {
            assert!((a - b).abs() < 2e-3, "{name}: {a}, on the CPU {b}");
        }
    }
}

pub fn casts_and_updates_of_one_variable_keep_their_order(gpu: &Gpu) {
    let g = Graph::new();
    let v = g.variable("v", [1.0f32, 2.0]);
    let w = g.variable("w", [10.0f32]);
    let halves = || [v.read().cast(DType::F16), w.read().cast(DType::F16)];
    let before = halves();
    let loss = v.value().sum() + w.value().sum();
    // The gradients are ones.
    let first = GradientDescent::new(0.5).minimize(loss);
    let between = g.control_dependencies([first], halves);
    let waits = between.map(|o| o.operation());
    let second = g.control_dependencies(waits, || GradientDescent::new(0.25).minimize(loss));
    let after = g.control_dependencies([second], halves);
    let session = on_gpu(&g, gpu);
    session.run(g.initializers(), []).unwrap();
    for step in 0..3 {
        let all: Vec<_> = [before, between, after].concat();
        let all: Vec<_> = all.into_iter().map(|o| o.cast(DType::F32)).collect();
        let got = session.step(all, []).unwrap();
        let got: Vec<f32> = (0..6)
            .flat_map(|i| got.slice::<f32>(i).unwrap().to_vec())
            .collect();
        let less = 0.75 * step as f32;
        let expected = [1.0, 2.0, 10.0, 0.5, 1.5, 9.5, 0.25, 1.25, 9.25];
        assert_eq!(got, expected.map(|x: f32| x - less), "step {step}");
    }
}

pub fn a_cast_of_a_value_that_a_loop_keeps_comes_before_an_update(gpu: &Gpu) {
    let g = Graph::new();
    let v = g.variable("v", [1.0f32, 2.0]);
    let end = g.while_loop(
        &[g.constant(0i32), v.value()],
        |b, w| b.op("Less").input(w[0]).input(b.constant(2i32)).output(),
        |_, w| vec![w[0] + 1, w[1]],
    );
    let half = end[1].cast(DType::F16);
    let update = v.assign_add([10.0f32, 20.0]);
    let session = on_gpu(&g, gpu);
    session.run(g.initializers(), []).unwrap();
    for step in 0..3 {
        let found = session.step((half, update), []).unwrap();
        let found = found.slice::<half::f16>(0).unwrap();
        let times = step as f32;
        let expected = [1.0 + 10.0 * times, 2.0 + 20.0 * times];
        assert_eq!(found, expected.map(half::f16::from_f32), "step {step}");
    }
}

pub fn the_host_uses_in_turn_whether_variables_have_values(gpu: &Gpu) {
    let g = Graph::new();
    let absent = ["v", "w"].map(|name| {
        let v = g.variable(name, [1.0f32]);
        let is = v.is_initialized();
        g.device("/cpu:0", || g.op("LogicalNot").input(is).output())
    });
    let session = on_gpu(&g, gpu);
    for expected in [true, false] {
        let found: (bool, bool) = session.run((absent[0], absent[1]), []).unwrap();
        assert_eq!(found, (expected, expected));
        session.run(g.initializers(), []).unwrap();
    }
}
