//! Output of `thalweg top --once`: one table, or one object of JSON.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::cells::{COLUMNS, sort};
use super::poll::{Pollers, report_timeout};
use super::tasks::{LinkRates, Row, State, Task};

/// Collects reports until each task has two answers, or one error.
pub(super) fn collect(pollers: &Pollers, tasks: &mut [Task], interval: Duration) -> Vec<Row> {
    let began = Instant::now();
    // The second poll begins after the first one has ended, and after the interval.
    let timeout = 2 * report_timeout(interval);
    let mut failed = vec![false; tasks.len()];
    loop {
        let pending = tasks.iter().zip(&failed);
        if pending.into_iter().all(|(t, f)| *f || t.answers() == 2) {
            break;
        }
        let left = timeout.saturating_sub(began.elapsed());
        let Some(report) = pollers.next(left) else {
            break;
        };
        let endpoint = report.endpoint;
        let Some(task) = tasks.get_mut(endpoint).filter(|_| !failed[endpoint]) else {
            continue;
        };
        failed[endpoint] = report.answer.is_err();
        task.record(report);
    }
    let now = Instant::now();
    let timeout = report_timeout(interval);
    let mut rows: Vec<_> = tasks.iter().map(|t| t.row(now, timeout)).collect();
    sort(&mut rows, 0);
    rows
}

/// Returns `true` if a task is not reached.
pub(super) fn misses_a_task(rows: &[Row]) -> bool {
    let missed = |row: &Row| matches!(row.state, State::NotReached | State::Pending);
    rows.iter().any(missed)
}

/// Formats the rows as a table.
pub(super) fn table(rows: &[Row]) -> String {
    let head = COLUMNS.each_ref().map(|column| column.title);
    let cells = |row| COLUMNS.iter().map(|c| (c.cell)(row)).collect();
    let numbers = COLUMNS.iter().enumerate().filter(|(_, c)| c.number);
    let numbers: Vec<usize> = numbers.map(|(index, _)| index).collect();
    crate::table::table(&head, rows.iter().map(cells).collect(), &numbers)
}

/// Formats the rows as JSON. A number that is not known is `null`; a loss that is not finite, which JSON has no number
/// for, is a text.
pub(super) fn json(rows: &[Row], interval: Duration) -> Value {
    let tasks = rows.iter().map(|row| {
        let peers = row.peers.iter().map(|peer| {
            let numbers = json!({
                "name": peer.name,
                "silent_seconds": peer.silent,
                "receives_waiting": peer.waiting,
            });
            with_link(numbers, &peer.link)
        });
        let numbers = json!({
            "name": row.name,
            "address": row.address,
            "state": row.state.name(),
            "steps_per_second": row.steps(),
            "client_steps_per_second": row.client_steps,
            "parts_per_second": row.parts,
            "loss": row.loss.map(loss),
            "global_step": row.global_step.map(|step| step as i64),
            "memory_bytes": row.memory,
            "memory_limit_bytes": row.memory_limit,
            "contact_seconds": row.contact.map(|time| time.as_secs_f64()),
            "waits_for": row.waits_for().map(|peer| &peer.name),
            "peers": peers.collect::<Vec<_>>(),
            "error": row.error,
        });
        with_link(numbers, &row.link)
    });
    json!({
        "interval_seconds": interval.as_secs_f64(),
        "tasks": tasks.collect::<Vec<_>>(),
    })
}

/// A number, or `"NaN"`, `"inf"`, `"-inf"`.
fn loss(loss: f64) -> Value {
    match loss.is_finite() {
        true => json!(loss),
        false => json!(loss.to_string()),
    }
}

fn with_link(mut object: Value, link: &LinkRates) -> Value {
    object["sent_bytes_per_second"] = json!(link.sent);
    object["received_bytes_per_second"] = json!(link.received);
    object["shared_bytes_per_second"] = json!(link.shared);
    object
}
