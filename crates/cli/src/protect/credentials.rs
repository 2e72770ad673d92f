//! Credentials of a cluster: certificates, a key and a token.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

use crate::failure::Failure;

/// Certificates and a key of one authority, as PEM.
pub(super) struct Credentials {
    pub(super) authority: String,
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Credentials {
    /// Makes a new authority, and a certificate for these hosts.
    pub(super) fn new(hosts: &[String]) -> Result<Credentials, Failure> {
        let mut own = CertificateParams::new(Vec::new())?;
        own.distinguished_name
            .push(DnType::CommonName, "the cluster's authority");
        own.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        own.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        // Its key is not kept, so it cannot sign any more certificates.
        let authority = CertifiedIssuer::self_signed(own, KeyPair::generate()?)?;

        let mut task = CertificateParams::new(hosts)?;
        task.distinguished_name
            .push(DnType::CommonName, "a task of the cluster");
        task.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // Every task is a server and a client.
        task.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate()?;
        Ok(Credentials {
            certificate: task.signed_by(&key, &authority)?.pem(),
            authority: authority.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// Returns a new token of 256 random bits.
pub(super) fn token() -> Result<String, Failure> {
    let mut token = [0; 32];
    getrandom::fill(&mut token)?;
    Ok(token.iter().map(|b| format!("{b:02x}")).collect())
}

/// Creates a file that no other user may read.
pub(super) fn write_private(path: &Path, text: &str) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options
        .open(path)
        .and_then(|mut f| f.write_all(text.as_bytes()));
    Ok(written.map_err(|e| format!("{}: {e}", path.display()))?)
}
