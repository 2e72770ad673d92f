//! Keys and certificates of the soak's cluster, made and replaced by the program `thalweg`.

use std::path::PathBuf;
use std::process::Command;

use thalweg_tests::folders::Folder;
use thalweg_tests::network::Network;

use super::{SERVERS, WORKERS};

/// A folder with certificates and a token.
pub struct Keys {
    folder: Folder,
    hosts: Vec<String>,
}

impl Keys {
    /// Makes keys for all hosts.
    pub fn new(network: &Network) -> Keys {
        let keys = Keys {
            folder: Folder::new("soak_keys"),
            hosts: (0..SERVERS + WORKERS).map(|h| network.address(h)).collect(),
        };
        succeeds(
            thalweg()
                .arg("protect")
                .arg(keys.folder())
                .args(&keys.hosts),
        );
        keys
    }

    /// Their folder.
    pub fn folder(&self) -> PathBuf {
        self.folder.join("keys")
    }

    /// Runs one step of the replacement.
    pub fn renew(&self, step: &str) {
        let hosts: &[String] = if step == "add" { &self.hosts } else { &[] };
        let mut renew = thalweg();
        renew.arg("protect").arg(self.folder());
        succeeds(renew.args(hosts).args(["--renew", step]));
    }
}

/// The program, which cargo puts beside the tests.
fn thalweg() -> Command {
    let tests = std::env::current_exe().unwrap();
    let program = tests.ancestors().nth(2).unwrap().join("thalweg");
    assert!(
        program.exists(),
        "{} is not there: build thalweg-cli with the same profile first, or set PROTECTED=0",
        program.display()
    );
    Command::new(program)
}

fn succeeds(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}
