//! Checkpoints of random variables read back unchanged, in any parts; damaged ones are errors.

mod support;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use support::Folder;
use thalweg_checkpoint::bundle::{data_path, index_path};
use thalweg_checkpoint::{BundleReader, BundleWriter, SliceSpec};
use thalweg_tensor::{DType, Tensor};

/// A tensor of any storable dtype, of at most four dimensions.
fn tensor() -> impl Strategy<Value = Tensor> {
    let dtype = proptest::sample::select(DType::ELEMENTS);
    (dtype, vec(0usize..5, 0..4)).prop_flat_map(|(dtype, dims)| {
        let elements: usize = dims.iter().product();
        match dtype {
            DType::String => vec(vec(any::<u8>(), 0..300), elements)
                .prop_map(move |all| Tensor::strings(&dims, &all).unwrap())
                .boxed(),
            DType::Bool => vec(0u8..2, elements)
                .prop_map(move |bytes| Tensor::from_bytes(dtype, &dims, &bytes).unwrap())
                .boxed(),
            _ => vec(any::<u8>(), elements * dtype.size())
                .prop_map(move |bytes| Tensor::from_bytes(dtype, &dims, &bytes).unwrap())
                .boxed(),
        }
    })
}

fn variables() -> impl Strategy<Value = Vec<(String, Tensor)>> {
    let name = prop_oneof!["[a-z]{1,3}(/[a-z_0-9]{1,8}){0,3}", "[^\0]\\PC{0,6}"];
    btree_map(name, tensor(), 0..12).prop_map(|all| all.into_iter().collect())
}

/// Cuts each dimension at these places, into blocks that cover the whole.
fn blocks(dims: &[usize], cuts: &[usize]) -> Vec<SliceSpec> {
    let mut all: Vec<Vec<Option<(usize, usize)>>> = vec![Vec::new()];
    for (i, &size) in dims.iter().enumerate() {
        let cut = cuts.get(i).map_or(0, |c| c % size.max(1));
        let extents = match cut {
            0 => vec![None],
            cut => vec![Some((0, cut)), Some((cut, size - cut))],
        };
        let longer = |of: &Vec<Option<(usize, usize)>>| {
            let of = of.clone();
            extents.clone().into_iter().map(move |extent| {
                let mut longer = of.clone();
                longer.push(extent);
                longer
            })
        };
        all = all.iter().flat_map(longer).collect();
    }
    all.iter()
        .map(|e| SliceSpec::new(dims, e).unwrap())
        .collect()
}

/// Cuts element by element, by index.
fn cut(tensor: &Tensor, slice: &SliceSpec) -> Tensor {
    let dims = slice.dims();
    let starts: Vec<usize> = slice
        .extents()
        .iter()
        .map(|e| e.map_or(0, |e| e.0))
        .collect();
    let count: usize = dims.iter().product();
    let numbers = (0..count).map(|mut number| {
        let mut at = vec![0; dims.len()];
        for (i, d) in dims.iter().enumerate().rev() {
            at[i] = number % d;
            number /= d;
        }
        let places = at.iter().zip(&starts).map(|(a, s)| a + s);
        places
            .zip(tensor.dims())
            .fold(0, |n, (place, d)| n * d + place)
    });
    match tensor.as_strings() {
        Ok(all) => {
            let some: Vec<_> = numbers.filter_map(|n| all.get(n)).collect();
            Tensor::strings(&dims, &some).unwrap()
        }
        Err(_) => {
            let size = tensor.dtype().size();
            let bytes: Vec<u8> = numbers
                .flat_map(|n| tensor.bytes()[n * size..][..size].to_vec())
                .collect();
            Tensor::from_bytes(tensor.dtype(), &dims, &bytes).unwrap()
        }
    }
}

fn write(folder: &Folder, all: &[(String, Tensor)], cuts: Option<&[usize]>) -> BundleReader {
    let prefix = folder.join("m");
    let mut writer = BundleWriter::create(&prefix).unwrap();
    for (name, tensor) in all {
        match cuts {
            None => writer.add(name, tensor).unwrap(),
            Some(cuts) => {
                for slice in blocks(tensor.dims(), cuts) {
                    writer
                        .add_slice(name, &slice, &cut(tensor, &slice))
                        .unwrap();
                }
            }
        }
    }
    writer.finish().unwrap();
    BundleReader::open(&prefix).unwrap()
}

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|n| n.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(64),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn checkpoints_round_trip(all in variables(), cuts in vec(0usize..5, 4), sliced: bool) {
        let folder = Folder::in_memory("properties");
        let reader = write(&folder, &all, sliced.then_some(&cuts));
        reader.verify().unwrap();
        let names: Vec<_> = all.iter().map(|(name, _)| name.as_str()).collect();
        prop_assert_eq!(reader.names().collect::<Vec<_>>(), names);
        for (name, tensor) in &all {
            prop_assert_eq!(&reader.tensor(name).unwrap(), tensor);
        }
    }

    #[test]
    fn any_slice_reads_from_any_parts(
        all in variables(),
        cuts in vec(0usize..5, 4),
        asked in vec(0usize..5, 4),
        sliced: bool,
    ) {
        let folder = Folder::in_memory("properties");
        let reader = write(&folder, &all, sliced.then_some(&cuts));
        for (name, tensor) in &all {
            for slice in blocks(tensor.dims(), &asked) {
                prop_assert_eq!(reader.slice(name, &slice).unwrap(), cut(tensor, &slice));
            }
        }
    }

    #[test]
    fn damage_is_an_error_and_never_other_data(
        all in variables(),
        cuts in vec(0usize..5, 4),
        sliced: bool,
        in_index: bool,
        truncate: bool,
        place: proptest::sample::Index,
        bit in 0u8..8,
    ) {
        let folder = Folder::in_memory("properties");
        let whole = write(&folder, &all, sliced.then_some(&cuts));
        let file = match in_index {
            true => index_path(&folder.join("m")),
            false => data_path(&folder.join("m"), 0, 1),
        };
        let mut bytes = std::fs::read(&file).unwrap();
        prop_assume!(!bytes.is_empty());
        let at = place.index(bytes.len());
        match truncate {
            true => bytes.truncate(at),
            false => bytes[at] ^= 1 << bit,
        }
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, &bytes).unwrap();
        let Ok(damaged) = BundleReader::open(folder.join("m")) else {
            return Ok(());
        };
        prop_assert!(!truncate, "a cut file opens");
        prop_assert!(damaged.names().eq(whole.names()));
        let mut errors = 0;
        for (name, tensor) in &all {
            match damaged.tensor(name) {
                Ok(found) => prop_assert_eq!(&found, tensor),
                Err(_) => errors += 1,
            }
        }
        // Each byte of the data belongs to some tensor; those of a part without elements are not
        // read.
        let empty = all.iter().any(|(_, tensor)| tensor.dims().contains(&0));
        prop_assert!(in_index || errors == 1 || empty);
        prop_assert!(damaged.verify().is_err() == (errors > 0) || empty);
    }
}
