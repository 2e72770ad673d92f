//! Text of hosts that do not reach each other.

use super::network::{Endpoint, failure_text};

#[test]
fn pairs_that_fail_are_shown_in_a_matrix_with_their_reasons() {
    let endpoints = ["a", "b"].map(|name| Endpoint {
        name: name.to_owned(),
        address: format!("10.0.0.{name}"),
        port: 0,
    });
    let text = failure_text(2, &endpoints, &[(0, 1, "refused".to_owned())]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[1].split_whitespace().collect::<Vec<_>>(),
        ["from", "to", "a", "b"]
    );
    assert_eq!(
        lines[2].split_whitespace().collect::<Vec<_>>(),
        ["a", "ok", "FAILS"]
    );
    assert_eq!(
        lines[3].split_whitespace().collect::<Vec<_>>(),
        ["b", "ok", "ok"]
    );
    assert_eq!(lines[4], "  a to b at 10.0.0.b: refused");
}
