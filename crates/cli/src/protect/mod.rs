//! `thalweg protect`: certificates and a token for a cluster.

mod credentials;
mod renew;

use std::path::PathBuf;

use clap::Args;
use thalweg_dist::protection::{Protection, files};

use crate::failure::Failure;
use crate::output;
use credentials::{Credentials, token, write_private};
use renew::Renew;

/// Makes the keys of a cluster: a folder with a certificate for its hosts, the certificate of the authority that has signed
/// it, and a token. Copy the folder to every host, over a channel that you trust, and give it to all tasks and clients with
/// --protection DIR: a holder of the folder can call the tasks, and stand in for one. A new folder locks out the holders of an
/// earlier one; --renew replaces all files in three steps while the tasks run.
#[derive(Args)]
pub struct Protect {
    /// The folder to make, which must not exist yet; with --renew, the folder to change.
    folder: PathBuf,
    /// The names and addresses by which the tasks are called, without ports.
    #[arg(required_unless_present = "renew", value_name = "HOST")]
    hosts: Vec<String>,
    /// Do one step of replacing the certificates and the token. After each step, copy the folder to every host; the
    /// tasks read it again within seconds.
    #[arg(long, value_name = "STEP")]
    renew: Option<Renew>,
}

impl Protect {
    /// Makes the folder, or does a step of its renewal.
    pub fn run(&self) -> Result<(), Failure> {
        match self.renew {
            None => self.make()?,
            Some(Renew::Switch | Renew::Drop) if !self.hosts.is_empty() => {
                return Err("hosts are named with `--renew add` only".into());
            }
            Some(step) => step.run(&self.folder, &self.hosts)?,
        }
        output::line(self.folder.display())
    }

    fn make(&self) -> Result<(), Failure> {
        let made = Credentials::new(&self.hosts)?;
        let all = [
            (files::AUTHORITY, made.authority),
            (files::CERTIFICATE, made.certificate),
            (files::KEY, made.key),
            (files::TOKEN, token()?),
        ];
        let shown = self.folder.display();
        std::fs::create_dir(&self.folder)
            .map_err(|e| format!("{shown}: {e}; name a folder to make that is not there yet"))?;
        let made = (all.iter())
            .try_for_each(|(name, text)| write_private(&self.folder.join(name), text))
            .and_then(|()| Ok(Protection::from_dir(&self.folder)?));
        if let Err(e) = made {
            // An incomplete folder protects nothing, and would block the next attempt.
            std::fs::remove_dir_all(&self.folder)?;
            return Err(e);
        }
        Ok(())
    }
}
