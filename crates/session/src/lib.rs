//! Plans and runs: compile what is fetched, run it many times.
