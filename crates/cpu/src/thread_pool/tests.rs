//! Tests of the thread pool: loops, nesting, several callers, panics, parking.

use super::*;
use std::sync::atomic::AtomicU32;

fn counts(n: usize) -> Vec<AtomicU32> {
    (0..n).map(|_| AtomicU32::new(0)).collect()
}

#[test]
fn every_index_runs_once() {
    for threads in [1, 2, 3, 8, 11] {
        let pool = ThreadPool::new(threads);
        assert_eq!(pool.threads(), threads);
        for tasks in [0, 1, 2, 3, 7, 1000] {
            let seen = counts(tasks);
            pool.parallel_for(tasks, &|i| {
                seen[i].fetch_add(1, Ordering::Relaxed);
            });
            assert!(
                seen.iter().all(|c| c.load(Ordering::Relaxed) == 1),
                "{threads} threads, {tasks} tasks"
            );
        }
    }
}

#[test]
fn a_pool_of_zero_threads_runs_on_its_caller() {
    let pool = ThreadPool::new(0);
    assert_eq!(pool.threads(), 1);
    let caller = std::thread::current().id();
    pool.parallel_for(5, &|_| assert_eq!(std::thread::current().id(), caller));
}

#[test]
fn workers_take_part() {
    let pool = ThreadPool::new(2);
    let arrived = AtomicU32::new(0);
    // Each of the two tasks ends only when the other has begun, so one thread alone could not finish them.
    pool.parallel_for(2, &|_| {
        arrived.fetch_add(1, Ordering::SeqCst);
        while arrived.load(Ordering::SeqCst) < 2 {
            std::thread::yield_now();
        }
    });
}

#[test]
fn loops_nest() {
    for threads in [1, 2, 4] {
        let pool = ThreadPool::new(threads);
        let seen = counts(6 * 5 * 4);
        pool.parallel_for(6, &|i| {
            pool.parallel_for(5, &|j| {
                pool.parallel_for(4, &|k| {
                    seen[(i * 5 + j) * 4 + k].fetch_add(1, Ordering::Relaxed);
                });
            });
        });
        assert!(seen.iter().all(|c| c.load(Ordering::Relaxed) == 1));
    }
}

#[test]
fn several_callers_share_the_workers() {
    let pool = ThreadPool::new(3);
    let total = AtomicUsize::new(0);
    std::thread::scope(|s| {
        // More callers than slots, so that some loops find none and run inline.
        for _ in 0..SLOTS + 8 {
            s.spawn(|| {
                for _ in 0..50 {
                    pool.parallel_for(9, &|i| {
                        total.fetch_add(i, Ordering::Relaxed);
                    });
                }
            });
        }
    });
    assert_eq!(total.into_inner(), (SLOTS + 8) * 50 * 36);
}

#[test]
fn many_small_loops_see_each_others_writes() {
    let pool = ThreadPool::new(3);
    let cells = counts(16);
    for round in 0..20_000u32 {
        pool.parallel_for(16, &|i| {
            // Relaxed on purpose: the loop's end orders the rounds.
            assert_eq!(cells[i].load(Ordering::Relaxed), round);
            cells[i].store(round + 1, Ordering::Relaxed);
        });
    }
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
    for threads in [1, 3] {
        let pool = ThreadPool::new(threads);
        for _ in 0..20 {
            let thrown = catch_unwind(AssertUnwindSafe(|| {
                pool.parallel_for(50, &|i| {
                    if i == 17 {
                        std::panic::resume_unwind(Box::new("seventeen"));
                    }
                });
            }));
            let payload = thrown.expect_err("the panic is resumed in the caller");
            assert_eq!(payload.downcast_ref::<&str>(), Some(&"seventeen"));
        }
        let seen = counts(10);
        pool.parallel_for(10, &|i| {
            seen[i].fetch_add(1, Ordering::Relaxed);
        });
        assert!(seen.iter().all(|c| c.load(Ordering::Relaxed) == 1));
    }
}

#[test]
fn roots_wait_for_each_other_and_share_loops() {
    for threads in [1, 2, 4] {
        let pool = ThreadPool::new(threads);
        for _ in 0..200 {
            let turn = AtomicUsize::new(0);
            let sum = AtomicUsize::new(0);
            // A later thread helps with all shares, from the first on: a root waits for roots that have begun, or that
            // another thread, which is not waiting, will begin.
            pool.run_roots(4, &|i| {
                pool.wait_until(&|| turn.load(Ordering::Acquire) == i);
                pool.parallel_for(8, &|j| {
                    sum.fetch_add(j, Ordering::Relaxed);
                });
                turn.store(i + 1, Ordering::Release);
                pool.notify();
            });
            assert_eq!(sum.into_inner(), 4 * 28);
        }
    }
}

#[test]
fn a_waiting_thread_is_woken_after_it_parked() {
    let pool = ThreadPool::new(2);
    let (flag, waits) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|s| {
        s.spawn(|| {
            pool.wait_until(&|| {
                waits.fetch_add(1, Ordering::Relaxed);
                flag.load(Ordering::Acquire)
            });
        });
        // Long enough, in checked conditions, for the waiter to be parked or about to.
        while pool.shared.sleepers.load(Ordering::SeqCst) < 2 {
            std::thread::yield_now();
        }
        flag.store(true, Ordering::Release);
        pool.notify();
    });
    assert!(waits.into_inner() > 1);
}

#[test]
fn parked_workers_wake_for_new_loops_and_for_the_end() {
    let pool = ThreadPool::new(3);
    for _ in 0..50 {
        while pool.shared.sleepers.load(Ordering::SeqCst) < 2 {
            std::thread::yield_now();
        }
        let arrived = AtomicU32::new(0);
        pool.parallel_for(3, &|_| {
            arrived.fetch_add(1, Ordering::SeqCst);
            while arrived.load(Ordering::SeqCst) < 3 {
                std::thread::yield_now();
            }
        });
    }
    drop(pool);
}
