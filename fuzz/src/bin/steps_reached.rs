//! Coverage of the target `steps`: `steps_reached FOLDER...` runs the files of the folders, `steps_reached COUNT SEED`
//! runs `COUNT` randomly mutated seeds, `steps_reached` runs the seeds. It prints the share of inputs whose steps ran a
//! kernel or called one that returned an error, and the ops of the registry whose kernels none of them reached.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use thalweg_fuzz::seeds::steps;
use thalweg_fuzz::steps::run;
use thalweg_graph::Graph;
use thalweg_graph::op::Effect;
use thalweg_ops::NewGraph;

/// Inputs that take longer are printed.
const SLOW: Duration = Duration::from_secs(2);

fn main() -> std::io::Result<()> {
    let registry = Graph::new().registry().clone();
    let (mut inputs, mut imported, mut ran, mut called) = (0, 0, 0, 0);
    let (mut reached, mut refused): (BTreeSet<String>, BTreeSet<String>) = Default::default();
    for input in all()? {
        let began = Instant::now();
        let outcome = run(&input, true);
        if outcome
            .error
            .as_ref()
            .is_some_and(|e| e.contains("panicked"))
            || began.elapsed() > SLOW
        {
            println!("{input:?}: {:?}, {:?}", began.elapsed(), outcome.error);
        }
        inputs += 1;
        imported += usize::from(outcome.imported);
        ran += usize::from(!outcome.ran.is_empty());
        called += usize::from(!outcome.ran.is_empty() || !outcome.refused.is_empty());
        reached.extend(outcome.ran);
        refused.extend(outcome.refused);
    }
    let share = |n: usize| 100.0 * n as f64 / f64::max(inputs as f64, 1.0);
    println!(
        "{inputs} inputs: {:.1} % imported, {:.1} % ran a kernel, {:.1} % called one",
        share(imported),
        share(ran),
        share(called)
    );
    let kernels = || {
        registry
            .iter()
            .filter(|op| op.name != "Const" && op.effect != Effect::Feed)
    };
    let left = |all: &BTreeSet<String>| -> Vec<&str> {
        kernels()
            .map(|op| op.name)
            .filter(|op| !all.contains(*op))
            .collect()
    };
    let (not, all) = (left(&reached), kernels().count());
    println!(
        "{} of {all} ops had results; not {}",
        reached.len(),
        not.join(", ")
    );
    reached.append(&mut refused);
    println!(
        "{} were called; not {}",
        reached.len(),
        left(&reached).join(", ")
    );
    Ok(())
}

/// The files of the given folders, or `COUNT` seeds with up to eight random changes, or the seeds.
fn all() -> std::io::Result<Vec<Vec<u8>>> {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let seeds = || steps().into_iter().map(|(_, input)| input);
    if let Some(Ok(count)) = asked.first().map(|first| first.parse()) {
        let seed: u64 = asked.get(1).and_then(|seed| seed.parse().ok()).unwrap_or(1);
        let mut state = 0x5eed_1234_5678_9abc ^ seed;
        let seeds: Vec<Vec<u8>> = seeds().collect();
        return Ok((0..count).map(|_| changed(&seeds, &mut state)).collect());
    }
    let mut inputs = Vec::new();
    for folder in &asked {
        for file in std::fs::read_dir(folder)? {
            inputs.push(std::fs::read(file?.path())?);
        }
    }
    inputs.extend(seeds().filter(|_| asked.is_empty()));
    Ok(inputs)
}

fn changed(seeds: &[Vec<u8>], state: &mut u64) -> Vec<u8> {
    let mut chance = || {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 33) as usize
    };
    let mut input = seeds[chance() % seeds.len()].clone();
    for _ in 0..chance() % 8 {
        input.extend(std::iter::repeat_with(|| chance() as u8).take(6));
    }
    input
}
