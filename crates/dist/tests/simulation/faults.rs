//! Faults of a simulated cluster, drawn from a seed.

use std::time::Duration;

use turmoil::Sim;

use super::platform::{STRIDE, next};
use super::world::World;

/// Time of the first fault, and time at which all are over.
pub(super) const BEGIN: Duration = Duration::from_secs(2);
pub(super) const END: Duration = Duration::from_secs(14);

/// Random numbers of a seed.
pub(super) struct SeededRandom(u64);

impl SeededRandom {
    pub(super) fn new(seed: u64) -> SeededRandom {
        SeededRandom(next(seed ^ STRIDE))
    }

    /// Returns a number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(STRIDE);
        next(self.0) % end
    }

    fn one<'a>(&mut self, of: &'a [String]) -> &'a str {
        &of[self.below(of.len() as u64) as usize]
    }
}

#[derive(Clone, Debug)]
enum Fault {
    /// Messages between two hosts are held, and delivered later.
    Held(String, String),
    /// Messages between two hosts are lost.
    Cut(String, String),
    /// The same in one direction.
    Deaf(String, String),
    /// A host crashes, and restarts.
    Dead(String),
}

/// Faults with their begins and ends.
pub(super) struct Faults {
    due: Vec<(Duration, bool, Fault)>,
}

impl Faults {
    /// Draws up to six faults: of connections between `hosts`, and crashes of the `mortal` ones.
    pub(super) fn new(numbers: &mut SeededRandom, hosts: &[String], mortal: &[String]) -> Faults {
        let mut due = Vec::new();
        let span = (END - BEGIN).as_millis() as u64;
        for _ in 0..=numbers.below(6) {
            let begin = numbers.below(span - 200);
            let length = 5 + numbers.below((span - begin).min(4000) - 5);
            let a = numbers.one(hosts).to_owned();
            let others: Vec<String> = hosts.iter().filter(|h| **h != a).cloned().collect();
            let b = numbers.one(&others).to_owned();
            let fault = match numbers.below(if mortal.is_empty() { 3 } else { 5 }) {
                0 => Fault::Held(a, b),
                1 => Fault::Cut(a, b),
                2 => Fault::Deaf(a, b),
                _ => Fault::Dead(numbers.one(mortal).to_owned()),
            };
            let at = |ms: u64| BEGIN + Duration::from_millis(ms);
            due.push((at(begin), true, fault.clone()));
            due.push((at(begin + length), false, fault));
        }
        due.sort_by_key(|(at, begins, _)| (std::cmp::Reverse(*at), *begins));
        Faults { due }
    }

    /// Runs a simulation to its end.
    pub(super) fn run(mut self, sim: &mut Sim<'_>, world: &World) -> turmoil::Result {
        loop {
            while self.due.last().is_some_and(|(at, ..)| *at <= sim.elapsed()) {
                if let Some((at, begins, fault)) = self.due.pop() {
                    world.note_at(
                        at,
                        format!("{} {fault:?}", if begins { "from now" } else { "no more" }),
                    );
                    apply(sim, world, begins, &fault);
                }
            }
            if sim.step()? {
                return Ok(());
            }
        }
    }
}

fn apply(sim: &mut Sim<'_>, world: &World, begins: bool, fault: &Fault) {
    if let Fault::Dead(host) = fault {
        // At the restart too: a bounce ends a running host first.
        world.dies(host);
    }
    match (fault, begins) {
        (Fault::Held(a, b), true) => sim.hold(&**a, &**b),
        (Fault::Held(a, b), false) => sim.release(&**a, &**b),
        (Fault::Cut(a, b), true) => sim.partition(&**a, &**b),
        (Fault::Deaf(a, b), true) => sim.partition_oneway(&**a, &**b),
        (Fault::Cut(a, b) | Fault::Deaf(a, b), false) => sim.repair(&**a, &**b),
        // Two crashes of one host may overlap.
        (Fault::Dead(host), true) => sim.crash(&**host),
        (Fault::Dead(host), false) => sim.bounce(&**host),
    }
}
