//! Checkpoints on a `FolderDisk`: no symlink below the folder is followed, even one that appears in the middle of a save.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thalweg_checkpoint::disk::{Disk, FolderDisk};
use thalweg_checkpoint::{BundleReader, BundleWriter, CheckpointError, MergeOptions, bundle};
use thalweg_tensor::Tensor;

/// An allowed folder with a folder `run`, and a folder outside, without symlinks on the way.
fn folders(name: &str) -> (PathBuf, PathBuf) {
    let all =
        std::env::temp_dir().join(format!("thalweg-folder-disk-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&all);
    fs::create_dir_all(all.join("inside/run")).unwrap();
    fs::create_dir_all(all.join("outside")).unwrap();
    let all = all.canonicalize().unwrap();
    (all.join("inside"), all.join("outside"))
}

fn save(disk: &Arc<dyn Disk>, prefix: &Path, value: i32) -> Result<(), CheckpointError> {
    let mut writer = BundleWriter::create_on(disk, prefix)?;
    writer.add("v", &Tensor::scalar(value))?;
    writer.finish()
}

fn restore(disk: &Arc<dyn Disk>, prefix: &Path) -> Result<i32, CheckpointError> {
    let reader = BundleReader::open_on(&**disk, prefix)?;
    Ok(reader.tensor("v")?.as_slice::<i32>().unwrap()[0])
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[test]
fn checkpoints_are_saved_merged_and_restored_below_the_folder() {
    let (inside, _) = folders("plain");
    let disk: Arc<dyn Disk> = Arc::new(FolderDisk::new([inside.clone()]));
    let parts = [inside.join("new/deep/part-0"), inside.join("run/part-1")];
    save(&disk, &parts[0], 1).unwrap();
    let mut writer = BundleWriter::create_on(&disk, &parts[1]).unwrap();
    writer.add("w", &Tensor::scalar(2)).unwrap();
    writer.finish().unwrap();
    let whole = inside.join("whole");
    bundle::merge_on(&disk, &parts, &whole, MergeOptions::default()).unwrap();
    assert_eq!(restore(&disk, &whole).unwrap(), 1);
    // The folders of the parts are empty, and gone.
    assert_eq!(
        names(&inside),
        [
            "new",
            "whole.data-00000-of-00002",
            "whole.data-00001-of-00002",
            "whole.index"
        ]
    );
    assert!(names(&inside.join("new")).is_empty());
    assert_eq!(disk.list(&inside).unwrap().len(), 4);
    fs::remove_dir_all(inside.parent().unwrap()).unwrap();
}

#[test]
fn each_operation_refuses_a_symlink_and_a_path_outside() {
    let (inside, outside) = folders("refused");
    let disk = FolderDisk::new([inside.clone()]);
    fs::write(outside.join("file"), "secret").unwrap();
    fs::write(inside.join("file"), "own").unwrap();
    symlink(&outside, inside.join("link")).unwrap();
    symlink(outside.join("file"), inside.join("link-to-file")).unwrap();
    let paths = [
        inside.join("link/file"),
        outside.join("file"),
        inside.join("../outside/file"),
    ];
    for path in &paths {
        assert!(disk.open(path).is_err(), "{}", path.display());
        assert!(disk.create(&path.with_file_name("new")).is_err());
        assert!(disk.create_folder(&path.with_file_name("new")).is_err());
        assert!(disk.rename(&inside.join("file"), path).is_err());
        assert!(disk.rename(path, &inside.join("taken")).is_err());
        assert!(disk.remove(path).is_err());
        assert!(disk.remove_folder(path).is_err());
        assert!(disk.sync_folder(path.parent().unwrap()).is_err());
        assert!(disk.list(path.parent().unwrap()).is_err());
    }
    let error = disk.open(&paths[0]).unwrap_err();
    assert!(error.to_string().contains("link is a symlink"), "{error}");
    assert!(disk.open(&inside.join("link-to-file")).is_err());
    assert!(disk.create(&inside.join("link-to-file")).is_err());
    assert_eq!(names(&outside), ["file"]);
    assert_eq!(fs::read(outside.join("file")).unwrap(), b"secret");
    // A rename replaces a symlink, and not the file that it leads to.
    disk.rename(&inside.join("file"), &inside.join("link-to-file"))
        .unwrap();
    assert_eq!(fs::read(outside.join("file")).unwrap(), b"secret");
    fs::remove_dir_all(inside.parent().unwrap()).unwrap();
}

#[test]
fn pipes_are_refused_without_waiting() {
    let (inside, _) = folders("pipe");
    let made = std::process::Command::new("mkfifo")
        .arg(inside.join("model.index"))
        .status();
    assert!(made.unwrap().success());
    let disk: Arc<dyn Disk> = Arc::new(FolderDisk::new([inside.clone()]));
    let error = restore(&disk, &inside.join("model")).unwrap_err();
    assert!(error.to_string().contains("no plain file"), "{error}");
    fs::remove_dir_all(inside.parent().unwrap()).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_swapped_for_a_symlink_leads_nowhere() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let (inside, outside) = folders("swapped");
    let disk: Arc<dyn Disk> = Arc::new(FolderDisk::new([inside.clone()]));
    let system = thalweg_checkpoint::disk::system();
    save(&system, &outside.join("secret"), 7).unwrap();
    let before = names(&outside);
    let (run, link) = (inside.join("run"), inside.join("link"));
    symlink(&outside, &link).unwrap();
    let done = AtomicBool::new(false);
    let (mut saved, mut refused, mut leaked) = (0, 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in (0..30).cycle() {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                // The folder is in its place for up to 15 ms, and the symlink for an instant.
                let place = [
                    Duration::from_micros(500 * round),
                    Duration::from_micros(50),
                ];
                for time in place {
                    std::thread::sleep(time);
                    renameat_with(CWD, &run, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                }
            }
        });
        for value in 0..20_000 {
            match save(&disk, &run.join("model"), value) {
                Ok(()) => saved += 1,
                Err(_) => refused += 1,
            }
            leaked += i32::from(restore(&disk, &run.join("secret")).is_ok());
            if saved >= 50 && refused >= 50 {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(leaked, 0);
    assert!(
        saved > 0 && refused > 0,
        "{saved} saves done, {refused} refused"
    );
    assert_eq!(names(&outside), before);
    fs::remove_dir_all(inside.parent().unwrap()).unwrap();
}
