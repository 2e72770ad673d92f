//! Reads files with secrets, if no other user could have read or written them.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::ProtectionError;

/// Reads a file with a secret: a private key or tokens.
///
/// On Unix, the owner is the user of this process, and the file's mode is 0600 or less. A file of root is also taken, for a
/// service that runs as another user: its group may read it (0640). Other systems have no such check.
///
/// ```
/// use thalweg_protection::read_secret;
///
/// let missing = read_secret("/no/such/key.pem".as_ref()).unwrap_err();
/// assert!(missing.to_string().contains("`thalweg protect` makes it"));
/// ```
///
/// # Errors
/// The file cannot be read, or other users have access to it.
pub fn read_secret(path: &Path) -> Result<Vec<u8>, ProtectionError> {
    let failed = |source| ProtectionError::File {
        path: path.to_owned(),
        source,
    };
    let mut file = File::open(path).map_err(failed)?;
    // The open file is checked, not its name: a name may lead to another file by now.
    #[cfg(unix)]
    check_access(path, &file.metadata().map_err(failed)?)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

#[cfg(unix)]
fn check_access(path: &Path, found: &std::fs::Metadata) -> Result<(), ProtectionError> {
    use std::os::unix::fs::MetadataExt;

    let user = rustix::process::geteuid().as_raw();
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    let path = path.to_owned();
    if owner != user && owner != 0 {
        return Err(ProtectionError::Owner {
            path,
            owner,
            user,
            mode,
        });
    }
    let wanted = wanted_mode(owner, user);
    // The bits of the owner do not matter.
    if mode & 0o077 & !wanted != 0 {
        return Err(ProtectionError::Mode { path, mode, wanted });
    }
    Ok(())
}

/// Returns the widest mode of a secret of this owner, for a process of this user.
#[cfg(unix)]
fn wanted_mode(owner: u32, user: u32) -> u32 {
    match owner == user {
        true => 0o600,
        // The user reads a file of root by its group, as with secrets that a container gets.
        false => 0o640,
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::*;

    /// A file with this mode, in the folder of temporary files.
    fn file(name: &str, mode: u32) -> PathBuf {
        let path = std::env::temp_dir().join(format!("thalweg-{name}-{}", std::process::id()));
        std::fs::write(&path, "a secret").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn a_secret_that_others_can_read_or_write_is_refused_with_its_path_and_modes() {
        for (mode, shown) in [(0o644, "0644"), (0o640, "0640"), (0o602, "0602")] {
            let path = file("open", mode);
            let error = read_secret(&path).unwrap_err();
            assert!(
                matches!(&error, ProtectionError::Mode { path: named, mode: found, wanted: 0o600 }
                    if *named == path && *found == mode),
                "{error:?}"
            );
            let path = path.display().to_string();
            assert_eq!(
                error.to_string(),
                format!(
                    "{path}: its mode is {shown}, so other users may read or change this secret; its mode has to be 0600: \
                     `chmod 600 {path}`"
                )
            );
        }
        std::fs::remove_file(file("open", 0o600)).unwrap();
    }

    #[test]
    fn a_secret_for_its_owner_alone_is_read() {
        for mode in [0o600, 0o400] {
            let path = file("private", mode);
            assert_eq!(read_secret(&path).unwrap(), b"a secret");
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn a_secret_of_another_user_is_refused_except_roots() {
        // Every process may read this file of root, so its owner is right and its mode is not.
        let path = Path::new("/etc/passwd");
        let found = std::fs::metadata(path).unwrap();
        let error = check_access(path, &found).unwrap_err();
        assert!(matches!(error, ProtectionError::Mode { .. }), "{error}");
        assert_eq!(wanted_mode(0, 1000), 0o640);
        assert_eq!(wanted_mode(0, 0), 0o600);
        // Root alone can make a file of another user.
        let path = file("foreign", 0o600);
        if std::os::unix::fs::chown(&path, Some(4321), None).is_ok() {
            let error = read_secret(&path).unwrap_err();
            assert!(
                matches!(error, ProtectionError::Owner { owner: 4321, .. }),
                "{error}"
            );
            assert!(error.to_string().contains("user 4321"), "{error}");
        }
        std::fs::remove_file(path).unwrap();
    }
}
