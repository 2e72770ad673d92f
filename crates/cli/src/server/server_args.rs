//! Arguments of a server: values of its options from flags and from a config file, with their origins.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command};
use thalweg_dist::ServerOptions;
use toml::de::{DeTable, DeValue};

use super::option_specs::{OptionSpec, ValueKind, flag_of, nearest, option_specs};
use crate::failure::Failure;

/// Origin of a value.
#[derive(Clone)]
pub enum Origin {
    Flag,
    File { path: PathBuf, line: usize },
}

/// Value of an option: one text, or several of a list.
type ArgValue = (Vec<String>, Origin);

/// Arguments of a server, by option.
#[derive(Clone, Default)]
pub struct ServerArgs(BTreeMap<&'static str, ArgValue>);

impl clap::FromArgMatches for ServerArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<ServerArgs, clap::Error> {
        let mut args = ServerArgs::default();
        for spec in option_specs() {
            let values: Vec<String> = match spec.kind {
                ValueKind::Flag if matches.get_flag(spec.name) => vec!["true".to_owned()],
                ValueKind::Flag => continue,
                ValueKind::Text | ValueKind::List => {
                    let given = matches.get_many::<String>(spec.name);
                    given.into_iter().flatten().cloned().collect()
                }
            };
            if !values.is_empty() {
                args.0.insert(spec.name, (values, Origin::Flag));
            }
        }
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = ServerArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for ServerArgs {
    fn augment_args(command: Command) -> Command {
        let arg = |spec: OptionSpec| {
            let default = match spec.default {
                "" | "false" => String::new(),
                default => format!(" [default: {default}]"),
            };
            let arg = Arg::new(spec.name).long(flag_of(spec.name));
            let arg = arg.help(format!("{}{default}", spec.description));
            match spec.kind {
                ValueKind::Flag => arg.action(ArgAction::SetTrue),
                ValueKind::Text => arg.action(ArgAction::Set).value_name(spec.placeholder),
                ValueKind::List => arg.action(ArgAction::Append).value_name(spec.placeholder),
            }
        };
        command.args(option_specs().into_iter().map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        ServerArgs::augment_args(command)
    }
}

impl ServerArgs {
    /// Adds the entries of a config file for options without a flag.
    ///
    /// # Errors
    /// The file and the line of an entry that cannot be used.
    pub fn or_file(mut self, path: &Path) -> Result<ServerArgs, Failure> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|e| format!("{}: {e}", path.display()))?;
        let line_of = |at: usize| 1 + text[..at.min(text.len())].matches('\n').count();
        let wrong = |at: usize, text: String| -> Failure {
            format!("{}:{}: {text}", path.display(), line_of(at)).into()
        };
        let table = DeTable::parse(&text).map_err(|e| {
            let at = e.span().map_or(0, |s| s.start);
            wrong(at, e.message().to_owned())
        })?;
        let known = option_specs();
        for (name, value) in table.into_inner() {
            let (key, value_at) = (name.get_ref().to_string(), value.span().start);
            let Some(spec) = known.iter().find(|c| c.name == key) else {
                let near = nearest(&key);
                let text = format!("there is no setting '{key}': did you mean '{near}'?");
                return Err(wrong(name.span().start, text));
            };
            let values = values(spec, value.get_ref())
                .map_err(|reason| wrong(value_at, format!("{key} {reason}")))?;
            let origin = Origin::File {
                path: path.to_owned(),
                line: line_of(name.span().start),
            };
            if !values.is_empty() {
                self.0.entry(spec.name).or_insert((values, origin));
            }
        }
        Ok(self)
    }

    /// Value of an option.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.0.first().map(String::as_str)
    }

    /// Values of a list.
    pub fn list(&self, name: &str) -> &[String] {
        self.0.get(name).map_or(&[], |(values, _)| values)
    }

    /// `true` if a flag is set.
    pub fn flag(&self, name: &str) -> bool {
        self.text(name) == Some("true")
    }

    /// Value of an option as a number.
    ///
    /// # Errors
    /// The text is no number.
    pub fn number<T: std::str::FromStr>(&self, name: &str, default: T) -> Result<T, Failure> {
        match self.text(name) {
            None => Ok(default),
            Some(text) => text
                .parse()
                .map_err(|_| self.invalid(name, &format!("'{text}' is no such number"))),
        }
    }

    /// Returns an error about the value of an option, with its origin.
    pub fn invalid(&self, name: &str, reason: &dyn std::fmt::Display) -> Failure {
        match self.0.get(name) {
            Some((_, Origin::File { path, line })) => {
                format!("{}:{line}: {name}: {reason}", path.display()).into()
            }
            _ => format!("--{}: {reason}", flag_of(name)).into(),
        }
    }

    /// Sets the settings of `options` that were given.
    ///
    /// # Errors
    /// A text is no number of its unit.
    pub fn apply(&self, options: &mut ServerOptions) -> Result<(), Failure> {
        for setting in option_specs().iter().filter_map(|s| s.setting) {
            if let Some(text) = self.text(setting.name) {
                let done = setting.set(options, text);
                done.map_err(|e| self.invalid(setting.name, &e))?;
            }
        }
        Ok(())
    }

    /// Writes all values as a file for `--config`, with descriptions and origins.
    pub fn to_config(&self, options: &ServerOptions) -> String {
        let mut out = String::new();
        for spec in option_specs() {
            let (values, from) = match self.0.get(spec.name) {
                Some((values, Origin::Flag)) => {
                    (values.clone(), format!("from --{}", flag_of(spec.name)))
                }
                Some((values, Origin::File { path, line })) => {
                    (values.clone(), format!("from {}:{line}", path.display()))
                }
                None => {
                    let default = match spec.setting {
                        Some(_) => format!("the default: {}", spec.default),
                        None => "the default".to_owned(),
                    };
                    let value = match spec.setting {
                        Some(setting) => vec![setting.of(options)],
                        None if spec.default.is_empty() => Vec::new(),
                        None => vec![spec.default.to_owned()],
                    };
                    (value, default)
                }
            };
            let line = entry(&spec, &values);
            let _ = writeln!(out, "# {}\n# ({from})\n{line}\n", spec.description);
        }
        out
    }
}

/// Quotes a text as a basic string of TOML.
fn toml_quoted(text: &str) -> String {
    let escaped = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04X}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}

/// Entry of a config file.
fn entry(spec: &OptionSpec, values: &[String]) -> String {
    let name = spec.name;
    match (spec.kind, values) {
        (ValueKind::List, values) => {
            let all: Vec<String> = values.iter().map(|v| toml_quoted(v)).collect();
            format!("{name} = [{}]", all.join(", "))
        }
        (_, []) => format!("# {name} = \"\""),
        (ValueKind::Flag, [value, ..]) => format!("{name} = {value}"),
        (ValueKind::Text, [value, ..])
            if value.parse::<i64>().is_ok_and(|n| n.to_string() == *value) =>
        {
            format!("{name} = {value}")
        }
        (ValueKind::Text, [value, ..]) => format!("{name} = {}", toml_quoted(value)),
    }
}

/// Texts of a value in a config file; none for a flag that is not set.
fn values(spec: &OptionSpec, value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let found = value.type_str();
    match (spec.kind, value) {
        (ValueKind::Flag, DeValue::Boolean(true)) => Ok(vec!["true".to_owned()]),
        (ValueKind::Flag, DeValue::Boolean(false)) => Ok(Vec::new()),
        (ValueKind::Flag, _) => Err(format!("is true or false, and not of kind {found}")),
        (ValueKind::Text, DeValue::String(text)) => Ok(vec![text.to_string()]),
        (ValueKind::Text, DeValue::Integer(number)) => Ok(vec![number.to_string()]),
        (ValueKind::Text, _) => Err(format!("is a text or a number, and not of kind {found}")),
        (ValueKind::List, DeValue::Array(all)) => {
            let text = |v: &toml::Spanned<DeValue<'_>>| match v.get_ref() {
                DeValue::String(text) => Ok(text.to_string()),
                other => Err(format!(
                    "is a list of texts, and one is of kind {}",
                    other.type_str()
                )),
            };
            all.iter().map(text).collect()
        }
        (ValueKind::List, _) => Err(format!("is a list of texts, and not of kind {found}")),
    }
}
