//! Certificates, keys and tokens that are read again when their files change.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::{Duration, SystemTime};

use tokio::sync::oneshot;
use tokio::time::Instant;

use thalweg_protection::{ProtectionError, files};
use thalweg_tensor::sync::Unpoisoned;

use super::keys::Keys;

/// Minimum interval of the checks for changed files.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// Certificates, keys and tokens of a task or a client. All tasks and clients of a cluster have the same authority
/// and the same token.
#[derive(Clone)]
pub struct Protection(Arc<ReloadableKeys>);

struct ReloadableKeys {
    /// Folder of the files. `None` if they were given as bytes.
    folder: Option<PathBuf>,
    keys: RwLock<Arc<Keys>>,
    looked: Mutex<LastCheck>,
    /// Held while the files are checked.
    looks: tokio::sync::Mutex<()>,
}

/// Last check of the files.
struct LastCheck {
    at: Instant,
    found: Option<FileVersions>,
}

/// Version of the files: the modification time and the length of each.
type FileVersions = [(Option<SystemTime>, u64); 4];

/// Names of all files.
const FILE_NAMES: [&str; 4] = [
    files::AUTHORITY,
    files::CERTIFICATE,
    files::KEY,
    files::TOKEN,
];

impl Protection {
    /// Returns protection by certificates and a key as PEM, and a token. Certificates of several authorities may
    /// follow each other, and several tokens, one a line: all are accepted, and the first token is sent to others.
    ///
    /// # Errors
    /// They cannot be used.
    pub fn new(
        authority: &[u8],
        certificate: &[u8],
        key: &[u8],
        token: &str,
    ) -> Result<Protection, ProtectionError> {
        let keys = Keys::new(authority, certificate, key, token)?;
        Ok(Protection::of(keys, None, None))
    }

    /// Reads the files of a folder, named as in [`files`]. They are read again when they have changed: when a
    /// connection or a call is made, but not more often than once a second.
    ///
    /// # Errors
    /// A file cannot be read, or cannot be used, or other users have access to the key or the tokens.
    pub fn from_dir(folder: impl AsRef<Path>) -> Result<Protection, ProtectionError> {
        let folder = folder.as_ref().to_owned();
        // Files that change meanwhile are read again.
        let found = found(&folder);
        let keys = Keys::from_dir(&folder)?;
        Ok(Protection::of(keys, Some(folder), Some(found)))
    }

    fn of(keys: Keys, folder: Option<PathBuf>, found: Option<FileVersions>) -> Protection {
        let at = Instant::now();
        Protection(Arc::new(ReloadableKeys {
            folder,
            keys: RwLock::new(Arc::new(keys)),
            looked: Mutex::new(LastCheck { at, found }),
            looks: tokio::sync::Mutex::default(),
        }))
    }

    /// Returns the keys in force.
    pub(crate) fn keys(&self) -> Arc<Keys> {
        self.0.keys.read().unpoisoned().clone()
    }

    /// Returns the keys in force, after a check of the files if one is due.
    pub(crate) async fn fresh(&self) -> Arc<Keys> {
        if self.is_old() {
            // Concurrent calls wait: their token may be in the new files only.
            let _looks = self.0.looks.lock().await;
            if self.is_old() {
                let (this, (done, is_done)) = (self.clone(), oneshot::channel());
                let looks = std::thread::Builder::new().name("thalweg-keys".to_owned());
                let looks = looks.spawn(move || {
                    this.reload_if_changed();
                    let _ = done.send(());
                });
                // If the system gives no thread, the keys stay in force; a folder that does not answer delays a call
                // by the timeout only.
                if looks.is_ok() {
                    let _ = tokio::time::timeout(RELOAD_INTERVAL, is_done).await;
                }
                self.looked().at = Instant::now();
            }
        }
        self.keys()
    }

    /// `true` if a check of the files is due.
    fn is_old(&self) -> bool {
        self.0.folder.is_some() && self.looked().at.elapsed() >= RELOAD_INTERVAL
    }

    fn looked(&self) -> MutexGuard<'_, LastCheck> {
        self.0.looked.lock().unpoisoned()
    }

    /// Reads the files if they have changed.
    fn reload_if_changed(&self) {
        let Some(folder) = &self.0.folder else { return };
        let now = found(folder);
        if self.looked().found == Some(now) {
            return;
        }
        let shown = folder.display();
        match Keys::from_dir(folder) {
            Ok(keys) => {
                self.looked().found = Some(now);
                *self.0.keys.write().unpoisoned() = Arc::new(keys);
                tracing::info!("the certificates and tokens of {shown} were read again");
            }
            Err(e) => {
                // The files may be half written: they are read again until they can be used.
                tracing::warn!("{e}; the certificates and tokens from before stay in force");
            }
        }
    }
}

/// Returns the version of a folder's files.
fn found(folder: &Path) -> FileVersions {
    FILE_NAMES.map(|name| {
        let data = std::fs::metadata(folder.join(name)).ok();
        let time = data.as_ref().and_then(|d| d.modified().ok());
        (time, data.map_or(0, |d| d.len()))
    })
}

impl std::fmt::Debug for Protection {
    /// Shows no secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Protection").finish_non_exhaustive()
    }
}
