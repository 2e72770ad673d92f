//! Faults on the emulated GPU, compared with the CPU: no access out of bounds, no values from failed steps, no stale
//! state.

use std::sync::Arc;

use thalweg::prelude::*;
use thalweg::session::GpuOptions;
use thalweg_tests::emulated::{Checks, Emulated, has_compiler};
use thalweg_tests::emulated_gpu::EmulatedGpu;

fn gpu() -> Arc<EmulatedGpu> {
    EmulatedGpu::new(&Arc::new(Emulated::new(Checks::None)))
}

fn options(gpu: &Arc<EmulatedGpu>) -> SessionOptions {
    SessionOptions::new()
        .threads(1)
        .gpu(GpuOptions::driven_by(gpu.clone()))
}

fn handle<'g>(g: &'g Graph, shape: Shape) -> Output<'g> {
    g.op("VarHandleOp")
        .attr("dtype", DType::F32)
        .attr("shape", shape)
        .attr("shared_name", "v")
        .output()
}

fn assign_through_another_handle(
    device: &str,
    op: &str,
    options: SessionOptions,
) -> Result<(), String> {
    let g = Graph::new();
    let (set, grow) = g.device(device, || {
        let known = handle(&g, Shape::known(&[2]));
        let loose = handle(&g, Shape::unknown());
        let set = g
            .op("AssignVariableOp")
            .input(known)
            .input(g.constant([1.0f32, 2.0]))
            .build();
        let grow = g.op(op).input(loose).input(g.constant([3.0f32; 3])).build();
        (set, grow)
    });
    let session = Session::with_options(&g, options).map_err(|e| e.to_string())?;
    session.run(set, []).unwrap();
    session.step(grow, []).map(drop).map_err(|e| e.to_string())
}

#[test]
fn a_value_larger_than_its_variable_is_rejected() {
    if !has_compiler() {
        return;
    }
    for op in ["AssignVariableOp", "AssignAddVariableOp"] {
        let cpu = assign_through_another_handle("/cpu:0", op, SessionOptions::new().threads(1));
        assert!(cpu.is_err(), "{op} on the CPU");
        let on_gpu = assign_through_another_handle("/gpu:0", op, options(&gpu()));
        assert!(on_gpu.is_err(), "{op} wrote 12 bytes into 8");
    }
}

#[test]
fn a_cross_entropy_of_zero_classes_writes_nothing_out_of_bounds() {
    if !has_compiler() {
        return;
    }
    let run = |device: &str, options: SessionOptions| {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [4, 0]);
        let y = g.placeholder("y", DType::F32, [4, 0]);
        let z = g.placeholder("z", DType::F32, [16]);
        let (loss, kept) = g.device(device, || {
            // The first buffer of the arena.
            let kept = z.square();
            let node = g
                .op("SoftmaxCrossEntropyWithLogits")
                .input(x)
                .input(y)
                .build();
            let after = g.control_dependencies([node], || kept + g.constant([0.0f32; 16]));
            (node.output(0), after)
        });
        let session = Session::with_options(&g, options).unwrap();
        let feeds = [
            x.feed(Tensor::new::<f32>(&[4, 0], &[]).unwrap()),
            y.feed(Tensor::new::<f32>(&[4, 0], &[]).unwrap()),
            z.feed(vec![2.0f32; 16]),
        ];
        let got = session
            .step((loss, kept), feeds)
            .map_err(|e| e.to_string())?;
        Ok::<_, String>((
            got.slice::<f32>(0).unwrap().to_vec(),
            got.slice::<f32>(1).unwrap().to_vec(),
        ))
    };
    let cpu = run("/cpu:0", SessionOptions::new().threads(1));
    let on_gpu = run("/gpu:0", options(&gpu()));
    assert_eq!(format!("{cpu:?}"), format!("{on_gpu:?}"));
}

#[test]
fn a_failing_step_leaves_variables_as_on_the_cpu() {
    if !has_compiler() {
        return;
    }
    let run = |device: &str, options: SessionOptions| {
        let g = Graph::new();
        let index = g.placeholder("index", DType::I32, [1]);
        let (init, bad_init, update, fresh, v) = g.device(device, || {
            let table = g.constant([1.0f32, 2.0]);
            let found = g
                .op("GatherV2")
                .input(table)
                .input(index)
                .input(g.constant(0i32))
                .output();
            let v = g.variable("v", [5.0f32]);
            let fresh = g.variable("fresh", [7.0f32]);
            (
                v.initializer(),
                fresh.assign(found),
                v.assign(found),
                fresh,
                v,
            )
        });
        let session = Session::with_options(&g, options).unwrap();
        session.run(init, []).unwrap();
        let bad = [index.feed([9i32])];
        let one = session.step(update, &bad).is_err();
        let two = session.step(bad_init, &bad).is_err();
        let v = session.run::<Vec<f32>>(v, []).unwrap();
        let fresh = session
            .step(fresh, [])
            .map(|f| f.slice::<f32>(0).unwrap().to_vec());
        format!(
            "{one} {two} v={v:?} fresh={:?}",
            fresh.map_err(|e| e.to_string())
        )
    };
    let cpu = run("/cpu:0", SessionOptions::new().threads(1));
    let on_gpu = run("/gpu:0", options(&gpu()));
    assert_eq!(cpu, on_gpu);
}

#[test]
fn dependents_of_a_failing_node_do_not_run() {
    if !has_compiler() {
        return;
    }
    let run = |device: &str, options: SessionOptions| {
        let g = Graph::new();
        let d = g.placeholder("d", DType::I32, [1]);
        let quotient = g.device(device, || {
            g.op("FloorDiv").input(g.constant([4i32])).input(d).output()
        });
        let v = g.device("/cpu:0", || g.variable("v", [5.0f32]));
        let update = g.control_dependencies([quotient.operation()], || {
            g.device("/cpu:0", || v.assign([6.0f32]))
        });
        let after = g.control_dependencies([update], || g.device("/cpu:0", || v.read()));
        let last = g.device(device, || after + g.constant([1.0f32]));
        let session = Session::with_options(&g, options).unwrap();
        session.run(v.initializer(), []).unwrap();
        let failed = session.step(last, [d.feed([0i32])]).is_err();
        let v = session.run::<Vec<f32>>(v, []).unwrap();
        format!("{failed} {v:?}")
    };
    let cpu = run("/cpu:0", SessionOptions::new().threads(1));
    let on_gpu = run("/gpu:0", options(&gpu()));
    assert_eq!(cpu, on_gpu);
}

#[test]
fn idle_plans_release_memory_for_a_new_variable() {
    if !has_compiler() {
        return;
    }
    let driver = EmulatedGpu::of(&Arc::new(Emulated::new(Checks::None)), 1 << 16);
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1]);
    let y = x.square().sum();
    let v = g.variable("v", vec![0.0f32; 1 << 13]);
    let session = Session::with_options(&g, options(&driver)).unwrap();
    // Keeps about 48 KiB of 64 in a frame.
    for _ in 0..3 {
        session.step(y, [x.feed(vec![1.0f32; 6000])]).unwrap();
    }
    session.run(v.initializer(), []).unwrap();
}

#[test]
fn a_counter_is_initialized_again_after_a_failure() {
    if !has_compiler() {
        return;
    }
    let draw = |fails: Option<usize>| {
        let driver = gpu();
        let g = Graph::new();
        g.set_seed(3);
        let r = g.device("/gpu:0", || {
            g.op("RandomUniform")
                .input(g.constant([4i32]))
                .attr("dtype", DType::F32)
                .attr("seed", 1)
                .attr("seed2", 2)
                .output()
        });
        let session = Session::with_options(&g, options(&driver)).unwrap();
        if let Some(n) = fails {
            driver.fail_after(n);
            driver.fail_after(usize::MAX);
        }
        session.run::<Vec<f32>>(r, []).unwrap()
    };
    assert_eq!(draw(None), draw(Some(0)));
}

#[test]
fn one_variable_as_two_inputs_of_an_update_is_rejected() {
    if !has_compiler() {
        return;
    }
    let run = |device: &str, options: SessionOptions| {
        let g = Graph::new();
        let (v, apply) = g.device(device, || {
            let v = g.variable("v", [1.0f32, 2.0]);
            let apply = g
                .op("ResourceApplyMomentum")
                .input(v.handle())
                .input(v.handle())
                .input(g.constant(0.5f32))
                .input(g.constant([1.0f32, 1.0]))
                .input(g.constant(0.9f32))
                .build();
            (v, apply)
        });
        let session = Session::with_options(&g, options).unwrap();
        session.run(v.initializer(), []).unwrap();
        session.step(apply, []).map(drop).map_err(|e| e.to_string())
    };
    let cpu = run("/cpu:0", SessionOptions::new().threads(1));
    let on_gpu = run("/gpu:0", options(&gpu()));
    assert_eq!(cpu.is_err(), on_gpu.is_err());
}

#[test]
fn a_plan_with_all_nodes_on_the_host_reports_it() {
    if !has_compiler() {
        return;
    }
    let driver = gpu();
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [2, 2]);
    let axes = g.placeholder("axes", DType::I32, [-1]);
    let sum = g.device("/gpu:0", || g.op("Sum").input(x).input(axes).output());
    let session = Session::with_options(&g, options(&driver)).unwrap();
    let feeds = [
        x.feed(Tensor::new(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap()),
        axes.feed([1i32]),
    ];
    session.step(sum, &feeds).unwrap();
    let plan = session.explain(sum, &feeds).unwrap();
    assert!(plan.contains("runs on the host of"), "{plan}");
}

#[test]
fn a_non_finite_value_is_found_where_it_is_read() {
    if !has_compiler() {
        return;
    }
    let run = |device: &str, options: SessionOptions| {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [1]);
        let (v, set) = g.device(device, || {
            let v = g.variable("v", [1.0f32]);
            (v, v.assign(x))
        });
        let session = Session::with_options(&g, options).unwrap();
        session.run(set, [x.feed([f32::NAN])]).unwrap();
        session
            .step_with(v, [], &RunOptions::new().checked())
            .is_err()
    };
    assert_eq!(
        run("/cpu:0", SessionOptions::new().threads(1)),
        run("/gpu:0", options(&gpu()))
    );
}

#[test]
fn a_value_beyond_all_memory_is_an_error() {
    if !has_compiler() {
        return;
    }
    let g = Graph::new();
    let all = g.device("/gpu:0", || {
        let x = g
            .op("Fill")
            .input(g.constant([1i64 << 30, 1i64 << 29]))
            .input(g.constant(0.0f32))
            .output();
        (0..10i64)
            .map(|i| {
                g.op("Reshape")
                    .input(x)
                    .input(g.constant([1i64 << (10 + i), 1i64 << (49 - i)]))
                    .output()
            })
            .collect::<Vec<_>>()
    });
    let session = Session::with_options(&g, options(&gpu())).unwrap();
    let got = session
        .step(&all[..], [])
        .map(drop)
        .map_err(|e| e.to_string());
    assert!(got.is_err());
}

#[test]
fn a_slot_smaller_than_its_variable_is_rejected() {
    if !has_compiler() {
        return;
    }
    let run = |device: &str, options: SessionOptions| {
        let g = Graph::new();
        let (sets, apply) = g.device(device, || {
            let var = g.variable("var", vec![1.0f32; 64]);
            let known = handle(&g, Shape::known(&[2]));
            let loose = handle(&g, Shape::unknown());
            let set = g
                .op("AssignVariableOp")
                .input(known)
                .input(g.constant([1.0f32, 2.0]))
                .build();
            let apply = g
                .op("ResourceApplyMomentum")
                .input(var.handle())
                .input(loose)
                .input(g.constant(0.5f32))
                .input(g.constant(vec![1.0f32; 64]))
                .input(g.constant(0.9f32))
                .build();
            ((set, var.initializer()), apply)
        });
        let session = Session::with_options(&g, options).map_err(|e| e.to_string())?;
        session.run(sets, []).unwrap();
        session.step(apply, []).map(drop).map_err(|e| e.to_string())
    };
    let cpu = run("/cpu:0", SessionOptions::new().threads(1));
    let on_gpu = run("/gpu:0", options(&gpu()));
    assert_eq!(cpu.is_err(), on_gpu.is_err());
}

#[test]
fn a_failing_initializer_is_not_reported_as_run() {
    if !has_compiler() {
        return;
    }
    for second in 0..6 {
        let driver = gpu();
        let g = Graph::new();
        let (a, b) = g.device("/gpu:0", || {
            (g.variable("a", [1.0f32]), g.variable("b", [2.0f32]))
        });
        let session = Session::with_options(&g, options(&driver)).unwrap();
        // After the constants, in the segment.
        driver.fail_after(3);
        let _ = session
            .step(g.initializers(), [])
            .map(drop)
            .map_err(|e| e.to_string());
        driver.fail_after(second);
        let _ = session
            .step(g.initializers(), [])
            .map(drop)
            .map_err(|e| e.to_string());
        driver.fail_after(usize::MAX);
        session.run(g.initializers(), []).unwrap();
        session
            .step((a, b), [])
            .map_err(|e| format!("{second}: {e}"))
            .unwrap();
    }
}

#[test]
fn a_graph_without_devices_runs_beside_a_gpu() {
    if !has_compiler() {
        return;
    }
    let run = |options: SessionOptions| {
        let g = Graph::new();
        let h = handle(&g, Shape::unknown());
        let set = g
            .op("AssignVariableOp")
            .input(h)
            .input(g.constant([1.0f32, 2.0]))
            .build();
        let read = g
            .op("ReadVariableOp")
            .input(h)
            .attr("dtype", DType::F32)
            .output();
        let session = Session::with_options(&g, options).unwrap();
        session.step(set, []).map_err(|e| e.to_string())?;
        session.step(read, []).map(drop).map_err(|e| e.to_string())
    };
    let cpu = run(SessionOptions::new().threads(1));
    let on_gpu = run(options(&gpu()).soft_placement(true));
    assert_eq!(cpu, on_gpu);
}

#[test]
fn a_sparse_cross_entropy_of_zero_classes_writes_nothing_out_of_bounds() {
    if !has_compiler() {
        return;
    }
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [4, 0]);
    let y = g.placeholder("y", DType::I32, [4]);
    let z = g.placeholder("z", DType::F32, [16]);
    let kept = g.device("/gpu:0", || {
        let kept = z.square();
        let node = g
            .op("SparseSoftmaxCrossEntropyWithLogits")
            .input(x)
            .input(y)
            .build();
        g.control_dependencies([node], || kept + g.constant([0.0f32; 16]))
    });
    let session = Session::with_options(&g, options(&gpu())).unwrap();
    let feeds = [
        x.feed(Tensor::new::<f32>(&[4, 0], &[]).unwrap()),
        y.feed([0i32; 4]),
        z.feed(vec![2.0f32; 16]),
    ];
    let got = session.step(kept, feeds).unwrap();
    assert_eq!(got.slice::<f32>(0).unwrap(), [4.0f32; 16]);
}

#[test]
fn a_device_with_a_large_index_is_an_error() {
    let spec: DeviceSpec = "/gpu:2147483647".parse().unwrap();
    let g = Graph::new();
    let _ = g.constant(1.0f32);
    assert!(Session::with_options(&g, SessionOptions::default().for_device(&spec)).is_err());
}

#[test]
fn is_initialized_works_on_a_gpu() {
    if !has_compiler() {
        return;
    }
    let g = Graph::new();
    let v = g.variable("v", [1.0f32]);
    let asked = || g.op("VarIsInitializedOp").input(v.handle()).output();
    let has = asked();
    let after = g.control_dependencies([v.initializer()], asked);
    let session = Session::with_options(&g, options(&gpu())).unwrap();
    let plan = session.explain(v.initializer(), []).unwrap();
    assert!(
        plan.contains("GPU:0"),
        "it does not move the variable: {plan}"
    );
    assert!(!session.run::<bool>(has, []).unwrap());
    for _ in 0..4 {
        assert!(session.run::<bool>(after, []).unwrap());
        assert!(session.run::<bool>(has, []).unwrap());
    }
}
