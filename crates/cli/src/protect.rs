//! `thalweg protect`: certificates and a token for a cluster.

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

/// Makes what protects a cluster: a folder with a certificate for its hosts, the certificate of the
/// authority that has signed it, and a token. Copy the folder to every host, over a way that you trust,
/// and give it to all tasks and clients with --protection DIR: whoever has it can call the tasks, and
/// stand in for one. Made anew, it locks out who has the one from before.
#[derive(Args)]
pub struct Protect {
    /// The folder to make. It must not be there yet.
    folder: PathBuf,
    /// The names and addresses by which the tasks are called, without ports.
    #[arg(required = true, value_name = "HOST")]
    hosts: Vec<String>,
}

impl Protect {
    /// Makes the folder.
    pub fn run(&self) -> Result<(), Failure> {
        let mut own = CertificateParams::new(Vec::new())?;
        own.distinguished_name
            .push(DnType::CommonName, "the cluster's authority");
        own.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        own.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        // Its key is not kept: nobody can sign more in its name.
        let authority = CertifiedIssuer::self_signed(own, KeyPair::generate()?)?;

        let mut task = CertificateParams::new(self.hosts.clone())?;
        task.distinguished_name
            .push(DnType::CommonName, "a task of the cluster");
        task.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // Every task is called, and calls others.
        task.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate()?;
        let certificate = task.signed_by(&key, &authority)?.pem();
        let mut token = [0; 32];
        getrandom::fill(&mut token)?;
        let token: String = token.iter().map(|b| format!("{b:02x}")).collect();

        let all = [
            (files::AUTHORITY, authority.pem()),
            (files::CERTIFICATE, certificate),
            (files::KEY, key.serialize_pem()),
            (files::TOKEN, token),
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
        say::line(shown)
    }
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
