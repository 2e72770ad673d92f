//! Writer of a checkpoint.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost::Message;
use thalweg_tensor::{DType, Strings, Tensor};

use super::index::Index;
use super::paths::{data_path, index_path};
use super::slice::SliceSpec;
use super::{dtype, keys, proto, strings};
use crate::crc;
use crate::disk::{self, AtomicFile, Disk};
use crate::error::CheckpointError;
use crate::table::write::TableWriter;

/// Size of the pieces that are checksummed, and then written while they are still in a core's
/// cache, in bytes.
const PIECE_BYTES: usize = 512 << 10;

/// A checkpoint of one shard under construction. It appears as a whole, at
/// [`BundleWriter::finish`].
///
/// Tensors go to the disk as they are added, in any order, and are not copied. A checkpoint that
/// replaces another leaves that one unchanged until its own index has the name: its data is in a
/// file of another number.
///
/// ```
/// use thalweg_checkpoint::{BundleReader, BundleWriter, SliceSpec};
/// use thalweg_tensor::Tensor;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let folder = std::env::temp_dir().join(format!("thalweg-writer-{}", std::process::id()));
/// let mut writer = BundleWriter::create(&folder.join("m"))?;
/// // Two parts of one variable of four elements.
/// writer.add_slice("v", &SliceSpec::parse("4 0,2")?, &Tensor::vector(&[1i32, 2]))?;
/// writer.add_slice("v", &SliceSpec::parse("4 2,2")?, &Tensor::vector(&[3i32, 4]))?;
/// writer.finish()?;
/// let v = BundleReader::open(&folder.join("m"))?.tensor("v")?;
/// assert_eq!(v.to_vec::<i32>()?, [1, 2, 3, 4]);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
pub struct BundleWriter {
    disk: Arc<dyn Disk>,
    prefix: PathBuf,
    data: AtomicFile,
    entries: BTreeMap<Vec<u8>, proto::EntryProto>,
    size: u64,
    failed: bool,
    /// The number of data files: the last one has all data. It is two if an existing checkpoint of
    /// this prefix has one: its files stay unchanged until the index is replaced.
    shards: usize,
}

impl BundleWriter {
    /// Begins a checkpoint of this prefix, whose folder is created if it does not exist.
    ///
    /// # Errors
    /// [`CheckpointError::Io`].
    pub fn create(prefix: &Path) -> Result<BundleWriter, CheckpointError> {
        Self::create_on(&disk::system(), prefix)
    }

    /// As [`BundleWriter::create`], on this disk.
    ///
    /// # Errors
    /// [`CheckpointError::Io`].
    pub fn create_on(disk: &Arc<dyn Disk>, prefix: &Path) -> Result<BundleWriter, CheckpointError> {
        let folder = disk::folder_of(prefix);
        disk.create_folder(folder)
            .map_err(|e| CheckpointError::io(folder, "made", &e))?;
        let shards = match Index::read(&**disk, &index_path(prefix)) {
            Ok(there) if there.shards() == 1 => 2,
            _ => 1,
        };
        Ok(BundleWriter {
            disk: disk.clone(),
            prefix: prefix.to_owned(),
            data: AtomicFile::create(disk, &data_path(prefix, shards - 1, shards))?,
            shards,
            entries: BTreeMap::new(),
            size: 0,
            failed: false,
        })
    }

    /// Adds a tensor.
    ///
    /// # Errors
    /// [`CheckpointError::Duplicate`]; [`CheckpointError::Unsupported`] for an empty name and for
    /// resources and variants, which cannot be stored; [`CheckpointError::Io`], after which nothing
    /// can be added.
    pub fn add(&mut self, name: &str, tensor: &Tensor) -> Result<(), CheckpointError> {
        self.check_name(name)?;
        self.put(name, name.as_bytes().to_vec(), tensor)
    }

    /// Adds a slice of the variable `name`. The tensor has the slice's dimensions. A slice that
    /// covers the variable is added as a tensor.
    ///
    /// # Errors
    /// As [`BundleWriter::add`], and [`CheckpointError::Slice`] if the tensor does not have the
    /// slice's dimensions, or another slice of the same variable has other full dimensions.
    pub fn add_slice(
        &mut self,
        name: &str,
        slice: &SliceSpec,
        tensor: &Tensor,
    ) -> Result<(), CheckpointError> {
        self.check_name(name)?;
        let refused = |what: String| CheckpointError::Slice {
            slice: format!("{slice} of {name}"),
            what,
        };
        if tensor.dims() != slice.dims() {
            let dims = tensor.shape();
            return Err(refused(format!(
                " of the tensor that was given, whose shape is {dims}"
            )));
        }
        if slice.is_whole() {
            return self.put(name, name.as_bytes().to_vec(), tensor);
        }
        let number = self.number(name, tensor.dtype())?;
        let shape = Some(proto::Shape::of(slice.full_dims()));
        if let Some(whole) = self.entries.get(name.as_bytes()) {
            if whole.slices.is_empty() {
                return Err(self.duplicate(name));
            }
            if whole.shape != shape || whole.dtype != number {
                return Err(refused(
                    " of what an earlier slice is of: give both the same full dimensions and dtype"
                        .to_owned(),
                ));
            }
        }
        self.put(name, keys::slice_key(name, slice), tensor)?;
        let whole = self.entries.entry(name.as_bytes().to_vec());
        let whole = whole.or_insert_with(|| proto::EntryProto {
            dtype: number,
            shape,
            ..proto::EntryProto::default()
        });
        whole.slices.push(slice.to_proto());
        Ok(())
    }

    /// Adds a tensor, or, if `slice` is given, that slice of the variable `name`.
    ///
    /// # Errors
    /// As [`BundleWriter::add`] and [`BundleWriter::add_slice`].
    pub fn add_part(
        &mut self,
        name: &str,
        slice: Option<&SliceSpec>,
        tensor: &Tensor,
    ) -> Result<(), CheckpointError> {
        match slice {
            None => self.add(name, tensor),
            Some(slice) => self.add_slice(name, slice, tensor),
        }
    }

    fn check_name(&self, name: &str) -> Result<(), CheckpointError> {
        if name.is_empty() || name.starts_with('\0') {
            return Err(CheckpointError::unsupported(
                &self.prefix,
                Some(&format!("{name:?}")),
                "cannot be written: names begin with a character other than zero",
            ));
        }
        Ok(())
    }

    fn number(&self, name: &str, dtype: DType) -> Result<i32, CheckpointError> {
        dtype::number(dtype).ok_or_else(|| {
            CheckpointError::unsupported(
                &self.prefix,
                Some(name),
                format!(
                    "cannot be written: its dtype is {dtype}, a thing of the runtime's; save variables"
                ),
            )
        })
    }

    fn duplicate(&self, name: &str) -> CheckpointError {
        CheckpointError::Duplicate {
            name: name.to_owned(),
            file: self.prefix.clone(),
        }
    }

    /// Writes a tensor's bytes and keeps its entry.
    fn put(&mut self, name: &str, key: Vec<u8>, tensor: &Tensor) -> Result<(), CheckpointError> {
        if self.failed {
            return Err(CheckpointError::Failed {
                file: self.prefix.clone(),
            });
        }
        if self.entries.contains_key(&key) {
            return Err(self.duplicate(name));
        }
        let dtype = self.number(name, tensor.dtype())?;
        let wrote = match tensor.as_strings() {
            Ok(all) => write_strings(&mut self.data, all),
            Err(_) => {
                let wrote = write_summed(&mut self.data, 0, tensor.bytes());
                wrote.map(|sum| (tensor.bytes().len() as u64, sum))
            }
        };
        let (size, sum) = wrote.map_err(|e| {
            self.failed = true;
            CheckpointError::io(self.data.path(), "written", &e)
        })?;
        let entry = proto::EntryProto {
            dtype,
            shape: Some(proto::Shape::of(tensor.dims())),
            shard_id: self.shards as i32 - 1,
            offset: self.size as i64,
            size: size as i64,
            crc32c: crc::mask(sum),
            slices: Vec::new(),
        };
        self.size += size;
        self.entries.insert(key, entry);
        Ok(())
    }

    /// Puts the checkpoint in its place: the data, then the index, each synced before it is
    /// renamed.
    ///
    /// # Errors
    /// [`CheckpointError::Io`]; [`CheckpointError::Failed`] if an earlier write failed. There is no
    /// new checkpoint then.
    pub fn finish(self) -> Result<(), CheckpointError> {
        if self.failed {
            return Err(CheckpointError::Failed { file: self.prefix });
        }
        self.data.finish()?;
        if self.shards == 2 {
            // TensorFlow opens it by name when it lists a checkpoint's files.
            disk::write(&self.disk, &data_path(&self.prefix, 0, 2), &[])?;
        }
        write_index(&self.disk, &self.prefix, self.shards, &self.entries)?;
        remove_data(&self.disk, &self.prefix, 3 - self.shards)
    }
}

/// Removes the data files of the replaced checkpoint, whose index is gone.
pub(super) fn remove_data(
    disk: &Arc<dyn Disk>,
    prefix: &Path,
    shards: usize,
) -> Result<(), CheckpointError> {
    for shard in 0..shards {
        let path = data_path(prefix, shard, shards);
        match disk.remove(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(CheckpointError::io(&path, "removed", &e));
            }
            _ => {}
        }
    }
    Ok(())
}

fn write_summed(to: &mut AtomicFile, mut sum: u32, bytes: &[u8]) -> std::io::Result<u32> {
    for piece in bytes.chunks(PIECE_BYTES) {
        sum = crc32c::crc32c_append(sum, piece);
        to.write_all(piece)?;
    }
    Ok(sum)
}

fn write_strings(to: &mut AtomicFile, all: Strings<'_>) -> std::io::Result<(u64, u32)> {
    let (head, sum) = strings::head(all);
    to.write_all(&head)?;
    let sum = write_summed(to, sum, all.bytes())?;
    Ok(((head.len() + all.byte_len()) as u64, sum))
}

/// Writes the index of a checkpoint whose data is in its place.
pub(super) fn write_index(
    disk: &Arc<dyn Disk>,
    prefix: &Path,
    shards: usize,
    entries: &BTreeMap<Vec<u8>, proto::EntryProto>,
) -> Result<(), CheckpointError> {
    let path = index_path(prefix);
    let header = proto::HeaderProto {
        num_shards: shards as i32,
        endianness: 0,
        version: Some(proto::Version {
            producer: 1,
            ..proto::Version::default()
        }),
    };
    let mut table = TableWriter::new(AtomicFile::create(disk, &path)?);
    let mut wrote = table.add(b"", &header.encode_to_vec());
    for (key, entry) in entries {
        wrote = wrote.and_then(|()| table.add(key, &entry.encode_to_vec()));
    }
    let file = wrote
        .and_then(|()| table.finish())
        .map_err(|e| CheckpointError::io(&path, "written", &e))?;
    file.finish()?;
    // The checkpoint is announced only once the names of both files are on the disk. If only the
    // index's name got there, opening the checkpoint detects the missing data.
    disk::sync_folder_of(disk, prefix)
}
