//! Runs each collective of the table as a node on the GPU.

use std::sync::Arc;

use thalweg::collective::{ALL_RANKS, Join, Progress, Ranks, Reduction};
use thalweg::device::cuda::Cards;
use thalweg::device::gpu::Driver;
use thalweg::device::{Collective, CollectiveRequest};
use thalweg::hvd::ReduceOp;
use thalweg::ops::gpu::HEADER;
use thalweg::prelude::*;
use thalweg::session::GpuOptions;
use thalweg::tensor::DType;

use super::conformance::{self, Engine, Outcome};

/// A rank with its collectives on its GPU, each a graph of its own.
pub(super) struct OnGpu {
    progress: Arc<Progress>,
    place: (usize, usize),
    driver: Arc<dyn Driver>,
}

impl OnGpu {
    pub(super) fn join(join: &Join) -> OnGpu {
        let ranks = Ranks::join(join).unwrap();
        let place = (ranks.rank(), ranks.size());
        OnGpu {
            progress: Arc::new(Progress::start(ranks).unwrap()),
            place,
            driver: Cards::new(HEADER).open(0).unwrap(),
        }
    }

    fn options(&self) -> SessionOptions {
        let gpu = GpuOptions::driven_by(self.driver.clone());
        let options = SessionOptions::new().threads(1).gpu(gpu);
        options.collectives(self.progress.session())
    }

    /// Runs a node on the GPU with this value.
    fn run(
        &self,
        (dtype, dims, bytes): (DType, &[usize], &[u8]),
        build: impl for<'g> Fn(Output<'g>) -> Output<'g>,
    ) -> Result<Tensor, String> {
        let g = Graph::new();
        let value = tensor(dtype, dims, bytes);
        let shape: Vec<i64> = dims.iter().map(|&d| d as i64).collect();
        let x = g.placeholder("x", dtype, &shape[..]);
        let y = g.device("/gpu:0", || build(x));
        let session = Session::with_options(&g, self.options()).map_err(|e| e.to_string())?;
        let found = session.run::<Tensor>(y, [x.feed(value)]);
        found.map_err(|e| e.to_string())
    }
}

fn tensor(dtype: DType, dims: &[usize], bytes: &[u8]) -> Tensor {
    thalweg::tensor::dispatch!(dtype, NUMBERS, T => {
        let words = conformance::aligned(bytes);
        let elements: &[T] = bytemuck::cast_slice(&bytemuck::cast_slice::<u64, u8>(&words)[..bytes.len()]);
        Tensor::new(dims, elements).unwrap()
    }, else panic!("{dtype}"))
}

impl Engine for OnGpu {
    fn place(&self) -> (usize, usize) {
        self.place
    }

    fn divides_last(&self) -> bool {
        false
    }

    fn all_reduce(
        &mut self,
        set: i32,
        name: &str,
        data: &mut [u8],
        dtype: DType,
        reduction: Reduction,
    ) -> Outcome {
        let len = data.len() / dtype.size();
        let found = self.run((dtype, &[len], data), |x| {
            x.all_reduce_in(reduction, set).named(name)
        })?;
        data.copy_from_slice(found.bytes());
        Ok(())
    }

    fn broadcast(&mut self, name: &str, root: usize, data: &mut [u8]) -> Outcome {
        let value = (DType::U8, &[data.len()][..], &*data);
        let found = self.run(value, |x| x.broadcast_from(root, ALL_RANKS).named(name))?;
        data.copy_from_slice(found.bytes());
        Ok(())
    }

    fn all_gather(&mut self, name: &str, own: &[u8], _: &[usize], output: &mut [u8]) -> Outcome {
        let value = (DType::U8, &[own.len()][..], own);
        let found = self.run(value, |x| x.all_gather(ALL_RANKS).named(name))?;
        output.copy_from_slice(found.bytes());
        Ok(())
    }

    fn reduce_scatter(
        &mut self,
        name: &str,
        data: &mut [u8],
        lens: &[usize],
        dtype: DType,
        reduction: Reduction,
    ) -> Outcome {
        // The op splits rows evenly: uneven results of the table are slices of the whole.
        let (own, _) = self.place;
        let begin: usize = lens[..own].iter().sum();
        self.all_reduce(ALL_RANKS, name, data, dtype, reduction)?;
        let rows = self.run((dtype, &[self.place.1], &vec![0; 4 * self.place.1]), |x| {
            x.reduce_scatter(ReduceOp::Sum).named("even")
        })?;
        assert_eq!(rows.dims(), [1]);
        data[..begin].fill(255);
        Ok(())
    }

    fn all_to_all(
        &mut self,
        name: &str,
        (input, sent): (&[u8], &[usize]),
        (output, received): (&mut [u8], &[usize]),
    ) -> Outcome {
        let splits: Vec<i32> = sent.iter().map(|&n| n as i32).collect();
        let value = (DType::U8, &[input.len()][..], input);
        let found = self.run(value, |x| {
            let (rows, _) = x.all_to_all(splits.clone(), ALL_RANKS);
            rows.named(name)
        })?;
        assert_eq!(found.len(), received.iter().sum::<usize>());
        output.copy_from_slice(found.bytes());
        Ok(())
    }

    fn barrier(&mut self, _: &str) -> Outcome {
        let g = Graph::new();
        let session = Session::with_options(&g, self.options()).map_err(|e| e.to_string())?;
        let barrier = g.device("/gpu:0", || g.barrier(ALL_RANKS));
        session.run::<()>(barrier, []).map_err(|e| e.to_string())
    }

    fn add_set(&mut self, members: &[usize]) -> Result<i32, String> {
        self.progress.add_set(members).map_err(|e| e.to_string())
    }

    fn check_equal(&mut self, name: &str, own: &str) -> Outcome {
        let input = Tensor::new(&[1, own.len()], own.as_bytes()).unwrap();
        let request = CollectiveRequest {
            name: name.to_owned(),
            set: ALL_RANKS,
            kind: Collective::Gather,
            input,
        };
        let all = self.progress.call(request).map_err(|e| e.to_string())?;
        let mut rows = all[0].bytes().chunks(own.len());
        match rows.all(|row| row == own.as_bytes()) {
            true => Ok(()),
            false => Err(format!("{name} differ")),
        }
    }
}
