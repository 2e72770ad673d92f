//! Certificates, keys and tokens that are read again when their files change.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use tokio::sync::oneshot;
use tokio::time::Instant;

use thalweg_protection::{ProtectionError, files};

use super::keys::Keys;
use crate::runtime::lock::locked;

/// How often files are looked at, at most.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// What a task or a client shows to the tasks of a cluster, and what it asks of them. All of a cluster
/// have the same authority and the same token.
#[derive(Clone)]
pub struct Protection(Arc<ReloadableKeys>);

struct ReloadableKeys {
    /// Where they came from.
    folder: Option<PathBuf>,
    keys: RwLock<Arc<Keys>>,
    looked: Mutex<LastCheck>,
    /// Held while the files are looked at.
    looks: tokio::sync::Mutex<()>,
}

/// The last look at the files.
struct LastCheck {
    at: Instant,
    found: Option<FileVersions>,
}

/// What tells one version of the files from another: of each, its time and its length.
type FileVersions = [(Option<SystemTime>, u64); 4];

/// The names of all files.
const FILE_NAMES: [&str; 4] = [
    files::AUTHORITY,
    files::CERTIFICATE,
    files::KEY,
    files::TOKEN,
];

impl Protection {
    /// From certificates and a key as PEM, and a token. The certificates of several authorities may follow each
    /// other, and several tokens, one a line: all are accepted, and the first token is shown to others.
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

    /// From the files of a folder, named as in [`files`]. They are read again when they have changed: when a
    /// connection or a call is made, but not more often than once a second.
    ///
    /// # Errors
    /// One cannot be read, or not be used.
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

    /// What is in force.
    pub(crate) fn keys(&self) -> Arc<Keys> {
        let keys = self.0.keys.read();
        keys.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is in force, after a look at the files if the last one was a while ago.
    pub(crate) async fn fresh(&self) -> Arc<Keys> {
        if self.is_old() {
            // Who comes meanwhile waits: what it has may be known by the files alone.
            let _looks = self.0.looks.lock().await;
            if self.is_old() {
                let (this, (done, is_done)) = (self.clone(), oneshot::channel());
                let looks = std::thread::Builder::new().name("thalweg-keys".to_owned());
                let looks = looks.spawn(move || {
                    this.look();
                    let _ = done.send(());
                });
                // Where no thread can be had, the keys stay as they are; a folder that does not answer holds nobody.
                if looks.is_ok() {
                    let _ = tokio::time::timeout(RELOAD_INTERVAL, is_done).await;
                }
                self.looked().at = Instant::now();
            }
        }
        self.keys()
    }

    /// Whether it is time for a look.
    fn is_old(&self) -> bool {
        self.0.folder.is_some() && self.looked().at.elapsed() >= RELOAD_INTERVAL
    }

    fn looked(&self) -> MutexGuard<'_, LastCheck> {
        locked(&self.0.looked)
    }

    /// Reads the files if they have changed.
    fn look(&self) {
        let Some(folder) = &self.0.folder else { return };
        let now = found(folder);
        if self.looked().found == Some(now) {
            return;
        }
        let shown = folder.display();
        match Keys::from_dir(folder) {
            Ok(keys) => {
                self.looked().found = Some(now);
                *self.0.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
                tracing::info!("the certificates and tokens of {shown} were read again");
            }
            Err(e) => {
                // They may be half written: they are read again until they can be used.
                tracing::warn!("{e}; the certificates and tokens from before stay in force");
            }
        }
    }
}

/// Which version of its files a folder has.
fn found(folder: &Path) -> FileVersions {
    FILE_NAMES.map(|name| {
        let data = std::fs::metadata(folder.join(name)).ok();
        let time = data.as_ref().and_then(|d| d.modified().ok());
        (time, data.map_or(0, |d| d.len()))
    })
}

impl std::fmt::Debug for Protection {
    /// Tells nothing of it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Protection").finish_non_exhaustive()
    }
}
