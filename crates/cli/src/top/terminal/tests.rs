//! Test of the terminal after a panic, in a process of its own on a pseudo-terminal.
