//! Folders of images: a folder for each class.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::DataError;
use crate::pipeline::{FromVec, Pipeline, from_vec};

/// Endings of the names of images, in any case.
const EXTENSIONS: [&str; 5] = ["jpg", "jpeg", "png", "bmp", "gif"];

/// Largest size of a file that [`read_file`] reads, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// The images of a folder that has a folder for each class. Classes and files are in the order of their names, so that
/// labels are the same on every machine.
///
/// ```no_run
/// use thalweg_data::{ImageFolder, read_file};
///
/// # fn main() -> Result<(), thalweg_data::DataError> {
/// let flowers = ImageFolder::scan("flower_photos")?;
/// println!("{:?}", flowers.classes());
/// let encoded = flowers
///     .paths()
///     .shuffle(4000, 1)
///     .map_parallel(4, |(path, label)| Ok((read_file(path)?, label)));
/// # let _ = encoded;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFolder {
    classes: Vec<String>,
    files: Vec<(PathBuf, i64)>,
}

impl ImageFolder {
    /// Lists the images of a folder. Files of other kinds, files beside the folders of classes, folders in these, and
    /// names that start with a point are left out.
    ///
    /// # Errors
    /// [`DataError::Io`]: a folder cannot be read. [`DataError::Pattern`]: there are no images.
    pub fn scan(dir: impl AsRef<Path>) -> Result<ImageFolder, DataError> {
        let dir = dir.as_ref();
        let mut folder = ImageFolder {
            classes: Vec::new(),
            files: Vec::new(),
        };
        for name in names(dir)? {
            let class = dir.join(&name);
            if !class.is_dir() {
                continue;
            }
            let label = folder.classes.len() as i64;
            folder.classes.push(name.to_string_lossy().into_owned());
            let files = names(&class)?.into_iter().map(|file| class.join(file));
            let images = files.filter(|path| is_image(path) && path.is_file());
            folder.files.extend(images.map(|path| (path, label)));
        }
        if folder.files.is_empty() {
            return Err(DataError::Pattern {
                pattern: dir.join("*/*.{jpg,jpeg,png,bmp,gif}").display().to_string(),
                reason: "no file matches it: give a folder that has a folder for each class"
                    .to_owned(),
            });
        }
        Ok(folder)
    }

    /// The names of the classes. The label of an image is the number of its class.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The paths of the images, each with its label.
    pub fn files(&self) -> &[(PathBuf, i64)] {
        &self.files
    }

    /// A pipeline of the paths, each with its label.
    pub fn paths(&self) -> Pipeline<FromVec<(PathBuf, i64)>> {
        from_vec(self.files.clone())
    }
}

/// The names in a folder, sorted.
fn names(dir: &Path) -> Result<Vec<OsString>, DataError> {
    let wrong = |source| DataError::Io {
        path: dir.to_owned(),
        source,
    };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(wrong)? {
        let name = entry.map_err(wrong)?.file_name();
        if !name.as_encoded_bytes().starts_with(b".") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn is_image(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str());
    extension.is_some_and(|e| EXTENSIONS.iter().any(|known| e.eq_ignore_ascii_case(known)))
}

/// The bytes of a file, of up to 1 GiB.
///
/// # Errors
/// [`DataError::Io`]: the file cannot be read. [`DataError::Format`]: it is larger.
pub fn read_file(path: impl AsRef<Path>) -> Result<Vec<u8>, DataError> {
    let path = path.as_ref();
    let wrong = |source| DataError::Io {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(wrong)?;
    let size = file.metadata().map_err(wrong)?.len();
    let mut bytes = Vec::with_capacity(size.min(MAX_FILE_BYTES) as usize);
    let mut limited = file.take(MAX_FILE_BYTES + 1);
    limited.read_to_end(&mut bytes).map_err(wrong)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(DataError::Format {
            path: path.to_owned(),
            offset: MAX_FILE_BYTES,
            reason: format!("the file is larger than the {MAX_FILE_BYTES} bytes that are read"),
        });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_and_files_are_sorted_and_others_are_left_out() {
        let folder = std::env::temp_dir().join(format!("thalweg-folder-{}", std::process::id()));
        for class in ["tulip", "daisy", "empty", ".git"] {
            std::fs::create_dir_all(folder.join(class)).unwrap();
        }
        let files = [
            "tulip/b.JPEG",
            "tulip/a.png",
            "daisy/z.Gif",
            "daisy/notes.txt",
            "daisy/.x.jpg",
            ".git/x.jpg",
            "x.jpg",
        ];
        for file in files {
            std::fs::write(folder.join(file), file).unwrap();
        }
        let images = ImageFolder::scan(&folder).unwrap();
        assert_eq!(images.classes(), ["daisy", "empty", "tulip"]);
        let found = images
            .paths()
            .map(|(path, label)| Ok((read_file(path)?, label)));
        let found: Vec<_> = found
            .map(|(bytes, l)| Ok((String::from_utf8(bytes).unwrap(), l)))
            .collect::<Result<_, _>>()
            .unwrap();
        let expected = [("daisy/z.Gif", 0), ("tulip/a.png", 2), ("tulip/b.JPEG", 2)];
        assert_eq!(
            found,
            expected.map(|(name, label)| (name.to_owned(), label))
        );
        let error = ImageFolder::scan(folder.join("tulip"))
            .unwrap_err()
            .to_string();
        assert!(
            error.ends_with("give a folder that has a folder for each class"),
            "{error}"
        );
        std::fs::remove_dir_all(folder).unwrap();
    }
}
