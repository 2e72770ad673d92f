//! Ops that copy elements, on tensors that are large enough to be split into pieces for threads.

use thalweg_device::{Argument, Cpu, KernelError, evaluate};
use thalweg_graph::{Attr, Graph};
use thalweg_ops::{NewGraph, SourceOps};
use thalweg_tensor::{DType, Element, Tensor, dispatch};

/// Runs a node of `op` on these inputs.
fn run(op: &str, attrs: &[(&str, Attr)], inputs: &[Tensor]) -> Result<Tensor, KernelError> {
    let g = Graph::new();
    let mut node = g.op(op);
    for t in inputs {
        node = node.input(g.placeholder("x", t.dtype(), t.shape()));
    }
    for (name, value) in attrs {
        node = node.attr(name, value.clone());
    }
    let id = node.build().id();
    assert!(g.errors().is_empty(), "{:?}", g.errors());
    let data = g.snapshot();
    let arguments: Vec<Argument<'_>> = inputs.iter().map(Argument::Value).collect();
    let on = |threads| {
        let cpu = Cpu::new(threads);

        evaluate(
            &cpu,
            thalweg_ops::kernels()[op],
            data.node(id),
            &arguments,
            None,
        )
    };
    let (one, three) = (on(1), on(3));
    assert_eq!(one, three, "the number of threads is seen");
    one.map(|mut outputs| outputs.remove(0))
}

/// 0, 1, 2, ... up to the maximum of `dtype`, then again from 0.
fn counted(dtype: DType, dims: &[usize]) -> Tensor {
    fn of<T: Element>(dims: &[usize], make: impl Fn(usize) -> T) -> Tensor {
        let n = dims.iter().product();
        Tensor::new(dims, &(0..n).map(make).collect::<Vec<T>>()).unwrap()
    }
    match dtype {
        DType::Bool => of(dims, |i| i * 7 % 3 == 0),
        DType::U8 => of(dims, |i| i as u8),
        DType::I16 => of(dims, |i| i as i16),
        DType::I64 => of(dims, |i| i as i64),
        _ => of(dims, |i| i as f32),
    }
}

/// Asserts that element `i` of `found` is element `from(index of i)` of `x`.
fn check(x: &Tensor, found: &Tensor, from: impl Fn(&[usize]) -> usize) {
    dispatch!(x.dtype(), PLAIN, T => {
        let (x, y) = (x.as_slice::<T>().unwrap(), found.as_slice::<T>().unwrap());
        let mut index = vec![0; found.dims().len()];
        for (i, y) in y.iter().enumerate() {
            let mut rest = i;
            for (at, d) in index.iter_mut().zip(found.dims()).rev() {
                *at = rest % d;
                rest /= d;
            }
            assert_eq!(*y, x[from(&index)], "at {index:?}");
        }
    }, else unreachable!());
}

/// Row-major position of an index.
fn place(dims: &[usize], index: impl IntoIterator<Item = usize>) -> usize {
    dims.iter().zip(index).fold(0, |at, (d, i)| at * d + i)
}

const DTYPES: [DType; 5] = [DType::Bool, DType::U8, DType::I16, DType::F32, DType::I64];

#[test]
fn a_large_transpose_puts_every_element_in_its_place() {
    for (dims, perm) in [
        (&[3, 40, 41, 19][..], &[0i32, 3, 1, 2][..]),
        (&[3, 19, 40, 41], &[0, 2, 3, 1]),
        (&[257, 391], &[1, 0]),
        (&[3, 40_001], &[1, 0]),
        (&[40_001, 3], &[1, 0]),
        (&[37, 5, 131, 3], &[2, 0, 3, 1]),
        (&[64, 33, 40], &[1, 0, 2]),
    ] {
        for dtype in DTYPES {
            let x = counted(dtype, dims);
            let y = run("Transpose", &[], &[x.clone(), Tensor::from(perm)]).unwrap();
            check(&x, &y, |index| {
                let mut from = vec![0; dims.len()];
                for (i, &p) in perm.iter().enumerate() {
                    from[p as usize] = index[i];
                }
                place(dims, from)
            });
        }
    }
}

#[test]
fn a_large_strided_slice_and_its_gradient_agree_on_what_is_taken() {
    let (dims, begin, step) = ([50usize, 61, 37], [1i32, 60, 35], [2i32, -1, -3]);
    let spec = [
        Tensor::from(begin),
        Tensor::from([50i32, -62, -38]),
        Tensor::from(step),
    ];
    for dtype in DTYPES {
        let x = counted(dtype, &dims);
        let [b, e, s] = spec.clone();
        let y = run("StridedSlice", &[], &[x.clone(), b, e, s]).unwrap();
        assert_eq!(y.dims(), [25, 61, 12]);
        let from = |index: &[usize]| {
            let along = |i: usize| (begin[i] + step[i] * index[i] as i32) as usize;
            place(&dims, (0..3).map(along))
        };
        check(&x, &y, from);
        let shape = Tensor::from([50i32, 61, 37]);
        let [b, e, s] = spec.clone();
        let back = run("StridedSliceGrad", &[], &[shape, b, e, s, y.clone()]).unwrap();
        check(&back, &y, from);
        // Elements outside the slice are zeros.
        let zeros = |t: &Tensor| {
            t.bytes()
                .chunks(t.dtype().size())
                .filter(|b| b.iter().all(|&b| b == 0))
                .count()
        };
        assert_eq!(zeros(&back), back.len() - y.len() + zeros(&y));
    }
}

#[test]
fn large_pads_tiles_and_slices_put_every_element_in_its_place() {
    let dims = [30usize, 41, 23];
    for dtype in DTYPES {
        let x = counted(dtype, &dims);
        let paddings = Tensor::new(&[3, 2], &[2i32, 1, 0, 3, 4, 0]).unwrap();
        let padded = run("Pad", &[], &[x.clone(), paddings]).unwrap();
        assert_eq!(padded.dims(), [33, 44, 27]);
        let (begin, size) = (Tensor::from([2i32, 0, 4]), Tensor::from([30i32, 41, -1]));
        let cut = run("Slice", &[], &[padded.clone(), begin, size]).unwrap();
        assert_eq!(cut, x);
        let sum = |t: &Tensor| t.bytes().iter().map(|&b| u64::from(b)).sum::<u64>();
        assert_eq!(sum(&padded), sum(&x), "zeros around");
        let tiled = run("Tile", &[], &[x.clone(), Tensor::from([2i32, 1, 3])]).unwrap();
        check(&x, &tiled, |i| {
            place(&dims, i.iter().zip(dims).map(|(i, d)| i % d))
        });
    }
}

#[test]
fn an_index_out_of_range_is_an_error_that_names_it() {
    let (x, axis) = (counted(DType::F32, &[3, 2]), Tensor::scalar(0i32));
    let error = run("GatherV2", &[], &[x.clone(), Tensor::from([0i32, 3]), axis]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "input 1, element 1: index 3 is not within 0..3"
    );
    let (ids, count) = (Tensor::from([0i64, -1, 2]), Tensor::scalar(2i32));
    let error = run("UnsortedSegmentSum", &[], &[x, ids, count]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "input 1, element 2: segment 2 is not below 2"
    );
}

#[test]
fn a_large_segment_sum_adds_in_order() {
    let (rows, width) = (700usize, 150usize);
    let x = counted(DType::F32, &[rows, width]);
    let ids: Vec<i32> = (0..rows as i32).map(|i| i * 7 % 5 - 1).collect();
    let inputs = [x.clone(), Tensor::from(ids.clone()), Tensor::scalar(4i32)];
    let found = run("UnsortedSegmentSum", &[], &inputs).unwrap();
    let mut expected = vec![0f32; 4 * width];
    for (row, id) in x.as_slice::<f32>().unwrap().chunks(width).zip(ids) {
        if let Ok(id) = usize::try_from(id) {
            let sums = &mut expected[id * width..(id + 1) * width];
            sums.iter_mut().zip(row).for_each(|(sum, v)| *sum += v);
        }
    }
    assert_eq!(found.to_vec::<f32>().unwrap(), expected);
}
