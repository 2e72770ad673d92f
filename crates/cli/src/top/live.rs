//! Loop of the live screen: reports of endpoints, keys and signals.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::disable_raw_mode;
use thalweg_launch::Signals;

use super::poll::{Pollers, report_timeout};
use super::tasks::Task;
use super::terminal::{Screen, wait};
use super::view::{Choices, draw};
use crate::failure::Failure;

/// Interval at which keys and signals are looked at.
const KEY_INTERVAL: Duration = Duration::from_millis(50);
/// Interval at which the screen is drawn without a key.
const DRAW_INTERVAL: Duration = Duration::from_millis(500);

/// Time within which the screen ends after a signal.
const END_LIMIT: Duration = Duration::from_secs(1);

/// Why the screen ends.
pub(super) enum End {
    /// A key asked for it.
    Key,
    Signal(i32),
}

/// Shows the tasks until a key or a signal ends it. The terminal is restored on return.
///
/// # Errors
/// The terminal cannot be used.
pub(super) fn show(
    pollers: &Pollers,
    tasks: &mut [Task],
    interval: Duration,
) -> Result<End, Failure> {
    let signals = watch_signals()?;
    let mut screen = Screen::open()?;
    let mut choices = Choices::default();
    let mut drawn: Option<Instant> = None;
    loop {
        if let Ok(signal) = signals.try_recv() {
            return Ok(End::Signal(signal));
        }
        while let Some(report) = pollers.next(Duration::ZERO) {
            if let Some(task) = tasks.get_mut(report.endpoint) {
                task.record(report);
            }
        }
        if drawn.is_none_or(|at| at.elapsed() >= DRAW_INTERVAL) {
            let now = Instant::now();
            let timeout = report_timeout(interval);
            let mut rows: Vec<_> = tasks.iter().map(|t| t.row(now, timeout)).collect();
            let screen = &mut screen.terminal;
            screen.draw(|frame| draw(frame, &mut rows, &mut choices, interval))?;
            drawn = Some(now);
        }
        wait(KEY_INTERVAL)?;
        if event::poll(Duration::ZERO)? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    if ends(&mut choices, key) {
                        return Ok(End::Key);
                    }
                    drawn = None;
                }
                Event::Resize(..) => drawn = None,
                _ => {}
            }
        }
    }
}

/// Returns the signals that end the screen. A terminal that nobody reads blocks each write to it, so a screen that does
/// not end in time is ended with the process.
fn watch_signals() -> std::io::Result<Receiver<i32>> {
    let mut signals = Signals::catch()?;
    let (sender, caught) = channel();
    // The thread ends with the process.
    std::thread::Builder::new()
        .name("thalweg-signals".to_owned())
        .spawn(move || {
            loop {
                if let Some(&signal) = signals.pending().first() {
                    let _ = sender.send(signal);
                    std::thread::sleep(END_LIMIT);
                    // What is written to the terminal would block too.
                    let _ = disable_raw_mode();
                    std::process::exit(128 + signal);
                }
                std::thread::sleep(KEY_INTERVAL);
            }
        })?;
    Ok(caught)
}

/// Takes a key. Returns `true` if it ends the screen.
fn ends(choices: &mut Choices, key: KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') => return control,
        KeyCode::Char('q') => return true,
        KeyCode::Char('s') | KeyCode::Right => choices.turn(true),
        KeyCode::Left => choices.turn(false),
        KeyCode::Down => choices.scroll(true),
        KeyCode::Up => choices.scroll(false),
        KeyCode::Char('?') => choices.help = !choices.help,
        KeyCode::Esc => choices.help = false,
        _ => {}
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(choices: &mut Choices, code: KeyCode) -> bool {
        ends(choices, KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn keys_choose_the_column_and_the_rows() {
        let mut choices = Choices::default();
        for (code, column, first, help) in [
            (KeyCode::Char('s'), 1, 0, false),
            (KeyCode::Right, 2, 0, false),
            (KeyCode::Left, 1, 0, false),
            (KeyCode::Left, 0, 0, false),
            (KeyCode::Left, 9, 0, false),
            (KeyCode::Right, 0, 0, false),
            (KeyCode::Down, 0, 1, false),
            (KeyCode::Up, 0, 0, false),
            (KeyCode::Up, 0, 0, false),
            (KeyCode::Char('?'), 0, 0, true),
            (KeyCode::Esc, 0, 0, false),
            (KeyCode::Char('x'), 0, 0, false),
        ] {
            assert!(!press(&mut choices, code));
            let now = (choices.column, choices.first, choices.help);
            assert_eq!(now, (column, first, help), "{code:?}");
        }
    }

    #[test]
    fn q_and_ctrl_c_end() {
        let mut choices = Choices::default();
        assert!(press(&mut choices, KeyCode::Char('q')));
        assert!(!press(&mut choices, KeyCode::Char('c')));
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(ends(&mut choices, control_c));
    }
}
