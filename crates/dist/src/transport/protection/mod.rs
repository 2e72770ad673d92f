//! Protection of a cluster: mutual TLS, and a token that its tasks share.
//!
//! A task shows a certificate to its callers and asks them for one; both have to be signed by the cluster's
//! authority. A call must also carry the token.
//!
//! `thalweg protect DIR host1 host2` makes the certificates and the token. All tasks and clients get them:
//!
//! ```no_run
//! use thalweg_dist::{Protection, Server, ServerOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let options = ServerOptions::listening("0.0.0.0:2222").protection(Protection::from_dir("keys")?);
//! let server = Server::start(options)?;
//! server.join()?;
//! # Ok(())
//! # }
//! ```
//!
//! The files of [`Protection::from_dir`] are read again when they change: certificates and tokens are replaced
//! while tasks run. Files that cannot be used change nothing.
//!
//! A token that can be guessed is refused:
//!
//! ```
//! use thalweg_dist::Protection;
//!
//! let refused = Protection::new(b"", b"", b"", "secret").unwrap_err();
//! assert!(refused.to_string().contains("at least 16"));
//! ```

mod keys;
mod reload;

pub use reload::Protection;
pub use thalweg_protection::{ProtectionError, files, read_secret};
