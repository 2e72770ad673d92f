//! Tests of requests to endpoints that are slow, endless, or no servers of metrics.

use std::net::TcpListener;
use std::thread::JoinHandle;
use std::time::Duration;

use super::*;

/// Head of a response.
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n";

/// Serves one connection, and returns the address.
fn endpoint(serve: impl FnOnce(TcpStream) + Send + 'static) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let mut asked = [0; 512];
        let count = stream.read(&mut asked).unwrap();
        assert!(asked[..count].starts_with(b"GET /metrics HTTP/1.0\r\nHost: 127.0.0.1:"));
        serve(stream);
    });
    (address, thread)
}

/// Requests metrics from an endpoint that answers with these bytes.
fn answered(bytes: &str) -> Result<TaskNumbers, PollError> {
    let bytes = bytes.to_owned();
    let (address, thread) = endpoint(move |mut stream| {
        // The reader may have closed its end.
        let _ = stream.write_all(bytes.as_bytes());
    });
    let answer = request(&address);
    thread.join().unwrap();
    answer
}

#[test]
fn metrics_are_read_up_to_their_end() {
    let text = format!("{OK}thalweg_draining 1\nthalweg_step_seconds_count 7\n# EOF\nrest");
    let numbers = answered(&text).unwrap();
    assert_eq!((numbers.draining, numbers.steps), (true, 7.0));
}

#[test]
fn other_answers_are_errors() {
    let fields = "x: y\r\n".repeat(MAX_FIELDS + 1);
    let long = "x".repeat(2 * MAX_HEAD);
    for (answer, message) in [
        ("", "no HTTP"),
        ("SSH-2.0-OpenSSH_9.6\r\n", "no HTTP"),
        ("\0\0\u{12}\u{4}\0\0\0\0\0", "no HTTP"),
        ("HTTP/1.1 200 OK\r\nx: y", "no HTTP"),
        ("HTTP/1.1 200 OK\r\n\u{1b}[2J: y\r\n\r\n", "no HTTP"),
        ("HTTP/1.1 abc\r\n\r\n", "no HTTP"),
        (&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"), "no HTTP"),
        (&long, "no HTTP"),
        (&format!("HTTP/1.1 200 {long}\r\n\r\n"), "no HTTP"),
        ("HTTP/1.1 404 Not Found\r\n\r\n", "HTTP status 404"),
        (
            "HTTP/1.1 302 Found\r\nlocation: http://a\r\n\r\n",
            "HTTP status 302",
        ),
        (&format!("{OK}<html>"), "no OpenMetrics, line 1"),
        (&format!("{OK}thalweg_sessions 1\n"), "ends before its end"),
        (&format!("{OK}# EOF\n"), "no metrics of a Thalweg server"),
    ] {
        let error = answered(answer).unwrap_err().to_string();
        assert!(error.contains(message), "{answer:.40}: {error}");
        assert!(!error.contains('\u{1b}'));
    }
}

#[test]
fn endpoints_without_an_end_are_bounded_in_bytes_and_time() {
    for line in ["# a comment\n", "thalweg_sessions 1\n"] {
        let (address, thread) = endpoint(move |mut stream| {
            let lines = line.repeat(1 << 12);
            let _ = stream.write_all(OK.as_bytes());
            // Until the reader closes its end.
            while stream.write_all(lines.as_bytes()).is_ok() {}
        });
        let began = Instant::now();
        let error = request(&address).unwrap_err();
        // A slow machine meets the other limit first.
        assert!(
            matches!(error, PollError::TooLong | PollError::Timeout),
            "{error}"
        );
        assert!(began.elapsed() < 2 * REQUEST_TIMEOUT);
        thread.join().unwrap();
    }
}

#[test]
fn slow_bytes_do_not_extend_the_time_limit() {
    let (address, thread) = endpoint(|mut stream| {
        let _ = stream.write_all(OK.as_bytes());
        while stream.write_all(b"#").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let began = Instant::now();
    let error = request(&address).unwrap_err();
    assert!(matches!(error, PollError::Timeout), "{error}");
    assert!(began.elapsed() >= REQUEST_TIMEOUT && began.elapsed() < 2 * REQUEST_TIMEOUT);
    thread.join().unwrap();
}

#[test]
fn an_address_where_nothing_listens_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let error = request(&address).unwrap_err().to_string();
    assert!(error.starts_with("nothing listens there"), "{error}");
    let error = request("nowhere.invalid:1").unwrap_err();
    assert!(matches!(error, PollError::Resolve(_)), "{error}");
}
