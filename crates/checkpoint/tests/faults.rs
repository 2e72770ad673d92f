//! A save that is stopped at any operation leaves the earlier checkpoint intact.

mod support;

use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::Folder;
use thalweg_checkpoint::disk::{Disk, DiskFile, SystemDisk};
use thalweg_checkpoint::{
    BundleReader, BundleWriter, CheckpointError, MergeOptions, bundle, state,
};
use thalweg_tensor::Tensor;

/// The failure of an operation and of those after it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// The process dies: nothing works from then on, not even the removal of unfinished files.
    Killed,
    /// The disk is full once: half of the bytes are written, and later operations work.
    Full,
}

/// A disk whose n-th operation fails.
#[derive(Clone, Debug)]
struct Faulty {
    at: usize,
    fault: Fault,
    count: Arc<AtomicUsize>,
}

impl Faulty {
    fn disk(at: usize, fault: Fault) -> (Arc<dyn Disk>, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let disk = Faulty {
            at,
            fault,
            count: count.clone(),
        };
        (Arc::new(disk), count)
    }

    fn fails(&self) -> bool {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        match self.fault {
            Fault::Killed => number >= self.at,
            Fault::Full => number == self.at,
        }
    }

    fn step(&self) -> io::Result<()> {
        match self.fails() {
            true => Err(io::Error::new(io::ErrorKind::StorageFull, "no space left")),
            false => Ok(()),
        }
    }
}

struct FaultyFile {
    disk: Faulty,
    file: Box<dyn DiskFile>,
}

impl Write for FaultyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.disk.fails() {
            self.file.write_all(&bytes[..bytes.len() / 2])?;
            return Err(io::Error::new(io::ErrorKind::StorageFull, "no space left"));
        }
        self.file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for FaultyFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl DiskFile for FaultyFile {
    fn sync(&mut self) -> io::Result<()> {
        self.disk.step()?;
        self.file.sync()
    }
}

impl Disk for Faulty {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.step()?;
        let file = SystemDisk.create(path)?;
        Ok(Box::new(FaultyFile {
            disk: self.clone(),
            file,
        }))
    }

    fn open(&self, path: &Path) -> io::Result<std::fs::File> {
        SystemDisk.open(path)
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        SystemDisk.create_folder(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        SystemDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        SystemDisk.remove(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        SystemDisk.remove_folder(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        SystemDisk.sync_folder(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.step()?;
        SystemDisk.list(path)
    }
}

fn values(step: i64) -> Vec<(String, Tensor)> {
    let large: Vec<f32> = (0..300_000).map(|i| i as f32 + step as f32).collect();
    vec![
        ("large".to_owned(), Tensor::vector(&large)),
        ("step".to_owned(), Tensor::scalar(step)),
        ("text".to_owned(), Tensor::from(format!("at {step}"))),
    ]
}

fn options() -> state::RetentionOptions {
    state::RetentionOptions {
        max_to_keep: 2,
        ..Default::default()
    }
}

/// A save of one task, with the state file and deletions.
fn save(disk: &Arc<dyn Disk>, folder: &Path, step: i64) -> Result<(), CheckpointError> {
    let prefix = folder.join(format!("model.ckpt-{step}"));
    let mut writer = BundleWriter::create_on(disk, &prefix)?;
    for (name, value) in values(step) {
        writer.add(&name, &value)?;
    }
    writer.finish()?;
    state::Retention::open_on(disk, folder, options())?.saved(&prefix)
}

/// A save in two parts, which are merged.
fn save_parts(disk: &Arc<dyn Disk>, folder: &Path, step: i64) -> Result<(), CheckpointError> {
    let prefix = folder.join(format!("model.ckpt-{step}"));
    let parts = [0, 1].map(|i| folder.join(format!("model.ckpt-{step}_temp/part-{i}")));
    for (i, part) in parts.iter().enumerate() {
        let mut writer = BundleWriter::create_on(disk, part)?;
        for (name, value) in values(step).iter().skip(i).step_by(2) {
            writer.add(name, value)?;
        }
        writer.finish()?;
    }
    bundle::merge_on(disk, &parts, &prefix, MergeOptions::default())?;
    state::Retention::open_on(disk, folder, options())?.saved(&prefix)
}

/// `true` if all of a step's values are there.
fn is_whole(prefix: &Path, step: i64) -> bool {
    BundleReader::open(prefix).is_ok_and(|reader| {
        let mut all = values(step).into_iter();
        all.all(|(name, value)| reader.tensor(&name).is_ok_and(|found| found == value))
    })
}

type Save = fn(&Arc<dyn Disk>, &Path, i64) -> Result<(), CheckpointError>;

/// Stops the third save at each of its operations, and returns their number.
fn stop_at_each(fault: Fault, save: Save) -> usize {
    for at in 0.. {
        let folder = Folder::in_memory("faults");
        let disk: Arc<dyn Disk> = Arc::new(SystemDisk);
        save(&disk, folder.path(), 1).unwrap();
        save(&disk, folder.path(), 2).unwrap();
        let (faulty, count) = Faulty::disk(at, fault);
        let saved = save(&faulty, folder.path(), 3);
        let said = format!("{fault:?} at operation {at}");
        let newest = state::latest_checkpoint(folder.path())
            .unwrap()
            .expect(&said);
        let step = if newest.ends_with("model.ckpt-3") {
            3
        } else {
            2
        };
        assert!(newest.ends_with(format!("model.ckpt-{step}")), "{said}");
        assert!(is_whole(&newest, step), "{said}");
        // The one before is intact too, whatever the state file names.
        assert!(is_whole(&folder.join("model.ckpt-2"), 2), "{said}");
        assert!(saved.is_err() || step == 3, "{said}");
        if fault == Fault::Full {
            let left = std::fs::read_dir(folder.path()).unwrap();
            let left = left.map(|e| e.unwrap().file_name().into_string().unwrap());
            let torn: Vec<_> = left.filter(|name| name.ends_with(".part")).collect();
            assert!(torn.is_empty(), "{said}: {torn:?}");
        }
        // A later save succeeds, over the leftovers of the stopped one.
        save(&disk, folder.path(), 3).unwrap();
        assert!(is_whole(&folder.join("model.ckpt-3"), 3), "{said}");
        if count.load(Ordering::Relaxed) <= at {
            return at;
        }
    }
    unreachable!()
}

#[test]
fn a_save_that_is_killed_at_any_operation_leaves_the_checkpoint_before_it() {
    let operations = stop_at_each(Fault::Killed, save);
    assert!(operations > 15, "{operations}");
}

#[test]
fn a_disk_that_is_full_at_any_operation_leaves_the_checkpoint_before_it_and_no_torn_file() {
    stop_at_each(Fault::Full, save);
}

#[test]
fn a_merge_that_is_killed_at_any_operation_leaves_the_checkpoint_before_it() {
    let operations = stop_at_each(Fault::Killed, save_parts);
    assert!(operations > 25, "{operations}");
    stop_at_each(Fault::Full, save_parts);
}

#[test]
fn a_checkpoint_that_is_written_over_is_the_old_or_the_new_one_at_any_operation() {
    let save = |disk: &Arc<dyn Disk>, prefix: &Path, step: i64| {
        let mut writer = BundleWriter::create_on(disk, prefix)?;
        let mut all = values(step).into_iter();
        all.try_for_each(|(name, value)| writer.add(&name, &value))?;
        writer.finish()
    };
    for fault in [Fault::Killed, Fault::Full] {
        for at in 0.. {
            let folder = Folder::in_memory("over");
            let (prefix, disk): (_, Arc<dyn Disk>) = (folder.join("model"), Arc::new(SystemDisk));
            save(&disk, &prefix, 1).unwrap();
            let (faulty, count) = Faulty::disk(at, fault);
            let saved = save(&faulty, &prefix, 2);
            let said = format!("{fault:?} at operation {at}");
            let new = is_whole(&prefix, 2);
            assert!(new || is_whole(&prefix, 1), "{said}");
            assert!(new || saved.is_err(), "{said}");
            // Again and again: the files alternate, and none is left over.
            for step in 3..6 {
                save(&disk, &prefix, step).unwrap();
                assert!(is_whole(&prefix, step), "{said}, step {step}");
            }
            let data = std::fs::read_dir(folder.path()).unwrap();
            let data = data.filter(|e| {
                !e.as_ref()
                    .unwrap()
                    .file_name()
                    .to_string_lossy()
                    .ends_with(".part")
            });
            assert!(data.count() <= 3, "{said}");
            if count.load(Ordering::Relaxed) <= at {
                break;
            }
        }
    }
}

#[test]
fn a_merge_over_a_checkpoint_is_the_old_or_the_new_one_at_any_operation() {
    let save = |disk: &Arc<dyn Disk>, prefix: &Path, step: i64| {
        let parts = [0, 1].map(|i| prefix.with_file_name(format!("temp/part-{i}")));
        for (i, part) in parts.iter().enumerate() {
            let mut writer = BundleWriter::create_on(disk, part)?;
            for (name, value) in values(step).iter().skip(i).step_by(2) {
                writer.add(name, value)?;
            }
            writer.finish()?;
        }
        bundle::merge_on(disk, &parts, prefix, MergeOptions::default())
    };
    for at in 0.. {
        let folder = Folder::in_memory("merge_over");
        let (prefix, disk): (_, Arc<dyn Disk>) = (folder.join("model"), Arc::new(SystemDisk));
        save(&disk, &prefix, 1).unwrap();
        let (faulty, count) = Faulty::disk(at, Fault::Killed);
        let saved = save(&faulty, &prefix, 2);
        let new = is_whole(&prefix, 2);
        assert!(new || is_whole(&prefix, 1), "at operation {at}");
        assert!(new || saved.is_err(), "at operation {at}");
        for step in 3..6 {
            save(&disk, &prefix, step).unwrap();
            assert!(is_whole(&prefix, step), "at operation {at}, step {step}");
        }
        if count.load(Ordering::Relaxed) <= at {
            break;
        }
    }
}

#[test]
fn a_copied_or_moved_folder_has_its_own_checkpoints_and_deletes_no_others() {
    let folder = Folder::in_memory("copied");
    let disk: Arc<dyn Disk> = Arc::new(SystemDisk);
    let first = folder.join("first");
    save(&disk, &first, 1).unwrap();
    save(&disk, &first, 2).unwrap();
    let copy = folder.join("copy");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(&first).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    let newest = state::latest_checkpoint(&copy).unwrap();
    assert_eq!(newest, Some(copy.join("model.ckpt-2")));
    for step in 3..9 {
        save(&disk, &copy, step).unwrap();
    }
    assert!(is_whole(&first.join("model.ckpt-1"), 1) && is_whole(&first.join("model.ckpt-2"), 2));
    assert!(!copy.join("model.ckpt-1.index").exists());

    let moved = folder.join("moved");
    std::fs::rename(&first, &moved).unwrap();
    let newest = state::latest_checkpoint(&moved).unwrap();
    assert_eq!(newest, Some(moved.join("model.ckpt-2")));
}
