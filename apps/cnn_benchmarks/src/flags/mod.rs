//! The command line: tf_cnn_benchmarks' flags and defaults, and some flags of Thalweg's own.

mod devices;
mod exchange;
mod extensions;
mod input;
mod optimizer;
mod output;
mod run;

use std::any::TypeId;
use std::ffi::OsString;

use clap::builder::BoolishValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches, Parser};

pub use devices::{Device, DeviceFlags};
pub use exchange::{Consistency, ExchangeFlags, Job};
pub use extensions::{Compat, ExtensionFlags, PlacementKind, Synthetic};
pub use input::InputFlags;
pub use optimizer::{Algorithm, OptimizerFlags};
pub use output::OutputFlags;
pub use run::{LossType, RunFlags};

/// Trains convolutional networks and measures the speed, with the flags of tf_cnn_benchmarks.
///
/// A flag that is on or off takes `--x`, `--nox` or `--x=true`. Images are synthetic.
#[derive(Debug, Parser)]
#[command(name = "cnn_benchmarks", rename_all = "snake_case")]
pub struct Flags {
    #[command(flatten)]
    pub run: RunFlags,
    #[command(flatten)]
    pub devices: DeviceFlags,
    #[command(flatten)]
    pub exchange: ExchangeFlags,
    #[command(flatten)]
    pub training: OptimizerFlags,
    #[command(flatten)]
    pub input: InputFlags,
    #[command(flatten)]
    pub output: OutputFlags,
    #[command(flatten)]
    pub extensions: ExtensionFlags,
}

/// Parsed flags.
pub struct ParsedFlags {
    pub flags: Flags,
    /// Names of the flags on the command line.
    pub names: Vec<String>,
}

/// Parses a command line; ends the program on an error and on `--help`.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> ParsedFlags {
    match read(args) {
        Ok(names_on_command_line) => names_on_command_line,
        Err(error) => error.exit(),
    }
}

/// Parses a command line.
///
/// # Errors
/// An unknown flag, or an invalid value.
pub fn read(args: impl IntoIterator<Item = OsString>) -> Result<ParsedFlags, clap::Error> {
    let mut command = Flags::command().args_override_self(true).mut_args(switch);
    let switches: Vec<String> = command
        .get_arguments()
        .filter(|arg| is_switch(arg))
        .filter_map(|arg| arg.get_long().map(str::to_owned))
        .collect();
    let args = args.into_iter().map(|arg| normalized(arg, &switches));
    let matches = command.try_get_matches_from_mut(args)?;
    Ok(ParsedFlags {
        flags: Flags::from_arg_matches(&matches).map_err(|e| e.format(&mut command))?,
        names: names_on_command_line(&command, &matches),
    })
}

fn names_on_command_line(command: &Command, matches: &ArgMatches) -> Vec<String> {
    let said = |arg: &&Arg| {
        let source = matches.value_source(arg.get_id().as_str());
        source == Some(clap::parser::ValueSource::CommandLine)
    };
    let arguments = command.get_arguments().filter(said);
    arguments
        .filter_map(|arg| arg.get_long().map(str::to_owned))
        .collect()
}

fn is_switch(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
        || arg.get_value_parser().type_id() == TypeId::of::<bool>()
}

/// Turns a boolean flag into one of abseil's form.
fn switch(arg: Arg) -> Arg {
    if !is_switch(&arg) || arg.get_long().is_none_or(|name| name == "help") {
        return arg;
    }
    let off = arg.get_default_values().is_empty();
    let arg = arg
        .action(ArgAction::Set)
        .value_parser(BoolishValueParser::new())
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true");
    if off { arg.default_value("false") } else { arg }
}

/// Rewrites `--nox` to `--x=false`, and `-x` to `--x`.
fn normalized(arg: OsString, switches: &[String]) -> OsString {
    let Some(text) = arg.to_str() else {
        return arg;
    };
    let name = match text.strip_prefix("--").or_else(|| text.strip_prefix('-')) {
        Some(name) if name.starts_with(|c: char| c.is_ascii_lowercase()) && name.len() > 1 => name,
        _ => return arg,
    };
    match name
        .strip_prefix("no")
        .filter(|name| switches.iter().any(|s| s == name))
    {
        Some(off) => format!("--{off}=false").into(),
        None => format!("--{name}").into(),
    }
}
