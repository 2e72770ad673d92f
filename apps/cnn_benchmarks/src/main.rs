//! tf_cnn_benchmarks on Thalweg: the same flags, models and output.

mod checkpoints;
mod explain;
mod flags;
mod header;
mod images;
mod input;
mod learning_rate;
mod network;
mod plot;
mod printer;
mod process;
mod settings;
mod step_time;
mod steps;
mod throughput;

use std::error::Error;
use std::process::ExitCode;

use serde_json::{Value, json};
use thalweg::models;
use thalweg_examples::output;
use thalweg_examples::report::table;

use flags::ParsedFlags;
use settings::Settings;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Makes a write beyond the limit on file sizes (`ulimit -f`) an error, in place of a signal that ends the process.
#[cfg(unix)]
fn catch_file_size_signal() -> std::io::Result<()> {
    let caught = std::sync::Arc::default();
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, caught)?;
    Ok(())
}

#[cfg(not(unix))]
fn catch_file_size_signal() -> std::io::Result<()> {
    Ok(())
}

fn main() -> ExitCode {
    if let Err(error) = catch_file_size_signal() {
        output::error(format_args!("error: no signal is caught: {error}"));
        return ExitCode::FAILURE;
    }
    let given = flags::parse(std::env::args_os());
    let on_gpu = given.flags.devices.device == flags::Device::Gpu;
    match run(given) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(format_args!("error: {error}"));
            if on_gpu {
                output::error("note: --device=cpu runs on the processor");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(given: ParsedFlags) -> Result<()> {
    if given.flags.extensions.list_models {
        match given.flags.extensions.json {
            true => models_json().for_each(output::line),
            false => output::line(models_table()),
        }
        return Ok(());
    }
    let (settings, notes) = Settings::new(given)?;
    for note in notes {
        output::error(format_args!("note: {note}"));
    }
    let process = process::process(&settings)?;
    steps::run(&settings, &process)
}

/// All models, one JSON object each.
fn models_json() -> impl Iterator<Item = Value> {
    models::all().iter().map(|m| {
        json!({ "model": m.name, "data_name": m.data.name(), "pixels": m.size, "batch": m.batch })
    })
}

/// A table of all models with their defaults.
fn models_table() -> String {
    let rows = models::all().iter().map(|m| {
        let numbers = [
            m.data.name().to_owned(),
            m.size.to_string(),
            m.batch.to_string(),
        ];
        let [data, size, batch] = numbers;
        [m.name.to_owned(), data, size, batch]
    });
    table(["--model", "--data_name", "pixels", "batch"], rows)
}
