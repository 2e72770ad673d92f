//! Columns of the table, and their cells.

use std::cmp::Ordering;

use super::tasks::{Row, State};

/// Silence of a peer from which the table tells of it, in seconds.
const LONG_SILENCE: f64 = 5.0;

/// Column of the table: what it shows, and how rows are sorted by it.
pub(super) struct Column {
    pub(super) title: &'static str,
    /// `true` for numbers: aligned right, and sorted from the largest.
    pub(super) number: bool,
    /// Width on the screen, in characters.
    pub(super) width: u16,
    pub(super) cell: fn(&Row) -> String,
    /// Order of two rows, ascending.
    compare: fn(&Row, &Row) -> Ordering,
}

/// Columns, from the left. The last one takes the width that is left.
pub(super) const COLUMNS: [Column; 10] = [
    Column {
        title: "task",
        number: false,
        width: 22,
        cell: |row| row.name.clone(),
        compare: |a, b| natural(&a.name, &b.name),
    },
    Column {
        title: "state",
        number: false,
        width: 11,
        cell: |row| row.state.name().to_owned(),
        compare: |a, b| a.state.cmp(&b.state),
    },
    Column {
        title: "steps/s",
        number: true,
        width: 8,
        cell: |row| rate_cell(row, row.steps(), count),
        compare: |a, b| numbers(a.steps(), b.steps()),
    },
    Column {
        title: "loss",
        number: true,
        width: 9,
        cell: |row| row.loss.map_or(String::new(), loss),
        compare: |a, b| numbers(a.loss, b.loss),
    },
    Column {
        title: "sent/s",
        number: true,
        width: 9,
        cell: |row| rate_cell(row, row.link.sent, bytes),
        compare: |a, b| numbers(a.link.sent, b.link.sent),
    },
    Column {
        title: "received/s",
        number: true,
        width: 10,
        cell: |row| rate_cell(row, row.link.received, bytes),
        compare: |a, b| numbers(a.link.received, b.link.received),
    },
    Column {
        title: "shared/s",
        number: true,
        width: 9,
        cell: |row| rate_cell(row, row.link.shared, bytes),
        compare: |a, b| numbers(a.link.shared, b.link.shared),
    },
    Column {
        title: "memory",
        number: true,
        width: 9,
        cell: |row| row.memory.map_or(String::new(), bytes),
        compare: |a, b| numbers(a.memory, b.memory),
    },
    Column {
        title: "contact",
        number: true,
        width: 7,
        cell: |row| (row.contact).map_or("never".to_owned(), |time| seconds(time.as_secs_f64())),
        compare: |a, b| {
            let time = |row: &Row| row.contact.map(|time| time.as_secs_f64());
            numbers(time(a), time(b))
        },
    },
    Column {
        title: "waits for",
        number: false,
        width: 20,
        cell: note,
        compare: |a, b| note(a).cmp(&note(b)),
    },
];

/// Sorts rows by a column: names upwards, numbers from the largest. Equal rows are in the order of their names.
pub(super) fn sort(rows: &mut [Row], column: usize) {
    let Some(by) = COLUMNS.get(column) else {
        return;
    };
    rows.sort_by(|a, b| {
        let order = (by.compare)(a, b);
        let order = if by.number { order.reverse() } else { order };
        order.then_with(|| natural(&a.name, &b.name))
    });
}

/// Text of the last column: the error of the endpoint, or the peer that the task waits for, and long silence.
fn note(row: &Row) -> String {
    if let Some(error) = &row.error {
        return error.clone();
    }
    let silent = row.peers.iter().filter(|p| p.silent > Some(LONG_SILENCE));
    let silent = silent.max_by(|a, b| a.silent.partial_cmp(&b.silent).unwrap_or(Ordering::Equal));
    let waited = row.waits_for().map(|p| p.name.clone());
    let silent = silent.map(|p| {
        let time = seconds(p.silent.unwrap_or_default());
        format!("{} silent {time}", p.name)
    });
    [waited, silent]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("; ")
}

/// Compares two names, numbers in them by value: `task:2` is before `task:10`.
fn natural(a: &str, b: &str) -> Ordering {
    let key = |name: &str| {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (head, number) = name.split_at(name.len() - digits);
        (head.to_owned(), number.parse::<u64>().unwrap_or(0))
    };
    key(a).cmp(&key(b)).then_with(|| a.cmp(b))
}

fn numbers(a: Option<f64>, b: Option<f64>) -> Ordering {
    let known = |number: Option<f64>| number.unwrap_or(f64::NEG_INFINITY);
    known(a).total_cmp(&known(b))
}

/// A rate, `-` before it is known, and nothing for a task that is not reached.
fn rate_cell(row: &Row, rate: Option<f64>, format: fn(f64) -> String) -> String {
    match (rate, row.state) {
        (_, State::NotReached) => String::new(),
        (Some(rate), _) => format(rate),
        (None, _) => "-".to_owned(),
    }
}

/// Formats a number of at most 8 characters.
fn count(number: f64) -> String {
    match number {
        n if n < 100.0 => format!("{n:.1}"),
        n if n < 1e7 => format!("{n:.0}"),
        n => format!("{n:.1e}"),
    }
}

/// Formats a loss in at most 9 characters: `0.6931`, `1.5e-6`, `NaN`.
fn loss(loss: f64) -> String {
    match loss.abs() {
        size if size == 0.0 || (1e-3..1e4).contains(&size) => {
            let digits = if size < 100.0 { 4 } else { 1 };
            format!("{loss:.digits$}")
        }
        size if size.is_finite() => format!("{loss:.1e}"),
        _ => loss.to_string(),
    }
}

/// Formats a number of bytes in at most 9 characters: `1.5 MiB`.
pub(super) fn bytes(number: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut left = number;
    for unit in units {
        if left < 1000.0 {
            let digits = usize::from(unit != "B" && left < 100.0);
            return format!("{left:.digits$} {unit}");
        }
        left /= 1024.0;
    }
    format!("{number:.1e}")
}

/// Formats a duration in at most 7 characters.
pub(super) fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.1} s"),
        s if s < 6000.0 => format!("{:.0} min", s / 60.0),
        s if s < 360_000.0 => format!("{:.0} h", s / 3600.0),
        s if s < 8.64e8 => format!("{:.0} d", s / 86_400.0),
        s => format!("{s:.0e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_into_their_columns() {
        for (number, text) in [
            (0.0, "0 B"),
            (999.0, "999 B"),
            (1023.0, "1.0 KiB"),
            (1536.0, "1.5 KiB"),
            (200.0 * 1024.0, "200 KiB"),
            (1.5 * (1u64 << 30) as f64, "1.5 GiB"),
            (1e300, "1.0e300"),
        ] {
            assert_eq!(bytes(number), text);
        }
        for (number, text) in [
            (0.0, "0.0"),
            (99.94, "99.9"),
            (1234.5, "1234"),
            (9_999_999.0, "9999999"),
            (1e9, "1.0e9"),
        ] {
            assert_eq!(count(number), text);
        }
        for (number, text) in [
            (0.0, "0.0000"),
            (std::f64::consts::LN_2, "0.6931"),
            (-2.5, "-2.5000"),
            (2500.0, "2500.0"),
            (1.5e-6, "1.5e-6"),
            (-1e300, "-1.0e300"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(loss(number), text);
        }
        for (time, text) in [
            (0.04, "0.0 s"),
            (12.34, "12.3 s"),
            (600.0, "10 min"),
            (7200.0, "2 h"),
            (864_000.0, "10 d"),
            (1e308, "1e308"),
        ] {
            assert_eq!(seconds(time), text);
        }
        for number in (-308..309).map(|e| -9.999999 * 10f64.powi(e - 1)) {
            assert!(loss(number).len() <= 9, "{number}");
        }
        let exponents = (0..309).map(|e| 10f64.powi(e));
        for number in exponents {
            assert!(
                bytes(number).len() <= 9 && count(number).len() <= 8,
                "{number}"
            );
            assert!(seconds(number).len() <= 7, "{number}");
        }
    }

    #[test]
    fn names_are_sorted_by_the_value_of_their_numbers() {
        let mut names = [
            "/job:ps/task:10",
            "/job:worker/task:0",
            "/job:ps/task:2",
            "a",
            "a99999999999999999999",
        ];
        names.sort_by(|a, b| natural(a, b));
        let sorted = [
            "/job:ps/task:2",
            "/job:ps/task:10",
            "/job:worker/task:0",
            "a",
            "a99999999999999999999",
        ];
        assert_eq!(names, sorted);
    }
}
