//! Test of the terminal after a panic, in a process of its own on a pseudo-terminal.

#[path = "../../../tests/support/terminal.rs"]
mod pseudo;

use std::process::Command;
use std::time::Instant;

use super::*;
use pseudo::Terminal;

#[test]
fn a_panic_restores_the_terminal_before_its_message() {
    let terminal = Terminal::open();
    let before = terminal.modes();
    let child = [
        "top::terminal::tests::panics",
        "--exact",
        "--ignored",
        "--nocapture",
    ];
    let mut command = Command::new(std::env::current_exe().unwrap());
    let mut process = terminal.start(command.args(child));
    assert!(!process.wait().unwrap().success());
    let message = || {
        let shown = terminal.shown();
        let (_, after) = shown.split_once(pseudo::LEAVE_SCREEN)?;
        after.contains("a defect of the test").then_some(())
    };
    let began = Instant::now();
    while message().is_none() {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "{}",
            terminal.shown()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(terminal.is_restored(&before));
}

#[test]
#[ignore = "it panics; the test above runs it"]
fn panics() {
    let _screen = Screen::open().unwrap();
    panic!("a defect of the test");
}
