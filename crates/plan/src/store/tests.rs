use std::sync::Arc;

use thalweg_device::Cpu;

use super::*;
use crate::testing::idle_gpu;

fn cpu() -> Device {
    Device::Cpu(Cpu::new(1))
}

/// The variable of this device, container and name, a scalar of f32.
fn variable(store: &Store, device: u32, container: &str, name: &str) -> Arc<Variable> {
    let on = (device, &cpu());
    store
        .variable(on, container, name, DType::F32, &Shape::scalar())
        .unwrap()
}

#[test]
fn handles_of_one_name_are_one_variable_on_one_device_and_in_one_container() {
    let store = Store::default();
    let w = variable(&store, 0, "", "w");
    assert!(Arc::ptr_eq(&w, &variable(&store, 0, "", "w")));
    for (device, container, name) in [(1, "", "w"), (0, "mine", "w"), (0, "", "v")] {
        assert!(!Arc::ptr_eq(&w, &variable(&store, device, container, name)));
    }
}

#[test]
fn a_variable_keeps_the_dtype_and_shape_that_it_was_made_with() {
    let store = Store::default();
    variable(&store, 0, "", "w");
    let shape = Shape::known(&[2]);
    let again = store.variable((0, &cpu()), "", "w", DType::I32, &shape);
    let again = again.unwrap();
    assert_eq!(
        (again.dtype(), again.shape()),
        (DType::F32, &Shape::scalar())
    );
}

#[test]
fn values_are_in_the_order_of_names_with_the_container_before_them() {
    let store = Store::default();
    for (device, container, name, value) in [
        (0, "", "w", Some(1.0f32)),
        (0, "mine", "a", Some(2.0)),
        (0, "", "b", None),
        // Of one name on two devices, that on the first counts.
        (1, "", "w", Some(3.0)),
        (1, "", "a", Some(4.0)),
    ] {
        let variable = variable(&store, device, container, name);
        if let Some(value) = value {
            variable.assign(value.into()).unwrap();
        }
    }
    let expected = [("a", 4.0f32), ("mine/a", 2.0), ("w", 1.0)];
    let expected = expected.map(|(name, value)| (name.to_owned(), Tensor::from(value)));
    assert_eq!(store.values(), expected);
}

#[test]
fn a_shared_object_is_made_once_and_an_error_is_not_kept() {
    let store = Store::default();
    let mut make = || Err(KernelError::Stopped);
    assert!(store.object("", "queue", &mut make).is_err());
    let mut made = 0;
    let mut make = || {
        made += 1;
        Ok(Arc::new(made) as SharedObject)
    };
    let first = store.object("", "queue", &mut make).unwrap();
    let again = store.object("", "queue", &mut make).unwrap();
    let other = store.object("mine", "queue", &mut make).unwrap();
    assert!(Arc::ptr_eq(&first, &again) && !Arc::ptr_eq(&first, &other));
    assert_eq!(made, 2);
}

#[test]
fn clearing_a_container_leaves_the_others() {
    let store = Store::default();
    let mut make = || Ok(Arc::new(0) as SharedObject);
    let kept = variable(&store, 0, "", "w");
    let cleared = variable(&store, 0, "mine", "w");
    let kept_object = store.object("", "q", &mut make).unwrap();
    let cleared_object = store.object("mine", "q", &mut make).unwrap();
    store.clear("mine");
    assert!(Arc::ptr_eq(&kept, &variable(&store, 0, "", "w")));
    assert!(!Arc::ptr_eq(&cleared, &variable(&store, 0, "mine", "w")));
    let again =
        |container, make: &mut dyn FnMut() -> _| store.object(container, "q", make).unwrap();
    assert!(Arc::ptr_eq(&kept_object, &again("", &mut make)));
    assert!(!Arc::ptr_eq(&cleared_object, &again("mine", &mut make)));
}

#[test]
fn a_variable_on_a_gpu_has_memory_of_its_shape_from_the_start() {
    let device = Device::Gpu(idle_gpu());
    let store = Store::default();
    let make =
        |name: &str, dtype, shape: &Shape| store.variable((0, &device), "", name, dtype, shape);
    let w = make("w", DType::F32, &Shape::known(&[3, 5])).unwrap();
    assert!(w.resident().is_some_and(|r| !r.is_initialized()));
    assert_eq!(device.memory().used(), 60);
    for (dtype, shape, text) in [
        (
            DType::F32,
            Shape::partial([None, Some(2)]),
            "a variable on a GPU needs a known shape, and this one is f32[?,2]: place it on a CPU",
        ),
        (
            DType::String,
            Shape::scalar(),
            "a variable on a GPU needs a known shape, and this one is string[]: place it on a CPU",
        ),
        (
            DType::F64,
            Shape::known(&[usize::MAX / 4]),
            "no memory holds a variable f64[4611686018427387903]",
        ),
    ] {
        assert_eq!(make("v", dtype, &shape).unwrap_err().to_string(), text);
    }
    // A value there is in no tensor.
    assert_eq!(store.values(), []);
}

#[test]
fn counters_of_random_ops_are_saved_and_restored_by_node() {
    let counters = Counters::default();
    counters.of("b").store(7, Ordering::Relaxed);
    counters.of("a");
    let state = [("a".to_owned(), 0), ("b".to_owned(), 7)];
    assert_eq!(counters.state(), state);
    let restored = Counters::default();
    let held = restored.of("b");
    restored.set(&state);
    assert_eq!(
        (held.load(Ordering::Relaxed), restored.state()),
        (7, state.to_vec())
    );
}

#[test]
fn counters_on_gpus_are_apart_by_device_and_node() {
    let gpu = idle_gpu();
    let counters = Counters::default();
    let counter = |device, node| counters.on_gpu(device, &gpu, node).unwrap();
    let first = counter(0, "noise");
    assert!(Arc::ptr_eq(&first, &counter(0, "noise")));
    assert!(!Arc::ptr_eq(&first, &counter(1, "noise")));
    assert!(!Arc::ptr_eq(&first, &counter(0, "dropout")));
    assert!(!first.started.load(Ordering::Relaxed));
    // They are on a GPU, and not part of the state of CPUs.
    assert_eq!(counters.state(), []);
}
