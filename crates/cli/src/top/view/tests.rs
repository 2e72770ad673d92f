//! Tests of the screen, as text.

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::top::tasks::{LinkRates, PeerRow};

fn row(name: &str, state: State, steps: f64) -> Row {
    let link = LinkRates {
        sent: Some(2e6),
        received: Some(1000.0),
        shared: Some(0.0),
    };
    let peer = PeerRow {
        name: "/job:ps/task:0".to_owned(),
        link,
        silent: Some(0.5),
        waiting: 1.0,
    };
    let known = state != State::NotReached;
    Row {
        address: "host:9101".to_owned(),
        name: name.to_owned(),
        state,
        client_steps: known.then_some(0.0),
        parts: known.then_some(steps),
        link: if known { link } else { LinkRates::default() },
        loss: (known && name.contains("worker")).then_some(0.25),
        global_step: None,
        memory: known.then_some(3e9),
        memory_limit: None,
        contact: Some(Duration::from_millis(400)),
        peers: if known { vec![peer] } else { Vec::new() },
        error: (!known).then(|| "no whole answer within 3 s".to_owned()),
    }
}

/// Rows of a small cluster.
fn cluster() -> Vec<Row> {
    vec![
        row("/job:worker/task:1", State::Up, 12.5),
        row("/job:worker/task:0", State::Up, 250.0),
        row("/job:ps/task:0", State::Draining, 0.0),
        row("/job:ps/task:1", State::NotReached, 0.0),
    ]
}

/// Draws the rows, and returns the lines of the screen without spaces at their ends.
fn screen(rows: &mut [Row], choices: &mut Choices, (width, height): (u16, u16)) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let interval = Duration::from_secs(1);
    terminal
        .draw(|frame| draw(frame, rows, choices, interval))
        .unwrap();
    let buffer = terminal.backend().buffer();
    let lines = buffer.content().chunks(usize::from(width));
    lines
        .map(|line| {
            let line: String = line.iter().map(|cell| cell.symbol()).collect();
            line.trim_end().to_owned()
        })
        .collect()
}

#[test]
fn the_screen_has_a_row_for_each_task() {
    let lines = screen(&mut cluster(), &mut Choices::default(), (137, 8));
    let expected = include_str!("screen.txt");
    assert_eq!(lines.join("\n") + "\n", expected);
}

#[test]
fn rows_are_sorted_by_the_chosen_column() {
    let mut choices = Choices {
        column: 2,
        ..Choices::default()
    };
    let lines = screen(&mut cluster(), &mut choices, (137, 8));
    let names: Vec<_> = lines[2..6]
        .iter()
        .map(|l| l.split(' ').next().unwrap())
        .collect();
    let sorted = [
        "/job:worker/task:0",
        "/job:worker/task:1",
        "/job:ps/task:0",
        "/job:ps/task:1",
    ];
    assert_eq!(names, sorted);
}

#[test]
fn rows_scroll_up_to_the_last_one() {
    let mut choices = Choices {
        first: 99,
        ..Choices::default()
    };
    // A line for the summary, the header and the keys each.
    let lines = screen(&mut cluster(), &mut choices, (137, 5));
    assert_eq!(choices.first, 2);
    assert!(lines[2].starts_with("/job:worker/task:0"), "{lines:?}");
    assert!(lines[3].starts_with("/job:worker/task:1"), "{lines:?}");
}

#[test]
fn help_is_over_the_table_and_small_screens_do_not_fail() {
    let mut choices = Choices {
        help: true,
        ..Choices::default()
    };
    let lines = screen(&mut cluster(), &mut choices, (100, 20)).join("\n");
    for line in HELP {
        assert!(lines.contains(line), "{lines}");
    }
    for size in [(1, 1), (3, 2), (20, 3), (40, 1), (u16::MAX, 1)] {
        screen(&mut cluster(), &mut choices, size);
        screen(&mut [], &mut choices, size);
    }
}
