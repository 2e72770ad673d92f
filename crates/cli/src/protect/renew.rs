//! New certificates and a new token for a cluster whose tasks run.
//!
//! At every moment, what one host has works with what the other hosts have from this step and from the one
//! before.

use std::path::Path;

use clap::ValueEnum;
use thalweg_dist::protection::{Protection, files};

use super::{Made, token, write};
use crate::Failure;

/// The certificate and the key that take the place of the others in the second step.
const NEXT: [&str; 2] = ["next-certificate.pem", "next-key.pem"];
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
    /// Does the step.
    ///
    /// # Errors
    /// The step before was not done, or a file cannot be read or written.
    pub fn run(self, folder: &Path, hosts: &[String]) -> Result<(), Failure> {
        // What is broken is not made worse.
        Protection::from_dir(folder)?;
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
        };
        let (authorities, tokens) = (read(files::AUTHORITY)?, read(files::TOKEN)?);
        let authorities: Vec<&str> = authorities.split_inclusive(END).collect();
        let tokens: Vec<&str> = tokens.lines().collect();
        let replace = |name: &str, text: &str| replace(folder, name, text);
        let waits = folder.join(NEXT[0]).exists();
        match (self, &authorities[..], &tokens[..]) {
            (Renew::Add, [old_authority], [old_token]) => {
                if hosts.is_empty() {
                    return Err("name the hosts of the new certificate, as for a new folder".into());
                }
                let made = Made::of(hosts)?;
                replace(NEXT[1], &made.key)?;
                replace(files::TOKEN, &format!("{old_token}\n{}\n", token()?))?;
                replace(NEXT[0], &made.certificate)?;
                replace(
                    files::AUTHORITY,
                    &format!("{old_authority}{}", made.authority),
                )
            }
            (Renew::Switch, [_, _], [old, new]) if waits => {
                replace(files::KEY, &read(NEXT[1])?)?;
                replace(files::CERTIFICATE, &read(NEXT[0])?)?;
                replace(files::TOKEN, &format!("{new}\n{old}\n"))?;
                for name in NEXT {
                    std::fs::remove_file(folder.join(name))?;
                }
                Ok(())
            }
            (Renew::Drop, [_, new_authority], [new_token, _]) if !waits => {
                replace(files::AUTHORITY, new_authority)?;
                replace(files::TOKEN, &format!("{new_token}\n"))
            }
            _ => Err(format!(
                "{}: this step is not the next one: `add`, `switch` and `drop` follow each other",
                folder.display()
            )
            .into()),
        }
    }
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
