//! Checks of loops with lists of tensors on a card or the emulated GPU.

use std::fmt::Write;

use thalweg::layers::{Cell, dense, embedding, gru_cell, losses, lstm_cell, rnn};
use thalweg::prelude::*;
use thalweg::session::{Feed, Fetches};

use super::gpu_branches::on_gpu;
use super::test_gpu::Gpu;

const STEPS: usize = 3;
const BATCH: usize = 4;
const TIME: usize = 5;

fn list<'g>(op: &str, inputs: &[Output<'g>]) -> Output<'g> {
    let node = inputs[0].graph().op(op).inputs(inputs.iter().copied());
    node.attr("element_dtype", DType::F32).output()
}

/// Adds a loop that counts to `n`, from 0, with these values beside the counter.
fn counted<'g>(
    n: Output<'g>,
    values: &[Output<'g>],
    body: impl Fn(&'g Graph, Output<'g>, &[Output<'g>]) -> Vec<Output<'g>>,
) -> Vec<Output<'g>> {
    let graph = n.graph();
    let mut all = vec![graph.constant(0i32)];
    all.extend(values);
    let end = graph.while_loop(
        &all,
        |b, v| b.op("Less").input(v[0]).input(n).output(),
        |b, v| {
            let mut next = vec![v[0] + 1];
            next.extend(body(b, v[0], &v[1..]));
            next
        },
    );
    end[1..].to_vec()
}

/// The nodes of a step that run on the host, as [`Session::explain`] says.
fn hosted(session: &Session<'_>, fetch: impl Fetches, feeds: &[Feed<'_>]) -> String {
    let text = session.explain(fetch, feeds).unwrap();
    let mut hosted = String::new();
    for line in text.lines().filter(|l| l.contains("runs on the host")) {
        writeln!(hosted, "{line}").unwrap();
    }
    hosted
}

/// The losses of some steps of a recurrent network on words, and its host nodes.
fn trained<C: Cell>(cell: C, device: &str, options: SessionOptions) -> (Vec<f32>, String) {
    let g = Graph::new();
    g.set_seed(3);
    let (tokens, labels, loss, train) = g.device(device, || {
        let tokens = g.placeholder("tokens", DType::I32, [-1, TIME as i64]);
        let labels = g.placeholder("labels", DType::I32, [-1]);
        let words = embedding(20, 6).on(tokens).dropout(0.8, Some(5));
        let outputs = rnn(cell).on(words);
        let logits = dense(3).on(outputs.at((.., -1)));
        let loss = losses::sparse_softmax_cross_entropy(labels, logits).value();
        (tokens, labels, loss, Momentum::new(0.1, 0.9).minimize(loss))
    });
    let session = Session::with_options(&g, options).unwrap();
    session.run(g.initializers(), []).unwrap();
    let mut losses = Vec::new();
    let mut on_host = String::new();
    for step in 0..STEPS {
        let words: Vec<i32> = (0..BATCH * TIME)
            .map(|i| ((i * 7 + step) % 20) as i32)
            .collect();
        let classes: Vec<i32> = (0..BATCH).map(|i| ((i + step) % 3) as i32).collect();
        let feeds = [
            tokens.feed(Tensor::new(&[BATCH, TIME], &words).unwrap()),
            labels.feed(classes),
        ];
        let got = session.step((loss, train), feeds.clone()).unwrap();
        losses.push(got.scalar::<f32>(0).unwrap());
        on_host = hosted(&session, (loss, train), &feeds);
    }
    (losses, on_host)
}

fn trains_alike<C: Cell>(gpu: &Gpu, cell: impl Fn() -> C) {
    let (on_gpu, on_host) = trained(cell(), "/gpu:0", gpu.options());
    let (on_cpu, _) = trained(cell(), "/cpu:0", SessionOptions::new().threads(1));
    assert_eq!(on_host, "");
    for (a, b) in on_gpu.iter().zip(&on_cpu) {
        assert!((a - b).abs() < 1e-3 * b, "{on_gpu:?} and {on_cpu:?}");
    }
}

pub fn recurrent_networks_train_on_a_gpu_as_on_the_cpu(gpu: &Gpu) {
    trains_alike(gpu, || lstm_cell(8));
    trains_alike(gpu, || gru_cell(8));
}

pub fn an_unrolled_loop_reads_and_writes_lists(gpu: &Gpu) {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [3, 2]);
    let row = g.constant([2i32]);
    let rows = list("TensorListFromTensor", &[x, row]);
    // One more element than iterations: it stays absent.
    let reserved = list("TensorListReserve", &[row, g.constant(4i32)]);
    let end = counted(g.constant(3i32), &[reserved, x.at(0)], |_, i, v| {
        let sum = v[1] + list("TensorListGetItem", &[rows, i, row]);
        vec![list("TensorListSetItem", &[v[0], i, sum]), sum]
    });
    let sums = list("TensorListStack", &[end[0], row]);
    let session = on_gpu(&g, gpu);
    let feeds = [x.feed(Tensor::new(&[3, 2], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap())];
    assert_eq!(hosted(&session, sums, &feeds), "");
    let got = session.step(sums, feeds).unwrap();
    let expected = [2.0f32, 4.0, 5.0, 8.0, 10.0, 14.0, 0.0, 0.0];
    assert_eq!(got.slice::<f32>(0).unwrap(), expected);
}

pub fn nested_loops_with_lists_are_unrolled(gpu: &Gpu) {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [2]);
    let row = g.constant([2i32]);
    let empty = list("EmptyTensorList", &[row, g.constant(-1i32)]);
    // Iteration i pushes i elements: x, 2x, ..., and an inner loop sums them up again.
    let end = counted(g.constant(4i32), &[x * 0.0], |b, i, v| {
        let pushed = counted(i, &[b.op("Identity").input(empty).output()], |_, j, w| {
            let times = j.cast(DType::F32) + 1.0;
            vec![list("TensorListPushBack", &[w[0], x * times])]
        });
        let popped = counted(i, &[pushed[0], v[0]], |b, _, w| {
            let popped = b.op("TensorListPopBack").input(w[0]).input(row);
            let popped = popped.attr("element_dtype", DType::F32).build();
            vec![popped.output(0), w[1] + popped.output(1)]
        });
        vec![popped[1]]
    });
    let session = on_gpu(&g, gpu);
    let feeds = [x.feed([1.0f32, 10.0])];
    assert_eq!(hosted(&session, end[0], &feeds), "");
    // 0 + 1 + (1 + 2) + (1 + 2 + 3)
    let got = session.step(end[0], feeds).unwrap();
    assert_eq!(got.slice::<f32>(0).unwrap(), [10.0f32, 100.0]);
}

/// The sum of the first `n` rows of `x`, by a loop that reads them from a list.
fn sum_of_rows<'g>(x: Output<'g>, n: Output<'g>) -> Output<'g> {
    let row = x.graph().constant([2i32]);
    let rows = list("TensorListFromTensor", &[x, row]);
    let end = counted(n, &[x.at(0) * 0.0], |_, i, v| {
        vec![v[0] + list("TensorListGetItem", &[rows, i, row])]
    });
    end[0]
}

pub fn a_loop_with_lists_that_cannot_be_unrolled_runs_on_the_host(gpu: &Gpu) {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [3, 2]);
    let n = g.placeholder("n", DType::I32, []);
    // The number of iterations is known of one of them alone, and they share no list.
    let both = sum_of_rows(x, n) + sum_of_rows(-x, g.constant(3i32));
    let session = on_gpu(&g, gpu);
    let rows = Tensor::new(&[3, 2], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    for (times, expected) in [(0, [-9.0f32, -12.0]), (2, [-5.0, -6.0]), (3, [0.0, 0.0])] {
        let feeds = [x.feed(rows.clone()), n.feed(times)];
        let on_host = hosted(&session, both, &feeds);
        let loops = on_host.matches("While '").count();
        assert_eq!(loops, 1, "{on_host}");
        let got = session.step(both, feeds).unwrap();
        assert_eq!(got.slice::<f32>(0).unwrap(), expected, "{times}");
    }
    // There is no fourth row.
    let error = session.step(both, [x.feed(rows), n.feed(4)]).unwrap_err();
    assert!(error.to_string().contains("no element 3"), "{error}");
    let too_many = sum_of_rows(x, g.constant(4i32));
    let error = session.step(
        too_many,
        [x.feed(Tensor::zeros(DType::F32, &[3, 2]).unwrap())],
    );
    let error = error.unwrap_err().to_string();
    assert!(error.contains("no element 3"), "{error}");
}

pub fn a_loop_with_lists_that_updates_a_variable_of_the_gpu_is_an_error(gpu: &Gpu) {
    let g = Graph::new();
    let v = g.variable("v", [1.0f32, 2.0]);
    let x = g.placeholder("x", DType::F32, [3, 2]);
    let row = g.constant([2i32]);
    let rows = list("TensorListFromTensor", &[x, row]);
    let end = counted(g.constant(3i32), &[x.at(0) * 0.0], |b, i, w| {
        let read = b.op("ReadVariableOp").input(v.handle());
        let read = read.attr("dtype", DType::F32).output();
        let update = b.op("AssignVariableOp").input(v.handle());
        let update = update.input(read * 2.0).build();
        let row = list("TensorListGetItem", &[rows, i, row]);
        b.control_dependencies([update], || vec![w[0] + row])
    });
    let session = on_gpu(&g, gpu);
    session.run(g.initializers(), []).unwrap();
    let ones = Tensor::new(&[3, 2], &[1.0f32; 6]).unwrap();
    // The variable is on the GPU, and the loop cannot be.
    let error = session
        .step(end[0], [x.feed(ones)])
        .unwrap_err()
        .to_string();
    assert!(error.contains("variable 'v'"), "{error}");
}

pub fn an_unrolled_loop_draws_other_random_numbers_in_each_iteration(gpu: &Gpu) {
    let drawn = |device: &str, options: SessionOptions| {
        let g = Graph::new();
        g.set_seed(11);
        let stacked = g.device(device, || {
            let row = g.constant([4i32]);
            let reserved = list("TensorListReserve", &[row, g.constant(3i32)]);
            let end = counted(g.constant(3i32), &[reserved], |b, i, v| {
                let drawn = b.random_uniform([4], 0.0, 1.0, DType::F32, None);
                vec![list("TensorListSetItem", &[v[0], i, drawn])]
            });
            list("TensorListStack", &[end[0], row])
        });
        let session = Session::with_options(&g, options).unwrap();
        assert_eq!(hosted(&session, stacked, &[]), "");
        let step = || session.run::<Vec<f32>>(stacked, []).unwrap();
        [step(), step(), step()].concat()
    };
    let on_gpu = drawn("/gpu:0", gpu.options());
    let mut distinct = on_gpu.clone();
    distinct.sort_by(f32::total_cmp);
    distinct.dedup();
    assert_eq!(distinct.len(), on_gpu.len());
    assert_eq!(on_gpu, drawn("/cpu:0", SessionOptions::new().threads(1)));
}

/// Adds a new array of `size` elements of `[2]`; returns its handle and flow.
fn array(g: &Graph, size: i32) -> [Output<'_>; 2] {
    let array = g.op("TensorArrayV3").input(g.constant(size));
    let array = array.attr("dtype", DType::F32).build();
    [array.output(0), array.output(1)]
}

fn written<'g>([handle, flow]: [Output<'g>; 2], i: Output<'g>, x: Output<'g>) -> Output<'g> {
    let write = x.graph().op("TensorArrayWriteV3").input(handle);
    write.input(i).input(x).input(flow).output()
}

fn read<'g>([handle, flow]: [Output<'g>; 2], i: Output<'g>) -> Output<'g> {
    let read = i.graph().op("TensorArrayReadV3").input(handle);
    let read = read.input(i).input(flow).attr("dtype", DType::F32);
    read.output()
}

pub fn arrays_and_stacks_of_an_unrolled_loop_hold_its_values(gpu: &Gpu) {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [2]);
    let three = g.constant(3i32);
    let [handle, flow] = array(&g, 3);
    let stack = g.op("StackV2").input(g.constant(-1i32));
    let stack = stack.attr("elem_type", DType::F32).output();
    // Iteration i writes x * 10^i, and pushes x * i.
    let end = counted(three, &[flow, x], |b, i, v| {
        let flow = written([handle, v[0]], i, v[1]);
        let push = b.op("StackPushV2").input(stack);
        let pushed = push.input(x * i.cast(DType::F32)).output();
        vec![flow, v[1] * 10.0 + pushed * 0.0]
    });
    // The value that was pushed last is popped first.
    let popped = counted(three, &[x * 0.0, end[1]], |b, i, v| {
        let pop = b.op("StackPopV2").input(stack);
        let popped = pop.attr("elem_type", DType::F32).output();
        let row = read([handle, end[0]], i);
        vec![v[0] * 100.0 + popped + row, v[1]]
    });
    let session = on_gpu(&g, gpu);
    let feeds = [x.feed([1.0f32, 2.0])];
    assert_eq!(hosted(&session, popped[0], &feeds), "");
    let got = session.step(popped[0], &feeds).unwrap();
    // 2 + 1, 1 + 10, 0 + 100
    let sum = (3.0f32 * 100.0 + 11.0) * 100.0 + 100.0;
    assert_eq!(got.slice::<f32>(0).unwrap(), [sum, 2.0 * sum]);
    // An element that was read is cleared.
    let after = g.control_dependencies([popped[0].operation()], || {
        read([handle, end[0]], g.constant(0i32))
    });
    let error = session.step(after, &feeds).unwrap_err().to_string();
    assert!(error.contains("was read before"), "{error}");
}

pub fn an_unrolled_loop_reads_a_variable_after_what_it_waits_for(gpu: &Gpu) {
    let g = Graph::new();
    let v = g.variable("v", [1.0f32, 2.0]);
    let row = g.constant([2i32]);
    let add = g.op("AssignAddVariableOp").input(v.handle());
    let add = add.input(g.constant([10.0f32, 10.0])).build();
    let after = g.control_dependencies([add], || {
        let read = g.op("ReadVariableOp").input(v.handle());
        read.attr("dtype", DType::F32).output()
    });
    let empty = list("EmptyTensorList", &[row, g.constant(-1i32)]);
    let end = counted(g.constant(2i32), &[empty, after * 1.0], |b, _, w| {
        let read = b.op("ReadVariableOp").input(v.handle());
        let read = read.attr("dtype", DType::F32).output();
        vec![list("TensorListPushBack", &[w[0], read]), w[1]]
    });
    let rows = list("TensorListStack", &[end[0], row]);
    let session = on_gpu(&g, gpu);
    session.run(g.initializers(), []).unwrap();
    assert_eq!(hosted(&session, (rows, end[1]), &[]), "");
    for step in [11.0f32, 21.0, 31.0] {
        let got = session.step((rows, end[1]), []).unwrap();
        let row = [step, step + 1.0];
        assert_eq!(got.slice::<f32>(0).unwrap(), [row, row].concat());
        assert_eq!(got.slice::<f32>(1).unwrap(), row);
    }
}

pub fn a_list_may_be_fetched_beside_an_unrolled_loop(gpu: &Gpu) {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [3, 2]);
    let row = g.constant([2i32]);
    let rows = list("TensorListFromTensor", &[x, row]);
    let sum = sum_of_rows(-x, g.constant(3i32));
    let session = on_gpu(&g, gpu);
    let feeds = [x.feed(Tensor::new(&[3, 2], &[1.0f32; 6]).unwrap())];
    let on_host = hosted(&session, (rows, sum), &feeds);
    assert!(!on_host.contains("While '"), "{on_host}");
    let got = session.step((rows, sum), &feeds).unwrap();
    assert_eq!(got.slice::<f32>(1).unwrap(), [-3.0f32, -3.0]);
}
