//! Renewal of the certificates and the token of a cluster whose tasks run.
//!
//! The files of a host after a step work with those of other hosts after the same step and after the one before. A step that
//! was interrupted can be repeated.

use std::path::Path;

use clap::ValueEnum;
use thalweg_dist::protection::{Protection, files, read_secret};

use super::credentials::{Credentials, token, write_private};
use crate::failure::Failure;

/// Files of the new credentials, from the first step to the second. The last one is written last, so it marks a complete set.
const NEXT: [&str; 4] = [
    "next-key.pem",
    "next-certificate.pem",
    "next-token",
    "next-authority.pem",
];
/// Last line of each certificate in a PEM file.
const END: &str = "-----END CERTIFICATE-----\n";

/// Step of a renewal. The steps follow each other.
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
    /// Does the step. A step that was interrupted may be repeated.
    ///
    /// # Errors
    /// The step before is missing, or a file cannot be read or written.
    pub fn run(self, folder: &Path, hosts: &[String]) -> Result<(), Failure> {
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
        };
        let secret = |name: &str| secret(&folder.join(name));
        let (authorities, tokens) = (read(files::AUTHORITY)?, secret(files::TOKEN)?);
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
                    // Broken files stay as they are.
                    Protection::from_dir(folder)?;
                    let made = next(hosts)?;
                    NEXT.iter()
                        .zip(&made)
                        .try_for_each(|(n, t)| replace(n, t))?;
                }
                replace(files::TOKEN, &format!("{token}\n{}\n", secret(NEXT[2])?))?;
                let both = format!("{authority}{}", read(NEXT[3])?);
                replace(files::AUTHORITY, &both)?;
            }
            (Renew::Switch, true) if renewed => {
                replace(files::KEY, &secret(NEXT[0])?)?;
                replace(files::CERTIFICATE, &read(NEXT[1])?)?;
                let new = secret(NEXT[2])?;
                let old = tokens.iter().filter(|t| **t != new);
                let all = old.fold(format!("{new}\n"), |all, old| format!("{all}{old}\n"));
                replace(files::TOKEN, &all)?;
                // The mark of a complete set is removed first.
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

/// Reads a file that no other user may read.
fn secret(path: &Path) -> Result<String, Failure> {
    let text = String::from_utf8(read_secret(path)?);
    Ok(text.map_err(|e| format!("{}: {e}", path.display()))?)
}

/// Contents of the files [`NEXT`].
fn next(hosts: &[String]) -> Result<[String; 4], Failure> {
    if hosts.is_empty() {
        return Err("name the hosts of the new certificate, as for a new folder".into());
    }
    let made = Credentials::new(hosts)?;
    Ok([made.key, made.certificate, token()?, made.authority])
}

/// Replaces a file atomically.
fn replace(folder: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let made = folder.join(format!("{name}.new"));
    // A step that was interrupted may have left one.
    let _ = std::fs::remove_file(&made);
    write_private(&made, text)?;
    let path = folder.join(name);
    Ok(std::fs::rename(&made, &path).map_err(|e| format!("{}: {e}", path.display()))?)
}
