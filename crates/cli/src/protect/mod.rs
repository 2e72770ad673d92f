//! `thalweg protect`: certificates and a token for a cluster.

mod renew;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use thalweg_dist::protection::{Protection, files};

use crate::Failure;
use crate::say;
use renew::Renew;

/// Makes what protects a cluster: a folder with a certificate for its hosts, the certificate of the
/// authority that has signed it, and a token. Copy the folder to every host, over a way that you trust,
/// and give it to all tasks and clients with --protection DIR: whoever has it can call the tasks, and
/// stand in for one. Made anew, it locks out who has the one from before; --renew replaces all of it in three
/// steps while the tasks run.
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

/// What one authority makes, as PEM.
struct Made {
    authority: String,
    certificate: String,
    key: String,
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
        say::line(self.folder.display())
    }

    fn make(&self) -> Result<(), Failure> {
        let made = Made::of(&self.hosts)?;
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
            .try_for_each(|(name, text)| write(&self.folder.join(name), text))
            .and_then(|()| Ok(Protection::from_dir(&self.folder)?));
        if let Err(e) = made {
            // Half of it protects nothing, and would stand in the way of the next try.
            std::fs::remove_dir_all(&self.folder)?;
            return Err(e);
        }
        Ok(())
    }
}

impl Made {
    /// A new authority, and a certificate for these hosts.
    fn of(hosts: &[String]) -> Result<Made, Failure> {
        let mut own = CertificateParams::new(Vec::new())?;
        own.distinguished_name
            .push(DnType::CommonName, "the cluster's authority");
        own.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        own.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        // Its key is not kept: nobody can sign more in its name.
        let authority = CertifiedIssuer::self_signed(own, KeyPair::generate()?)?;

        let mut task = CertificateParams::new(hosts)?;
        task.distinguished_name
            .push(DnType::CommonName, "a task of the cluster");
        task.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // Every task is called, and calls others.
        task.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate()?;
        Ok(Made {
            certificate: task.signed_by(&key, &authority)?.pem(),
            authority: authority.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// A token that nobody can guess.
fn token() -> Result<String, Failure> {
    let mut token = [0; 32];
    getrandom::fill(&mut token)?;
    Ok(token.iter().map(|b| format!("{b:02x}")).collect())
}

/// A file that nobody else may read.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options
        .open(path)
        .and_then(|mut f| f.write_all(text.as_bytes()));
    Ok(written.map_err(|e| format!("{}: {e}", path.display()))?)
}
