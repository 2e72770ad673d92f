//! Pseudo-terminal for tests: keys go in, and the text of the screen comes out.

#![allow(dead_code, reason = "each of the tests uses a part")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

/// Sequence that leaves the alternate screen.
pub const LEAVE_SCREEN: &str = "\u{1b}[?1049l";

const LINES: usize = 24;
const COLUMNS: usize = 160;

/// Terminal of 160 columns and 24 lines.
pub struct Terminal {
    keys: File,
    slave: File,
    shown: Arc<Mutex<Vec<u8>>>,
    hung_up: Arc<AtomicBool>,
    stalled: Arc<AtomicBool>,
}

impl Terminal {
    pub fn open() -> Terminal {
        let master: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        // A program that inherits it holds its own terminal open.
        fcntl_setfd(&master, FdFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let size = Winsize {
            ws_row: LINES as u16,
            ws_col: COLUMNS as u16,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&master, size).unwrap();
        let mut slave = File::options();
        let slave = slave.read(true).write(true).open(name.to_str().unwrap());
        let keys = File::from(master);
        let (mut screen, shown) = (keys.try_clone().unwrap(), Arc::<Mutex<Vec<u8>>>::default());
        let into = shown.clone();
        let hung_up = Arc::<AtomicBool>::default();
        let over = hung_up.clone();
        let stalled = Arc::<AtomicBool>::default();
        let halted = stalled.clone();
        // It ends with the process, or with the first bytes after the end.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                into.lock().unwrap().extend_from_slice(&bytes[..count]);
                if over.load(Ordering::Relaxed) {
                    return;
                }
                while halted.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        });
        Terminal {
            keys,
            slave: slave.unwrap(),
            shown,
            hung_up,
            stalled,
        }
    }

    /// Starts a program on the terminal.
    pub fn start(&self, command: &mut Command) -> Child {
        let end = || self.slave.try_clone().unwrap();
        let command = command.stdin(end()).stdout(end()).stderr(end());
        command.spawn().unwrap()
    }

    /// Reads nothing more, as a connection that hangs, once a program has written again.
    pub fn stall(&self) {
        self.stalled.store(true, Ordering::Relaxed);
    }

    /// Ends the terminal, as a lost connection does, once a program has written again.
    pub fn hang_up(self) {
        self.hung_up.store(true, Ordering::Relaxed);
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// All that was written to it so far.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// Text on the screen now. Programs write only the cells that differ.
    pub fn screen(&self) -> String {
        let shown = self.shown();
        let (mut cells, mut at) = (vec![[' '; COLUMNS]; LINES], (0, 0));
        let mut rest = shown.chars();
        while let Some(c) = rest.next() {
            if c == '\u{1b}' && rest.as_str().starts_with('[') {
                let text = rest.as_str();
                let end = text.find(char::is_alphabetic).unwrap_or(text.len());
                let position = text[1..end].split_once(';');
                if let Some((line, column)) = position.filter(|_| text[end..].starts_with('H')) {
                    let number = |text: &str| text.parse::<usize>().unwrap() - 1;
                    at = (number(line), number(column));
                }
                rest = text.get(end + 1..).unwrap_or_default().chars();
            } else if let Some(cell) = cells.get_mut(at.0).and_then(|l| l.get_mut(at.1)) {
                (*cell, at.1) = (c, at.1 + 1);
            }
        }
        let lines = cells.iter().map(|line| line.iter().collect::<String>());
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Modes of the terminal, such as raw mode.
    pub fn modes(&self) -> Termios {
        tcgetattr(&self.slave).unwrap()
    }

    /// `true` if the modes are those of before a program.
    pub fn has_modes(&self, before: &Termios) -> bool {
        let now = self.modes();
        let modes = |t: &Termios| {
            let local = t.local_modes;
            (t.input_modes, t.output_modes, local, t.control_modes)
        };
        modes(&now) == modes(before)
    }

    /// `true` if the terminal is as it was before a program.
    pub fn is_restored(&self, before: &Termios) -> bool {
        let (shown, cursor) = (self.shown(), "\u{1b}[?25h");
        self.has_modes(before) && shown.contains(LEAVE_SCREEN) && shown.contains(cursor)
    }
}
