use std::sync::atomic::Ordering;

use thalweg_tensor::Shape;

use super::*;
use crate::evaluate::tensor_slot;

/// Memory of the arguments of a run.
struct Run {
    cpu: Cpu,
    inputs: Vec<Slot>,
    outputs: Vec<Slot>,
    variables: Vec<Option<Arc<Variable>>>,
    scratch: Vec<u64>,
    /// They own the elements of the slots.
    _tensors: Vec<Tensor>,
}

impl Run {
    fn new(inputs: &[&Tensor], outputs: &[Tensor]) -> Run {
        Run {
            cpu: Cpu::new(1),
            inputs: inputs.iter().map(|t| tensor_slot(t)).collect(),
            outputs: outputs.iter().map(tensor_slot).collect(),
            variables: Vec::new(),
            scratch: vec![0; 8],
            _tensors: inputs
                .iter()
                .map(|t| (*t).clone())
                .chain(outputs.iter().cloned())
                .collect(),
        }
    }

    fn with(variables: &[&Arc<Variable>]) -> Run {
        let mut run = Run::new(&[], &[]);
        run.variables = variables.iter().map(|v| Some((*v).clone())).collect();
        run.variables.push(None);
        run
    }

    fn cx(&mut self) -> KernelCx<'_> {
        let scratch = (self.scratch.as_mut_ptr().cast(), self.scratch.len() * 8);
        let (inputs, outputs) = (&self.inputs, &self.outputs);
        // SAFETY: the tensors live in `self`, and nothing else uses the outputs during the run; the scratch memory is
        // exclusive, and no test needs a greater alignment.
        unsafe { KernelCx::new(&self.cpu, inputs, outputs, &self.variables, None, scratch) }
    }
}

fn zeros(dtype: DType, len: usize) -> Tensor {
    Tensor::zeros(dtype, &[len]).unwrap()
}

fn refused<T>(found: Result<T, KernelError>, argument: &str) -> bool {
    matches!(found, Err(KernelError::Argument(a)) if a == argument)
}

#[test]
fn an_input_is_read_as_its_own_dtype_alone() {
    let x = Tensor::vector(&[1.0f32, 2.0]);
    let mut run = Run::new(&[&x], &[]);
    let cx = run.cx();
    assert_eq!(cx.input::<f32>(0).unwrap(), [1.0, 2.0]);
    assert_eq!(cx.input_bytes(0).unwrap(), x.bytes());
    assert!(matches!(
        cx.input::<f64>(0),
        Err(KernelError::DType(DType::F32))
    ));
    assert!(refused(cx.input::<f32>(1), "an argument"));
    assert!(refused(cx.input_bytes(1), "an argument"));
}

#[test]
fn each_output_is_handed_out_once_however_many_there_are() {
    let outputs: Vec<Tensor> = (0..130).map(|_| zeros(DType::F32, 2)).collect();
    let mut run = Run::new(&[], &outputs);
    let cx = run.cx();
    // Beyond a word of bits too, in any order.
    for i in [129, 0, 63, 64, 127, 128, 1] {
        assert!(matches!(cx.output::<f64>(i), Err(KernelError::DType(_))));
        assert_eq!(cx.output::<f32>(i).unwrap().len(), 2);
        assert!(refused(
            cx.output::<f32>(i),
            "an output for the second time"
        ));
        assert!(refused(cx.output_bytes(i), "an output for the second time"));
        assert!(refused(cx.output_slot(i), "an output for the second time"));
    }
    assert!(refused(cx.output::<f32>(130), "an argument"));
    assert!(refused(cx.output_slot(130), "an argument"));
}

#[test]
fn an_output_of_bools_is_cleared_and_has_no_bytes() {
    let mut run = Run::new(&[], &[zeros(DType::Bool, 3), zeros(DType::Bool, 3)]);
    // SAFETY: the slot has three bytes, which no one reads as bools before they are cleared.
    unsafe { run.outputs[0].ptr.write_bytes(7, 3) };
    let cx = run.cx();
    assert_eq!(cx.output::<bool>(0).unwrap(), [false; 3]);
    assert!(matches!(
        cx.output_bytes(1),
        Err(KernelError::DType(DType::Bool))
    ));
}

#[test]
fn an_input_in_the_place_of_an_output_comes_with_it_or_not_at_all() {
    let (x, other) = (
        Tensor::vector(&[1.0f32, 2.0]),
        Tensor::vector(&[3.0f32, 4.0]),
    );
    let shared = zeros(DType::F32, 2);
    let mut run = Run::new(&[&shared, &other], &[]);
    run.outputs = vec![run.inputs[0], tensor_slot(&x)];
    let cx = run.cx();
    assert!(cx.is_in_place(0, 0) && !cx.is_in_place(1, 0) && !cx.is_in_place(0, 1));
    assert!(refused(cx.input::<f32>(0), "an input that is overwritten"));
    assert!(refused(cx.input_bytes(0), "an input that is overwritten"));
    match cx.in_out::<f32>(1, 1).unwrap() {
        InOut::Apart(read, written) => assert_eq!((read, written.len()), (&[3.0, 4.0][..], 2)),
        InOut::Same(_) => panic!("they are apart"),
    }
    match cx.in_out_bytes(0, 0).unwrap() {
        InOut::Same(bytes) => assert_eq!(bytes.len(), 8),
        InOut::Apart(..) => panic!("they are one buffer"),
    }
    assert!(refused(
        cx.in_out::<f32>(0, 0),
        "an output for the second time"
    ));
}

#[test]
fn empty_slots_have_no_elements_and_are_in_no_place() {
    let empty = zeros(DType::F32, 0);
    let mut run = Run::new(&[&empty], std::slice::from_ref(&empty));
    run.inputs.push(Slot::empty(DType::F32));
    let cx = run.cx();
    assert!(!cx.is_in_place(0, 0));
    assert_eq!(
        (
            cx.input::<f32>(0).unwrap().len(),
            cx.input::<f32>(1).unwrap().len()
        ),
        (0, 0)
    );
    assert_eq!(cx.output::<f32>(0).unwrap().len(), 0);
}

#[test]
fn scratch_memory_is_handed_out_once_and_no_more_than_was_asked_for() {
    let mut run = Run::new(&[], &[]);
    let missing = "scratch memory";
    let cx = run.cx();
    assert!(cx.scratch::<f32>(0).unwrap().is_empty());
    assert_eq!(cx.scratch::<f32>(16).unwrap().len(), 16);
    assert!(refused(cx.scratch::<f32>(1), missing));
    for len in [17, usize::MAX] {
        assert!(refused(run.cx().scratch::<f32>(len), missing));
    }
    assert!(refused(run.cx().scratch::<bool>(1), missing));
}

#[test]
fn a_kernel_that_another_runs_has_its_variables_and_arguments_of_its_own() {
    let v = Arc::new(Variable::new("v", DType::F32, Shape::scalar()));
    let x = Tensor::vector(&[1.0f32, 2.0]);
    let counter = AtomicU64::new(3);
    let (mut run, part) = (Run::with(&[&v]), [tensor_slot(&x)]);
    let outer = KernelCx {
        counter: Some(&counter),
        ..run.cx()
    };
    // SAFETY: the slot is that of a tensor, which lives; there are no outputs, and no scratch memory.
    let inner = unsafe { outer.inner(&part, &[], (std::ptr::null_mut(), 0)) };
    assert_eq!(inner.input::<f32>(0).unwrap(), [1.0, 2.0]);
    assert_eq!(inner.variable(0).unwrap().name(), "v");
    assert_eq!(inner.counter().unwrap().load(Ordering::Relaxed), 3);
    assert!(refused(outer.input::<f32>(0), "an argument"));
    drop(inner);
    drop(outer);
    assert!(refused(run.cx().counter(), "a counter"));
}

/// A variable of two elements with this value in each.
fn variable(name: &str, value: f32) -> Arc<Variable> {
    let v = Variable::new(name, DType::F32, Shape::known(&[2]));
    v.assign(Tensor::vector(&[value; 2])).unwrap();
    Arc::new(v)
}

fn values(v: &Variable) -> Vec<f32> {
    v.read().unwrap().to_vec().unwrap()
}

#[test]
fn an_update_gets_the_elements_in_the_order_of_its_inputs() {
    let (a, b) = (variable("a", 1.0), variable("b", 2.0));
    let held = a.read().unwrap();
    let mut run = Run::with(&[&a, &b]);
    let cx = run.cx();
    for (inputs, expected) in [([0, 1], [1.0, 2.0]), ([1, 0], [2.0, 11.0])] {
        let updated = cx.update::<f32, 2>(inputs, |[x, y]| {
            assert_eq!([x[0], y[0]], expected);
            x.iter_mut().for_each(|x| *x += 10.0);
            Ok(())
        });
        updated.unwrap();
    }
    assert_eq!((values(&a), values(&b)), (vec![11.0; 2], vec![12.0; 2]));
    // Earlier readers keep their values.
    assert_eq!(held.to_vec::<f32>().unwrap(), [1.0; 2]);
}

#[test]
fn updates_of_missing_uninitialized_or_equal_variables_are_errors() {
    let (a, empty) = (
        variable("a", 1.0),
        Arc::new(Variable::new("empty", DType::F32, Shape::scalar())),
    );
    let mut run = Run::with(&[&a, &a, &empty]);
    let cx = run.cx();
    type Update<'c> = &'c dyn Fn(&[usize]) -> Result<(), KernelError>;
    let tensors = |inputs: &[usize]| cx.update_tensors(inputs, &mut |_| panic!("not called"));
    let renewals = |inputs: &[usize]| cx.renew(inputs, &mut |_| panic!("not called"));
    for update in [&tensors as Update<'_>, &renewals] {
        for inputs in [&[3][..], &[9], &[0, 3]] {
            assert!(refused(update(inputs), "a variable"));
        }
        for inputs in [&[2][..], &[0, 2]] {
            assert_eq!(update(inputs), Err(empty.uninitialized()));
        }
        let twice = "one variable stands behind two of the inputs: give each its own";
        assert_eq!(update(&[0, 1]), Err(KernelError::Invalid(twice.to_owned())));
    }
    assert!(cx.update::<f64, 1>([0], |_| Ok(())).is_err());
    assert_eq!(values(&a), [1.0; 2]);
}

#[test]
fn a_renewal_writes_in_place_unless_a_value_is_held() {
    let (a, b) = (variable("a", 1.0), variable("b", 2.0));
    let mut run = Run::with(&[&a, &b]);
    let cx = run.cx();
    let renew = |held: [bool; 2]| {
        let mut call = |renewals: &mut [Renewal<'_>]| {
            let olds: Vec<bool> = renewals.iter().map(|r| r.old.is_some()).collect();
            assert_eq!(olds, held);
            for r in renewals {
                let source = r.old.map(|o| o.to_vec::<f32>().unwrap());
                let new = r.new.as_mut_slice::<f32>()?;
                let old = source.unwrap_or_else(|| new.to_vec());
                new.iter_mut()
                    .zip(old)
                    .for_each(|(new, old)| *new = old + 10.0);
            }
            Ok(())
        };
        cx.renew(&[0, 1], &mut call).unwrap();
    };
    renew([false, false]);
    let reader = b.read().unwrap();
    renew([false, true]);
    assert_eq!((values(&a), values(&b)), (vec![21.0; 2], vec![22.0; 2]));
    assert_eq!(reader.to_vec::<f32>().unwrap(), [12.0; 2]);
}

#[test]
fn a_renewal_that_fails_leaves_a_held_value_as_it_was() {
    let a = variable("a", 1.0);
    let reader = a.read().unwrap();
    let mut run = Run::with(&[&a]);
    let failed = run.cx().renew(&[0], &mut |renewals| {
        renewals[0].new.as_mut_slice::<f32>()?.fill(9.0);
        Err(KernelError::Stopped)
    });
    assert_eq!(failed, Err(KernelError::Stopped));
    assert_eq!(
        (values(&a), reader.to_vec::<f32>().unwrap()),
        (vec![1.0; 2], vec![1.0; 2])
    );
}
