//! The placer beyond the cases that TensorFlow can be asked for on a machine without GPUs (those
//! are in tests/placement.rs): types, errors, fallbacks, reports, and graphs that grow.

#[path = "support/sketch.rs"]
mod sketch;

use sketch::{ADD, CONST, DECODE, FUSED, HANDLE, READ, SHAPE, Sketch, spec, specs, strict};
use thalweg_graph::DeviceSpec;
use thalweg_graph::place::{
    NamePart, PlaceError, PlaceOptions, PlaceReason, PlacementReason, place,
};

const MACHINE: [&str; 4] = ["a:0:CPU:0", "a:0:CPU:1", "a:0:GPU:0", "a:0:GPU:1"];

fn placed(sketch: &Sketch, options: &PlaceOptions<'_>) -> Vec<String> {
    let placement = place(&sketch.0, options).expect("a placement");
    let short = |d: &DeviceSpec| {
        format!(
            "{}:{}",
            d.device_type.as_deref().unwrap_or(""),
            d.index.unwrap_or(0)
        )
    };
    sketch.0.ids().map(|id| short(placement.name(id))).collect()
}

fn refused(sketch: &Sketch, options: &PlaceOptions<'_>) -> PlaceError {
    place(&sketch.0, options).expect_err("no placement")
}

#[test]
fn the_first_device_of_the_best_type_is_taken() {
    let devices = specs(&MACHINE);
    let mut s = Sketch::default();
    let a = s.add(&DECODE, "a", &[]);
    let b = s.on(&ADD, "b", &[a], "::CPU", &[]);
    let c = s.on(&ADD, "c", &[b], ":::1", &[]);
    s.add(&ADD, "d", &[c]);
    assert_eq!(
        placed(&s, &strict(&devices)),
        ["CPU:0", "CPU:0", "GPU:1", "GPU:0"]
    );
    let listed_otherwise = specs(&["a:0:CPU:1", "a:0:CPU:0"]);
    let mut s = Sketch::default();
    s.add(&DECODE, "a", &[]);
    assert_eq!(placed(&s, &strict(&listed_otherwise)), ["CPU:1"]);
}

#[test]
fn a_group_runs_on_a_type_that_all_of_it_can() {
    let devices = specs(&MACHINE);
    let mut s = Sketch::default();
    let v = s.add(&HANDLE, "v", &[]);
    let r = s.add(&READ, "r", &[v]);
    let d = s.on(&DECODE, "d", &[r], "", &["v"]);
    s.add(&ADD, "y", &[d]);
    assert_eq!(
        placed(&s, &strict(&devices)),
        ["CPU:0", "CPU:0", "CPU:0", "GPU:0"]
    );
}

#[test]
fn followers_may_be_on_a_worse_type() {
    let devices = specs(&MACHINE);
    let mut s = Sketch::default();
    let c = s.add(&CONST, "c", &[]);
    let d = s.add(&DECODE, "d", &[c]);
    s.add(&SHAPE, "s", &[d]);
    let mut options = strict(&devices);
    assert_eq!(placed(&s, &options), ["CPU:0", "CPU:0", "CPU:0"]);
    options.deny_fallback = true;
    assert_eq!(placed(&s, &options), ["CPU:0", "CPU:0", "CPU:0"]);
}

#[test]
fn an_unknown_job_is_an_error_with_the_nearest_device() {
    let devices = specs(&["ps:0:CPU:0", "worker:0:CPU:0", "worker:1:CPU:0"]);
    let mut s = Sketch::default();
    s.on(&ADD, "y", &[], "wroker:1", &[]);
    for soft in [false, true] {
        let mut options = strict(&devices);
        options.soft = soft;
        let error = refused(&s, &options);
        let expected = PlaceReason::NoSuchDevice {
            asked: spec("wroker:1"),
            part: NamePart::Job,
            value: "wroker".to_owned(),
            exists: vec!["ps".to_owned(), "worker".to_owned()],
            nearest: Some(spec("worker:1:CPU:0")),
        };
        assert_eq!(error.reason, expected);
        assert_eq!(
            error.to_string(),
            "node 'y' (Add), made at sketch, cannot be placed: there is no job wroker, which \
             /job:wroker/task:1 asks for; there is ps, worker: did you mean \
             /job:worker/task:1/device:CPU:0?"
        );
    }
}

#[test]
fn a_task_out_of_range_is_an_error_with_the_tasks_of_that_job() {
    let devices = specs(&["ps:0:CPU:0", "worker:0:CPU:0", "worker:1:CPU:0"]);
    let mut s = Sketch::default();
    s.on(&ADD, "y", &[], "worker:7:GPU", &[]);
    let PlaceReason::NoSuchDevice {
        part,
        exists,
        nearest,
        ..
    } = refused(&s, &strict(&devices)).reason
    else {
        panic!("another error");
    };
    assert_eq!(
        (part, exists),
        (NamePart::Task, vec!["0".to_owned(), "1".to_owned()])
    );
    assert_eq!(nearest, Some(spec("worker:1:CPU:0")));
}

#[test]
fn a_device_without_a_kernel_is_an_error_with_the_types_that_have_one() {
    let devices = specs(&MACHINE);
    let mut s = Sketch::default();
    s.on(&DECODE, "y", &[], "::GPU:1", &[]);
    assert_eq!(
        refused(&s, &strict(&devices)).to_string(),
        "node 'y' (Decode), made at sketch, cannot be placed: there is no kernel for it on /device:GPU:1; \
         there is one for CPU, and the devices are of type CPU, GPU: ask for one of those"
    );
    let mut options = strict(&devices);
    options.soft = true;
    assert_eq!(placed(&s, &options), ["CPU:0"]);
}

#[test]
fn an_op_that_no_device_has_a_kernel_for_is_an_error() {
    let devices = specs(&MACHINE[..2]);
    let mut s = Sketch::default();
    s.add(&FUSED, "y", &[]);
    let error = refused(&s, &strict(&devices));
    assert!(
        matches!(error.reason, PlaceReason::NoKernel { .. }),
        "{error}"
    );
    let none: &dyn Fn(&_) -> _ = &|_| Default::default();
    let options = PlaceOptions {
        kernels: none,
        ..strict(&devices)
    };
    assert_eq!(
        refused(&s, &options).to_string(),
        "node 'y' (Fused), made at sketch, cannot be placed: there is no kernel for it on any device; \
         no device type has one: use another op or dtype, or give the session your own op (SessionOptions::ops)"
    );
}

#[test]
fn a_conflict_lists_every_member_with_what_it_asks_for() {
    let devices = specs(&MACHINE);
    let mut s = Sketch::default();
    s.on(&ADD, "a", &[], "::CPU:0", &[]);
    s.on(&ADD, "b", &[], "", &["a"]);
    s.on(&ADD, "unrelated", &[], "::CPU:1", &[]);
    s.on(&DECODE, "c", &[], "::CPU:1", &["b"]);
    let error = refused(&s, &strict(&devices));
    assert_eq!(
        error.to_string(),
        "node 'c' (Decode), made at sketch, cannot be placed: it must stand with 'b', but one \
         asks for /device:CPU:0 and the other for /device:CPU:1, which differ in the device \
         number: change one of them, or do not colocate them\n\
         the nodes that would stand together:\n  \
         a (Add), made at sketch: asks for /device:CPU:0, runs on GPU, CPU\n  \
         b (Add), made at sketch: asks for any device, runs on GPU, CPU\n  \
         c (Decode), made at sketch: asks for /device:CPU:1, runs on CPU"
    );
}

#[test]
fn nodes_without_a_common_type_cannot_share_a_device() {
    let devices = specs(&MACHINE);
    let mut s = Sketch::default();
    s.add(&FUSED, "a", &[]);
    s.on(&DECODE, "b", &[], "", &["a"]);
    let error = refused(&s, &strict(&devices));
    assert!(
        matches!(error.reason, PlaceReason::NoCommonType { .. }),
        "{error}"
    );
    // Soft placement gives up an impossible colocation, as TensorFlow does.
    let mut options = strict(&devices);
    options.soft = true;
    assert_eq!(placed(&s, &options), ["GPU:0", "CPU:0"]);
    options.deny_fallback = true;
    let error = refused(&s, &options);
    assert!(
        matches!(error.reason, PlaceReason::NoCommonType { .. }),
        "{error}"
    );
}

#[test]
fn without_devices_nothing_can_be_placed() {
    let mut s = Sketch::default();
    assert!(place(&s.0, &strict(&[])).expect("no nodes").is_empty());
    s.add(&ADD, "y", &[]);
    assert_eq!(refused(&s, &strict(&[])).reason, PlaceReason::NoDevices);
    // A device with an empty spec runs nothing.
    let nameless = [DeviceSpec::default()];
    let error = refused(&s, &strict(&nameless));
    assert!(
        matches!(error.reason, PlaceReason::NoKernel { .. }),
        "{error}"
    );
}

#[test]
fn deny_fallback_refuses_another_device_than_was_asked_for() {
    let devices = specs(&MACHINE[..2]);
    let mut s = Sketch::default();
    s.on(&ADD, "y", &[], "::GPU:0", &[]);
    let mut options = strict(&devices);
    options.soft = true;
    assert_eq!(placed(&s, &options), ["CPU:0"]);
    options.deny_fallback = true;
    assert_eq!(
        refused(&s, &options).to_string(),
        "node 'y' (Add), made at sketch, cannot be placed: it would run on \
         /job:a/task:0/device:CPU:0 and not on /device:GPU:0, which deny_fallback forbids: ask \
         for a device that can be had, or allow the fallback"
    );

    let mut s = Sketch::default();
    let v = s.on(&HANDLE, "v", &[], "::CPU:1", &[]);
    s.on(&READ, "r", &[v], "::CPU:0", &[]);
    options.soft = false;
    let error = refused(&s, &options);
    assert_eq!(error.node, "r", "{error}");
}

#[test]
fn deny_fallback_refuses_a_worse_type_unless_it_was_asked_for() {
    let devices = specs(&MACHINE);
    let mut options = strict(&devices);
    options.deny_fallback = true;
    let mut s = Sketch::default();
    s.on(&ADD, "asks", &[], "::CPU", &[]);
    let v = s.on(&HANDLE, "v", &[], "::CPU:0", &[]);
    s.add(&READ, "with a variable that asks", &[v]);
    assert_eq!(placed(&s, &options), ["CPU:0", "CPU:0", "CPU:0"]);

    let mut held_back = Sketch::default();
    held_back.add(&DECODE, "d", &[]);
    held_back.on(&ADD, "y", &[], "", &["d"]);
    let error = refused(&held_back, &options);
    let PlaceReason::Fallback { better, .. } = &error.reason else {
        panic!("{error}");
    };
    assert_eq!((error.node.as_str(), *better), ("y", Some("GPU")));

    // On a machine without a GPU, nodes that prefer one do not run silently.
    let mut plain = Sketch::default();
    plain.add(&ADD, "y", &[]);
    assert_eq!(placed(&plain, &options), ["GPU:0"]);
    options.devices = &devices[..2];
    let error = refused(&plain, &options);
    assert!(
        matches!(error.reason, PlaceReason::Fallback { .. }),
        "{error}"
    );
}

#[test]
fn the_report_has_the_reason_of_each_placement() {
    let devices = specs(&MACHINE);
    let mut s = Sketch::default();
    let v = s.on(&HANDLE, "v", &[], "::CPU:1", &[]);
    let r = s.on(&READ, "r", &[v], "::CPU:0", &[]);
    let c = s.add(&CONST, "c", &[]);
    let y = s.add(&ADD, "y", &[r, c]);
    let z = s.on(&DECODE, "z", &[y], "::GPU:0", &[]);
    s.add(&SHAPE, "s", &[z]);
    let mut options = strict(&devices);
    options.soft = true;
    let placement = place(&s.0, &options).expect("a placement");
    let text = placement.report(&s.0).to_text();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    assert_eq!(
        lines,
        [
            "node  op              asked for      device                      why",
            "v     VarHandleOp     /device:CPU:1  /job:a/task:0/device:CPU:1  asked for",
            "r     ReadVariableOp  /device:CPU:0  /job:a/task:0/device:CPU:1  with v, although another was asked for",
            "c     Const           -              /job:a/task:0/device:GPU:0  follows its consumers (y)",
            "y     Add             -              /job:a/task:0/device:GPU:0  first of the best type",
            "z     Decode          /device:GPU:0  /job:a/task:0/device:CPU:0  soft: /device:GPU:0 cannot be had",
            "s     Shape           -              /job:a/task:0/device:CPU:0  follows its input z",
        ]
    );
    let ids: Vec<_> = s.0.ids().collect();
    assert_eq!(placement.why(ids[1]), PlacementReason::With(ids[0]));
}

#[test]
fn earlier_placements_stay_when_the_graph_grows() {
    let devices = specs(&MACHINE);
    let mut s = Sketch::default();
    let c = s.add(&CONST, "c", &[]);
    let v = s.add(&HANDLE, "v", &[]);
    let first = place(&s.0, &strict(&devices)).expect("a placement");
    // Alone they are on the first device; later nodes would have drawn them elsewhere.
    s.on(&ADD, "y", &[c], "::CPU:1", &[]);
    s.on(&READ, "r", &[v], "::CPU:1", &[]);
    assert_eq!(
        placed(&s, &strict(&devices)),
        ["CPU:1", "CPU:1", "CPU:1", "CPU:1"]
    );
    let mut options = strict(&devices);
    options.fixed = Some(&first);
    assert_eq!(placed(&s, &options), ["GPU:0", "GPU:0", "CPU:1", "GPU:0"]);
    // Devices are found by name, whatever their order now.
    let other: Vec<DeviceSpec> = devices.iter().rev().cloned().collect();
    options.devices = &other;
    assert_eq!(placed(&s, &options), ["GPU:0", "GPU:0", "CPU:1", "GPU:0"]);
    options.devices = &devices[..2];
    let error = refused(&s, &options);
    assert!(
        matches!(error.reason, PlaceReason::NoSuchDevice { .. }),
        "{error}"
    );
}

#[test]
fn two_groups_that_are_placed_apart_cannot_be_joined_later() {
    let devices = specs(&MACHINE);
    let mut s = Sketch::default();
    let v = s.on(&HANDLE, "v", &[], "::CPU:0", &[]);
    let w = s.on(&HANDLE, "w", &[], "::CPU:1", &[]);
    let first = place(&s.0, &strict(&devices)).expect("a placement");
    s.add(&ADD, "both", &[v, w]);
    for soft in [false, true] {
        let mut options = strict(&devices);
        (options.soft, options.fixed) = (soft, Some(&first));
        let error = refused(&s, &options);
        assert!(
            matches!(error.reason, PlaceReason::Conflict { resource: true, .. }),
            "{error}"
        );
    }
}
