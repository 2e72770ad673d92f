//! Counters of a pipeline: elements, and the times of the stages before and after a place.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Stage;
use crate::error::DataError;

/// Counters of the places of a pipeline. Copies share them, so that another thread can read them while it runs.
///
/// ```
/// use thalweg_data::pipeline::{from_vec, Counters};
///
/// let counters = Counters::default();
/// let pipeline = from_vec(vec![1, 2, 3])
///     .counted("read", &counters)
///     .map(|n| Ok(n * n))
///     .counted("map", &counters);
/// assert_eq!(pipeline.count(), 3);
///
/// let places = counters.read();
/// assert_eq!((places[0].name.as_str(), places[0].elements), ("read", 3));
/// // The stages between two places take the time that the second waits and the first does not.
/// assert!(places[1].waited >= places[0].waited);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Counters {
    places: Arc<Mutex<Vec<Arc<Place>>>>,
}

/// The counts of one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceCounts {
    /// The name that [`Pipeline::counted`](super::Pipeline::counted) was given.
    pub name: String,
    /// Number of elements that went through. Elements that are passed over do not count.
    pub elements: u64,
    /// Time that the place waited for the stages before.
    pub waited: Duration,
    /// Time in which the stages after asked for no element.
    pub idle: Duration,
}

#[derive(Debug)]
pub(super) struct Place {
    name: String,
    elements: AtomicU64,
    waited_ns: AtomicU64,
    idle_ns: AtomicU64,
}

impl Counters {
    pub(super) fn add(&self, name: String) -> Arc<Place> {
        let place = Arc::new(Place {
            name,
            elements: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            idle_ns: AtomicU64::new(0),
        });
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.push(place.clone());
        place
    }

    /// The counts so far, in the order in which the places were built.
    pub fn read(&self) -> Vec<PlaceCounts> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = |place: &Arc<Place>| PlaceCounts {
            name: place.name.clone(),
            elements: place.elements.load(Relaxed),
            waited: Duration::from_nanos(place.waited_ns.load(Relaxed)),
            idle: Duration::from_nanos(place.idle_ns.load(Relaxed)),
        };
        places.iter().map(counts).collect()
    }
}

/// Counts elements and times.
pub struct Counted<S> {
    before: S,
    place: Arc<Place>,
    /// The end of the last call.
    returned: Option<Instant>,
}

impl<S> Counted<S> {
    pub(super) fn new(before: S, place: Arc<Place>) -> Counted<S> {
        Counted {
            before,
            place,
            returned: None,
        }
    }
}

impl<S: Stage> Stage for Counted<S> {
    type Item = S::Item;

    fn start(&mut self, epoch: u64) -> Result<(), DataError> {
        self.returned = None;
        self.before.start(epoch)
    }

    fn next(&mut self) -> Result<Option<S::Item>, DataError> {
        let asked = Instant::now();
        let idle = self.returned.map_or(Duration::ZERO, |at| asked - at);
        let next = self.before.next();
        let returned = Instant::now();
        let any = matches!(next, Ok(Some(_)));
        self.place.elements.fetch_add(u64::from(any), Relaxed);
        let add = |to: &AtomicU64, time: Duration| to.fetch_add(time.as_nanos() as u64, Relaxed);
        add(&self.place.waited_ns, returned - asked);
        add(&self.place.idle_ns, idle);
        self.returned = Some(returned);
        next
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        self.before.pass(count)
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        self.before.length()
    }
}
