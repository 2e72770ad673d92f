//! Errors of keys.

use std::path::PathBuf;

use thiserror::Error;

/// Minimum length of a token, in characters.
pub(crate) const MIN_TOKEN_LENGTH: usize = 16;

/// Error of keys.
#[derive(Error)]
#[non_exhaustive]
pub enum ProtectionError {
    /// A file cannot be read.
    #[error("{}: {source}; `thalweg protect` makes it", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// Other users may read or write a file with a secret.
    #[error(
        "{path}: its mode is {mode:04o}, so other users may read or change this secret; its mode has to be {wanted:04o}: \
         `chmod {wanted:o} {path}`",
        path = path.display()
    )]
    Mode {
        /// Path of the file.
        path: PathBuf,
        /// Mode of the file.
        mode: u32,
        /// Mode that a secret has.
        wanted: u32,
    },
    /// A file with a secret belongs to another user.
    #[error(
        "{path}: it belongs to user {owner}, with mode {mode:04o}; a secret has to belong to user {user}, who runs this \
         process, or to root, with mode 0600: `chown {user} {path}`",
        path = path.display()
    )]
    Owner {
        /// Path of the file.
        path: PathBuf,
        /// Number of the user who owns the file.
        owner: u32,
        /// Number of the user of this process.
        user: u32,
        /// Mode of the file.
        mode: u32,
    },
    /// The token cannot be used.
    #[error(
        "a token has at least {MIN_TOKEN_LENGTH} printable characters, none of them a space: make it anew with `thalweg protect`"
    )]
    Token,
    /// The certificates or the key cannot be used.
    #[error("these certificates and this key cannot be used: {0}; see `thalweg protect`")]
    Certificates(String),
}

/// Prints the message of `Display`: a program that returns the error from `main` prints its `Debug` form.
impl std::fmt::Debug for ProtectionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
