//! K-means in elastic jobs whose workers are threads.

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use thalweg_collective::elastic::{Driver, ElasticLimits, Worker};
use thalweg_hvd::elastic::{self, Elastic};
use thalweg_hvd::{Hvd, Join};
use thalweg_stats::{
    Block, KMeans, KMeansModel, KMeansProgress, RowBlocks, SeededRows, StatsError,
};
use thalweg_tensor::DType;

/// Iteration after which a worker fails.
const LAST: usize = 3;

/// Rows of a rank; reading them fails after the iteration [`LAST`] where `fails`.
struct RowSource<'a> {
    rows: SeededRows,
    iteration: &'a AtomicUsize,
    fails: bool,
}

impl RowBlocks for RowSource<'_> {
    fn dtype(&self) -> DType {
        self.rows.dtype()
    }

    fn columns(&self) -> (usize, usize) {
        self.rows.columns()
    }

    fn for_each(
        &self,
        take: &mut dyn FnMut(Block) -> Result<(), StatsError>,
    ) -> Result<(), StatsError> {
        match self.fails && self.iteration.load(Ordering::Relaxed) >= LAST {
            true => Err(StatsError::Source("this worker fails".into())),
            false => self.rows.for_each(take),
        }
    }
}

fn seeded(hvd: &Hvd) -> SeededRows {
    SeededRows {
        seed: 3,
        rows: 600,
        features: 4,
        targets: 0,
        clusters: 0,
        dtype: DType::F64,
        block_rows: 50,
        share: (hvd.rank(), hvd.size()),
    }
}

fn kmeans() -> KMeans {
    KMeans::new(7).tolerance(0.0).max_iterations(12)
}

/// Fits in an elastic job, and returns the model and the numbers of the iterations that this worker made.
fn worker(
    worker: Worker,
    fails: impl Fn(&Elastic) -> bool,
) -> Result<(KMeansModel, Vec<usize>), StatsError> {
    let mut progress = KMeansProgress::default();
    let made = Arc::new((AtomicUsize::new(0), Mutex::new(Vec::new())));
    let seen = made.clone();
    let kmeans = kmeans().on_iteration(move |iteration| {
        seen.0.store(iteration.number, Ordering::Relaxed);
        seen.1.lock().unwrap().push(iteration.number);
    });
    let model = elastic::run_as(Some(worker), |job| {
        let rows = RowSource {
            rows: seeded(job.hvd()),
            iteration: &made.0,
            fails: fails(job),
        };
        kmeans.fit_resumed(job.hvd(), &rows, &mut progress)
    })?;
    let numbers = made.1.lock().unwrap().clone();
    Ok((model, numbers))
}

#[test]
fn a_fit_that_loses_a_rank_goes_on_with_the_next_iteration_over_all_rows() {
    let alone = Hvd::meet(&Join::alone()).unwrap();
    let undisturbed = kmeans().fit(&alone, &seeded(&alone)).unwrap();
    assert!(undisturbed.iterations > LAST + 1, "{undisturbed:?}");
    for victim in 0..3 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let limits = ElasticLimits::of(3);
        let driver = Driver::start(listener, "secret", limits, Duration::from_secs(5)).unwrap();
        let address = driver.address();
        let results: Vec<_> = thread::scope(|scope| {
            let start = |number: u64| {
                scope.spawn(move || {
                    let own = Worker::connect(address, number, "secret").unwrap();
                    worker(own, |job| number == victim && job.round() == 1)
                })
            };
            let all: Vec<_> = (0..3).map(start).collect();
            all.into_iter().map(|t| t.join().unwrap()).collect()
        });
        for (number, result) in results.into_iter().enumerate() {
            if number as u64 == victim {
                let error = result.unwrap_err().to_string();
                assert!(error.contains("this worker fails"), "{error}");
                continue;
            }
            let (model, iterations) = result.unwrap();
            // None was made twice.
            assert!(iterations.is_sorted_by(|a, b| a < b), "{iterations:?}");
            assert_eq!(model.iterations, undisturbed.iterations);
            let [found, wanted] = [&model, &undisturbed].map(|m| m.centroids.to_vec::<f64>());
            for (f, w) in found.unwrap().iter().zip(wanted.unwrap()) {
                assert!((f - w).abs() < 1e-9, "{f} {w}");
            }
            assert!((model.inertia - undisturbed.inertia).abs() < 1e-9 * undisturbed.inertia);
        }
    }
}

#[test]
fn progress_of_another_fit_is_refused() {
    let alone = Hvd::meet(&Join::alone()).unwrap();
    let mut progress = KMeansProgress::default();
    let rows = seeded(&alone);
    let model = kmeans().fit_resumed(&alone, &rows, &mut progress).unwrap();
    assert_eq!(progress.iterations(), model.iterations);
    let other = KMeans::new(2).fit_resumed(&alone, &rows, &mut progress);
    assert!(
        other
            .unwrap_err()
            .to_string()
            .contains("give each fit a new one")
    );
    let several = kmeans().starts(2).fit_resumed(&alone, &rows, &mut progress);
    assert!(several.unwrap_err().to_string().contains("one start"));
}
