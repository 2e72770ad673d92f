//! Rare ops whose results TensorFlow no longer gives, compared with values worked out by hand.

use thalweg::graph::NodeBuilder;
use thalweg::prelude::*;
use thalweg_tests::folders::Folder;

/// The outputs of a node.
fn run(g: &Graph, node: NodeBuilder<'_>) -> Vec<Tensor> {
    let id = node.build().id();
    let outputs = g.operation(id).outputs();
    Session::new(g).unwrap().run(&outputs, []).unwrap()
}

#[test]
fn comparisons_are_packed_with_the_first_in_the_highest_bit() {
    let g = Graph::new();
    let x = g.constant([
        [1.0f32, -1.0, 0.5, 0.0, 3.0, f32::NAN, 2.0, -0.5],
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.6],
    ]);
    let node = g.op("CompareAndBitpack").input(x).input(g.constant(0.5f32));
    assert_eq!(run(&g, node), [Tensor::from([[0b1000_1010u8], [1]])]);
    let bits = g.constant([true, false, false, false, false, false, true, true]);
    let node = g
        .op("CompareAndBitpack")
        .input(bits)
        .input(g.constant(false));
    assert_eq!(run(&g, node), [Tensor::from([0b1000_0011u8])]);
    let seven = g.constant([0i32; 7]);
    let node = g
        .op("CompareAndBitpack")
        .input(seven)
        .input(g.constant(0i32));
    assert!(node.build().is_invalid());
}

#[test]
fn the_gradient_of_a_tile_is_the_sum_of_its_copies() {
    let g = Graph::new();
    let x = g.constant([[1.0f32, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0]]);
    let tile = |multiples: [i32; 2]| g.op("TileGrad").input(x).input(g.constant(multiples));
    assert_eq!(run(&g, tile([2, 2])), [Tensor::from([[44.0f32, 66.0]])]);
    assert_eq!(run(&g, tile([1, 4])), [Tensor::from([[10.0f32], [100.0]])]);
    assert!(tile([1, 3]).build().is_invalid() && tile([0, 1]).build().is_invalid());
}

#[test]
fn contrast_is_moved_within_limits() {
    let g = Graph::new();
    let x = g.constant(Tensor::new(&[1, 2, 2], &[10u8, 0, 20, 100]).unwrap());
    let node = g.op("AdjustContrast").input(x).input(g.constant(2.0f32));
    let node = node.input(g.constant(0.0f32)).input(g.constant(120.0f32));
    // Means are 15 and 50.
    let expected = Tensor::new(&[1, 2, 2], &[5.0f32, 0.0, 25.0, 120.0]).unwrap();
    assert_eq!(run(&g, node), [expected]);
}

#[test]
fn images_are_normalized_with_given_means_and_variances() {
    let g = Graph::new();
    let x = g.constant(Tensor::new(&[1, 1, 2, 2], &[1.0f32, 2.0, 3.0, 6.0]).unwrap());
    let parts = [[1.0f32, 2.0], [3.0, 15.0], [0.5, -0.5], [2.0, 4.0]];
    let parts = parts.map(|part| g.constant(part));
    for (scaled, expected) in [
        (true, [0.5f32, -0.5, 2.5, 3.5]),
        (false, [0.5, -0.5, 1.5, 0.5]),
    ] {
        let node = g.op("BatchNormWithGlobalNormalization").input(x);
        let node = node.inputs(parts).attr("variance_epsilon", 1.0f32);
        let node = node.attr("scale_after_normalization", scaled);
        let expected = Tensor::new(&[1, 1, 2, 2], &expected).unwrap();
        assert_eq!(run(&g, node), [expected]);
    }
}

#[test]
fn a_constant_of_a_file_has_the_bytes_of_it() {
    let folder = Folder::new("constants");
    let path = folder.path().join("numbers");
    let bytes: Vec<u8> = [1.5f32, -2.0, 3.0]
        .iter()
        .flat_map(|x| x.to_ne_bytes())
        .collect();
    std::fs::write(&path, bytes).unwrap();
    let g = Graph::new();
    let constant = |shape: Shape, name: &str| {
        let node = g.op("ImmutableConst").attr("dtype", DType::F32);
        let node = node.attr("shape", shape);
        node.attr("memory_region_name", name).output()
    };
    let name = path.to_str().unwrap();
    let (whole, more) = (
        constant(Shape::from([3]), name),
        constant(Shape::from([4]), name),
    );
    let elsewhere = constant(Shape::from([3]), "/etc/hostname");
    let options = SessionOptions::new().also_files(folder.path()).unwrap();
    let session = Session::with_options(&g, options).unwrap();
    let read: Tensor = session.run(whole, []).unwrap();
    assert_eq!(read, Tensor::from([1.5f32, -2.0, 3.0]));
    let short = session.run::<Tensor>(more, []).unwrap_err().to_string();
    assert!(short.contains("has 12 bytes, and 16 are needed"), "{short}");
    let refused = session
        .run::<Tensor>(elsewhere, [])
        .unwrap_err()
        .to_string();
    assert!(refused.contains("/etc/hostname"), "{refused}");
}

#[test]
fn numbers_without_a_seed_differ_from_run_to_run() {
    let g = Graph::new();
    for dtype in [DType::I32, DType::I64, DType::U32, DType::U64] {
        let node = g.op("NonDeterministicInts").input(g.constant([8i64]));
        let numbers = node.attr("dtype", dtype).output();
        let session = Session::new(&g).unwrap();
        let draw = || session.run::<Tensor>(numbers, []).unwrap();
        let (first, second) = (draw(), draw());
        assert_eq!((first.dtype(), first.dims()), (dtype, &[8][..]));
        assert_ne!(first, second);
    }
}

#[test]
fn constants_of_hosts_and_facts_are_values() {
    let g = Graph::new();
    let node = g.op("HostConst").attr("value", Tensor::from([1i32, 2]));
    assert_eq!(
        run(&g, node.attr("dtype", DType::I32)),
        [Tensor::from([1i32, 2])]
    );
    assert_eq!(run(&g, g.op("Fact"))[0].dtype(), DType::String);
}
