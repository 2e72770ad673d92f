//! Programs of a job on other hosts: at the paths that they have here, or copies.

use std::path::{Path, PathBuf};

use super::job::HostedJob;
use super::plan::Places;
use crate::copy::{CopiedFile, copy_to_hosts};
use crate::error::Result;
use crate::probe::find_program;
use crate::program::program_path;
use crate::signals::Signals;

/// Name of a copied agent.
const AGENT: &str = "thalweg-agent";

impl HostedJob {
    /// Path of the agent on other hosts.
    pub(crate) fn agent_path(&self) -> String {
        match &self.options.copy {
            Some(folder) => folder.join(AGENT).to_string_lossy().into_owned(),
            None => self.options.agent.clone(),
        }
    }

    /// Program of the tasks on this host or another, and the folder in which they run.
    ///
    /// # Errors
    /// The current folder has no path.
    pub(crate) fn program(&self, is_local: bool) -> Result<(String, String)> {
        let program = program_path(&self.command[0]);
        let text = |path: &Path| path.to_string_lossy().into_owned();
        match &self.options.copy {
            // A task of this host runs in this folder even if its name is no UTF-8.
            _ if is_local => Ok((text(&program), String::new())),
            Some(folder) => Ok((text(&folder.join(file_name(&program))), text(folder))),
            None => Ok((text(&program), text(&std::env::current_dir()?))),
        }
    }

    /// Copies the program and the agent to all other hosts, if the options say so.
    ///
    /// # Errors
    /// There is no such program; a host does not take it. A signal has come.
    pub(super) fn copy_programs(&self, places: &Places, signals: &mut Signals) -> Result<()> {
        let Some(folder) = &self.options.copy else {
            return Ok(());
        };
        if !folder.is_absolute() {
            return Err(format!("--copy {}: give an absolute path", folder.display()).into());
        }
        let name = &self.command[0];
        let program = program_path(name).to_string_lossy().into_owned();
        let path = find_program(&program, &std::env::current_dir()?)
            .ok_or_else(|| format!("there is no program '{name}' to be copied"))?;
        let hosts = places.hosts.iter().map(|host| host.name.clone());
        let hosts: Vec<String> = hosts.filter(|name| !self.access.is_local(name)).collect();
        let files = [
            CopiedFile {
                path: PathBuf::from(&self.options.agent),
                name: AGENT.to_owned(),
            },
            CopiedFile {
                name: file_name(&path),
                path,
            },
        ];
        copy_to_hosts(&self.access, &hosts, folder, &files, signals)
    }
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
