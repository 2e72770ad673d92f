//! What was said to a server, by flags and by a file, and where each value comes from.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command};
use thalweg_dist::ServerOptions;
use toml::de::{DeTable, DeValue};

use super::settings::{Choice, Kind, choices, flag_of, nearest};
use crate::Failure;

/// Where a value comes from.
#[derive(Clone)]
pub enum Origin {
    Flag,
    File { path: PathBuf, line: usize },
}

/// A value: one text, or several of a list.
type Value = (Vec<String>, Origin);

/// What was said.
#[derive(Clone, Default)]
pub struct Said(BTreeMap<&'static str, Value>);

impl clap::FromArgMatches for Said {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Said, clap::Error> {
        let mut said = Said::default();
        for choice in choices() {
            let values: Vec<String> = match choice.kind {
                Kind::Flag if matches.get_flag(choice.name) => vec!["true".to_owned()],
                Kind::Flag => continue,
                Kind::Text | Kind::List => {
                    let given = matches.get_many::<String>(choice.name);
                    given.into_iter().flatten().cloned().collect()
                }
            };
            if !values.is_empty() {
                said.0.insert(choice.name, (values, Origin::Flag));
            }
        }
        Ok(said)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Said::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Said {
    fn augment_args(command: Command) -> Command {
        let arg = |choice: Choice| {
            let default = match choice.default {
                "" | "false" => String::new(),
                default => format!(" [default: {default}]"),
            };
            let arg = Arg::new(choice.name).long(flag_of(choice.name));
            let arg = arg.help(format!("{}{default}", choice.meaning));
            match choice.kind {
                Kind::Flag => arg.action(ArgAction::SetTrue),
                Kind::Text => arg.action(ArgAction::Set).value_name(choice.value),
                Kind::List => arg.action(ArgAction::Append).value_name(choice.value),
            }
        };
        command.args(choices().into_iter().map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Said::augment_args(command)
    }
}

impl Said {
    /// What the file says, for what no flag says.
    ///
    /// # Errors
    /// The file and the line of what is wrong.
    pub fn or_file(mut self, path: &Path) -> Result<Said, Failure> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|e| format!("{}: {e}", path.display()))?;
        let line_of = |at: usize| 1 + text[..at.min(text.len())].matches('\n').count();
        let wrong = |at: usize, what: String| -> Failure {
            format!("{}:{}: {what}", path.display(), line_of(at)).into()
        };
        let table = DeTable::parse(&text).map_err(|e| {
            let at = e.span().map_or(0, |s| s.start);
            wrong(at, e.message().to_owned())
        })?;
        let known = choices();
        for (name, value) in table.into_inner() {
            let (key, value_at) = (name.get_ref().to_string(), value.span().start);
            let Some(choice) = known.iter().find(|c| c.name == key) else {
                let near = nearest(&key);
                let text = format!("there is no setting '{key}': did you mean '{near}'?");
                return Err(wrong(name.span().start, text));
            };
            let values = values(choice, value.get_ref()).map_err(|what| {
                let text = format!("{key} {what}");
                wrong(value_at, text)
            })?;
            let origin = Origin::File {
                path: path.to_owned(),
                line: line_of(name.span().start),
            };
            if !values.is_empty() {
                self.0.entry(choice.name).or_insert((values, origin));
            }
        }
        Ok(self)
    }

    /// The value of this name.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.0.first().map(String::as_str)
    }

    /// The values of a list.
    pub fn list(&self, name: &str) -> &[String] {
        self.0.get(name).map_or(&[], |(values, _)| values)
    }

    pub fn flag(&self, name: &str) -> bool {
        self.text(name) == Some("true")
    }

    /// A number of a text.
    ///
    /// # Errors
    /// It is none.
    pub fn number<T: std::str::FromStr>(&self, name: &str, default: T) -> Result<T, Failure> {
        match self.text(name) {
            None => Ok(default),
            Some(text) => text
                .parse()
                .map_err(|_| self.wrong(name, &format!("'{text}' is no such number"))),
        }
    }

    /// An error about the value of this name, which says where the value is.
    pub fn wrong(&self, name: &str, what: &dyn std::fmt::Display) -> Failure {
        match self.0.get(name) {
            Some((_, Origin::File { path, line })) => {
                format!("{}:{line}: {name}: {what}", path.display()).into()
            }
            _ => format!("--{}: {what}", flag_of(name)).into(),
        }
    }

    /// Sets the numbers of the options.
    ///
    /// # Errors
    /// A text is no number of its unit.
    pub fn apply(&self, options: &mut ServerOptions) -> Result<(), Failure> {
        for setting in choices().iter().filter_map(|c| c.number) {
            if let Some(text) = self.text(setting.name) {
                let done = setting.set(options, text);
                done.map_err(|e| self.wrong(setting.name, &e))?;
            }
        }
        Ok(())
    }

    /// All values, as a file of `--config`: with what each is, and where it comes from.
    pub fn shown(&self, options: &ServerOptions) -> String {
        let mut out = String::new();
        for choice in choices() {
            let (values, from) = match self.0.get(choice.name) {
                Some((values, Origin::Flag)) => {
                    (values.clone(), format!("from --{}", flag_of(choice.name)))
                }
                Some((values, Origin::File { path, line })) => {
                    (values.clone(), format!("from {}:{line}", path.display()))
                }
                None => {
                    let default = match choice.number {
                        Some(_) => format!("the default: {}", choice.default),
                        None => "the default".to_owned(),
                    };
                    let value = match choice.number {
                        Some(setting) => vec![setting.of(options)],
                        None if choice.default.is_empty() => Vec::new(),
                        None => vec![choice.default.to_owned()],
                    };
                    (value, default)
                }
            };
            let line = line_of(&choice, &values);
            let _ = writeln!(out, "# {}\n# ({from})\n{line}\n", choice.meaning);
        }
        out
    }
}

/// A text as a basic string of TOML.
fn quoted(text: &str) -> String {
    let escaped = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04X}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}

/// A line of the file.
fn line_of(choice: &Choice, values: &[String]) -> String {
    let name = choice.name;
    match (choice.kind, values) {
        (Kind::List, values) => {
            let all: Vec<String> = values.iter().map(|v| quoted(v)).collect();
            format!("{name} = [{}]", all.join(", "))
        }
        (_, []) => format!("# {name} = \"\""),
        (Kind::Flag, [value, ..]) => format!("{name} = {value}"),
        (Kind::Text, [value, ..])
            if value.parse::<i64>().is_ok_and(|n| n.to_string() == *value) =>
        {
            format!("{name} = {value}")
        }
        (Kind::Text, [value, ..]) => format!("{name} = {}", quoted(value)),
    }
}

/// The texts of a value of a file; none for a flag that is not set.
fn values(choice: &Choice, value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let found = value.type_str();
    match (choice.kind, value) {
        (Kind::Flag, DeValue::Boolean(true)) => Ok(vec!["true".to_owned()]),
        (Kind::Flag, DeValue::Boolean(false)) => Ok(Vec::new()),
        (Kind::Flag, _) => Err(format!("is true or false, and not of kind {found}")),
        (Kind::Text, DeValue::String(text)) => Ok(vec![text.to_string()]),
        (Kind::Text, DeValue::Integer(number)) => Ok(vec![number.to_string()]),
        (Kind::Text, _) => Err(format!("is a text or a number, and not of kind {found}")),
        (Kind::List, DeValue::Array(all)) => {
            let text = |v: &toml::Spanned<DeValue<'_>>| match v.get_ref() {
                DeValue::String(text) => Ok(text.to_string()),
                other => Err(format!(
                    "is a list of texts, and one is of kind {}",
                    other.type_str()
                )),
            };
            all.iter().map(text).collect()
        }
        (Kind::List, _) => Err(format!("is a list of texts, and not of kind {found}")),
    }
}
