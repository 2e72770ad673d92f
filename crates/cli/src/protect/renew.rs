//! New certificates and a new token for a cluster whose tasks run.
//!
//! What a host has after a step works with what the other hosts have from this step and from the one before. A step that
//! was broken off is done again.

use std::path::Path;

use clap::ValueEnum;
use thalweg_dist::protection::{Protection, files};

use super::{Made, token, write};
use crate::Failure;

/// What takes the place of the others, from the first step to the second: the last of them says that all are there.
const NEXT: [&str; 4] = [
    "next-key.pem",
    "next-certificate.pem",
    "next-token",
    "next-authority.pem",
];
/// What ends each certificate in a file of several.
const END: &str = "-----END CERTIFICATE-----\n";

/// One step of a renewal. The steps follow each other.
#[derive(Clone, Copy, ValueEnum)]
pub enum Renew {
    /// Accept a new authority and a new token beside the old ones. Name the hosts, as for a new folder.
    Add,
    /// Show the new certificate and the new token.
    Switch,
    /// Accept the old authority and the old token no longer.
    Drop,
}

impl Renew {
    /// Does the step. One that was broken off may be done again.
    ///
    /// # Errors
    /// The step before was not done, or a file cannot be read or written.
    pub fn run(self, folder: &Path, hosts: &[String]) -> Result<(), Failure> {
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
        };
        let (authorities, tokens) = (read(files::AUTHORITY)?, read(files::TOKEN)?);
        let authorities: Vec<&str> = authorities.split_inclusive(END).collect();
        let tokens: Vec<&str> = tokens.lines().collect();
        let (Some(&authority), Some(&newest), Some(&token)) =
            (authorities.first(), authorities.last(), tokens.first())
        else {
            return Err(format!("{}: its files are empty", folder.display()).into());
        };
        let replace = |name: &str, text: &str| replace(folder, name, text);
        let waits = folder.join(NEXT[3]).exists();
        let renewed = authorities.len() > 1 || tokens.len() > 1;
        match (self, waits) {
            (Renew::Add, waits) if waits || !renewed => {
                if !waits {
                    // What is broken is not made worse.
                    Protection::from_dir(folder)?;
                    let made = next(hosts)?;
                    NEXT.iter()
                        .zip(&made)
                        .try_for_each(|(n, t)| replace(n, t))?;
                }
                replace(files::TOKEN, &format!("{token}\n{}\n", read(NEXT[2])?))?;
                let both = format!("{authority}{}", read(NEXT[3])?);
                replace(files::AUTHORITY, &both)?;
            }
            (Renew::Switch, true) if renewed => {
                replace(files::KEY, &read(NEXT[0])?)?;
                replace(files::CERTIFICATE, &read(NEXT[1])?)?;
                let new = read(NEXT[2])?;
                let old = tokens.iter().filter(|t| **t != new);
                let all = old.fold(format!("{new}\n"), |all, old| format!("{all}{old}\n"));
                replace(files::TOKEN, &all)?;
                // The one that says that all are there goes first.
                for name in NEXT.iter().rev() {
                    std::fs::remove_file(folder.join(name))?;
                }
            }
            (Renew::Drop, false) if renewed => {
                replace(files::AUTHORITY, newest)?;
                replace(files::TOKEN, &format!("{token}\n"))?;
            }
            _ => {
                let step = match (waits, renewed) {
                    (true, _) => "switch",
                    (false, true) => "drop",
                    (false, false) => "add",
                };
                let shown = folder.display();
                return Err(format!("{shown}: the next step is `--renew {step}`").into());
            }
        }
        Protection::from_dir(folder)?;
        Ok(())
    }
}

/// What takes the place of the others, as [`NEXT`] names it.
fn next(hosts: &[String]) -> Result<[String; 4], Failure> {
    if hosts.is_empty() {
        return Err("name the hosts of the new certificate, as for a new folder".into());
    }
    let made = Made::of(hosts)?;
    Ok([made.key, made.certificate, token()?, made.authority])
}

/// Puts a file into the place of another one, whole.
fn replace(folder: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let made = folder.join(format!("{name}.new"));
    // What a step that was broken off has left, if anything.
    let _ = std::fs::remove_file(&made);
    write(&made, text)?;
    let path = folder.join(name);
    Ok(std::fs::rename(&made, &path).map_err(|e| format!("{}: {e}", path.display()))?)
}
