//! Stops the machine's clock for the threads of a simulation.
//!
//! h2 forgets a reset stream after a second of the machine's time, and then answers differently to its late frames;
//! hyper writes the date into its responses. The real duration of a simulation must influence neither. The test
//! binary therefore has a `clock_gettime` of its own, which the linker prefers to the C library's. Threads of a
//! simulation read a constant time from it, all others the machine's time.

use std::cell::Cell;

thread_local! {
    static STANDS: Cell<bool> = const { Cell::new(false) };
}

/// Stops the clock on this thread.
pub(super) fn stop() {
    STANDS.set(true);
}

/// Runs a simulation on a thread of its own: thread-local state of earlier ones has no influence.
pub(super) fn stopped<T: Send>(run: impl FnOnce() -> T + Send) -> std::thread::Result<T> {
    std::thread::scope(|scope| {
        let stopped = || {
            stop();
            run()
        };
        scope.spawn(stopped).join()
    })
}

/// Constant time of the clocks of a simulation, in seconds.
#[cfg(target_os = "linux")]
const TIME: libc::time_t = 1_000_000_000;

/// Replaces the C library's function of this name.
///
/// # Safety
/// As there: `time` points to what may be written.
#[cfg(target_os = "linux")]
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(
    clock: libc::clockid_t,
    time: *mut libc::timespec,
) -> libc::c_int {
    // A thread that ends has no such state any more.
    if !STANDS.try_with(Cell::get).unwrap_or(false) {
        // SAFETY: The system call has the contract of the function that this stands for.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) } as libc::c_int;
    }
    let stands = libc::timespec {
        tv_sec: TIME,
        tv_nsec: 0,
    };
    // SAFETY: The caller promises that `time` may be written.
    unsafe { time.write(stands) };
    0
}

#[cfg(target_os = "linux")]
#[test]
fn only_the_clock_of_a_simulation_stands_still() {
    use std::time::{Duration, Instant, SystemTime};

    let pass = || {
        let (began, date) = (Instant::now(), SystemTime::now());
        std::thread::sleep(Duration::from_millis(2));
        (began.elapsed(), date.elapsed().unwrap())
    };
    assert_eq!(stopped(pass).unwrap(), (Duration::ZERO, Duration::ZERO));
    let (time, date) = pass();
    assert!(time >= Duration::from_millis(2) && !date.is_zero());
}
