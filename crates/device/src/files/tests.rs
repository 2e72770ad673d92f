use super::*;
use std::fs;

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("thalweg-files-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("inside/deep")).unwrap();
    folder
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

#[test]
fn a_path_that_leaves_the_folder_is_refused() {
    let folder = folder("leave");
    let inside = folder.join("inside");
    let files = Files::within([&inside]).unwrap();
    std::os::unix::fs::symlink("/etc", inside.join("link")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", inside.join("model.index")).unwrap();
    fs::write(inside.join("plain"), "").unwrap();

    for good in ["model", "deep/model", "new/folders/model", "deep", "plain"] {
        let path = inside.join(good);
        assert_eq!(
            files.resolve(bytes(&path)).unwrap(),
            path.parent()
                .unwrap()
                .canonicalize()
                .unwrap_or(path.parent().unwrap().to_owned())
                .join(path.file_name().unwrap())
        );
    }
    let bad = [
        ("../outside", "'..'"),
        ("deep/../../outside", "'..'"),
        ("link/passwd", "symlink"),
        ("model.index", "symlink"),
        ("plain/model", "no folder"),
    ];
    for (bad, why) in bad {
        let error = files.resolve(bytes(&inside.join(bad))).unwrap_err();
        assert!(error.to_string().contains(why), "{bad}: {error}");
    }
    // A name that only begins as the folder's does.
    let beside = folder.join("inside-not/model");
    assert!(files.resolve(bytes(&beside)).is_err());
    for folder in [inside.clone(), inside.join("."), inside.join("")] {
        let error = files.resolve_prefix(bytes(&folder)).unwrap_err();
        assert!(error.to_string().contains("the folder itself"), "{error}");
    }
    let prefix = files.resolve_prefix(bytes(&inside.join("model")));
    assert!(prefix.unwrap_err().to_string().contains("plain files"));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn urls_of_local_files_are_paths() {
    let folder = folder("url");
    let files = Files::within([&folder]).unwrap();
    let path = folder.canonicalize().unwrap().join("model");
    for host in ["", "localhost"] {
        let url = [format!("file://{host}").as_bytes(), bytes(&path)].concat();
        assert_eq!(files.resolve(&url).unwrap(), path, "{host}");
        assert_eq!(Files::all().resolve(&url).unwrap(), path, "{host}");
    }
    for (url, why) in [
        ("file://elsewhere/model", "another machine"),
        ("file://model", "another machine"),
        ("file:///etc/passwd", "lies outside"),
        ("gs://bucket/model", "no file system for gs://"),
        ("s3://bucket/model", "no file system for s3://"),
    ] {
        let error = files.resolve(url.as_bytes()).unwrap_err();
        assert!(error.to_string().contains(why), "{url}: {error}");
    }
    // A name that is no URL.
    assert!(files.resolve(&[bytes(&path), b"/a b://c"].concat()).is_ok());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn devices_and_pipes_are_refused() {
    let files = Files::within(["/dev"]).unwrap();
    let error = files.resolve(b"/dev/null").unwrap_err();
    assert!(error.to_string().contains("device"), "{error}");
    for odd in [&b""[..], b"a\0b"] {
        assert!(files.resolve(odd).is_err());
    }
}

#[test]
fn a_folder_may_be_named_by_a_symlink() {
    let folder = folder("named");
    std::os::unix::fs::symlink(folder.join("inside"), folder.join("alias")).unwrap();
    let files = Files::within([folder.join("alias")]).unwrap();
    let real = folder.join("inside").canonicalize().unwrap().join("model");
    assert_eq!(
        files.resolve(bytes(&folder.join("alias/model"))).unwrap(),
        real
    );
    assert_eq!(files.resolve(bytes(&real)).unwrap(), real);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_folder_that_does_not_exist_is_an_error() {
    let error = Files::within(["/no/such/folder"]).unwrap_err();
    assert!(
        error.to_string().starts_with("/no/such/folder: "),
        "{error}"
    );
}

#[test]
fn each_way_out_of_the_folder_is_refused_with_its_reason() {
    let folder = folder("ways");
    let inside = folder.join("inside");
    let files = Files::within([&inside]).unwrap();
    std::os::unix::fs::symlink("deep", inside.join("alias")).unwrap();
    std::os::unix::fs::symlink("/no/such/file", inside.join("dangling")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(inside.join("socket")).unwrap();
    fs::write(inside.join("plain"), "").unwrap();
    for (path, why) in [
        ("..", "a path must not contain '..'"),
        ("deep/../model", "a path must not contain '..'"),
        // A symlink to a place inside is one too, and so is one to nothing.
        ("alias/model", "is a symlink: name what it leads to"),
        ("dangling", "is a symlink: name what it leads to"),
        ("socket", "it is a device, a pipe or a socket"),
        ("plain/model", "is no folder"),
        ("new\0name", "this is no name of a file"),
    ] {
        let path = inside.join(path);
        let Err(KernelError::Refused(text)) = files.resolve(bytes(&path)) else {
            panic!("{}", path.display());
        };
        let shown = path.to_string_lossy();
        assert!(text.starts_with(&format!("file '{shown}': ")), "{text}");
        assert!(text.ends_with(why), "{text}");
    }
    for outside in ["/etc/passwd", "/", "relative/model"] {
        let error = files.resolve(outside.as_bytes()).unwrap_err().to_string();
        let why = "it lies outside of the folders that this session allows (";
        assert!(error.contains(why), "{error}");
        assert!(error.contains(&inside.display().to_string()), "{error}");
    }
    assert!(files.resolve(b"").is_err());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn of_several_folders_each_may_be_used() {
    let folder = folder("several");
    let folders = ["inside", "inside/deep"].map(|f| folder.join(f));
    let files = Files::within(&folders).unwrap();
    for allowed in &folders {
        assert!(files.resolve(bytes(&allowed.join("model"))).is_ok());
    }
    assert!(files.resolve(bytes(&folder.join("model"))).is_err());
    let none = Files::within(Vec::<PathBuf>::new()).unwrap();
    assert!(none.resolve(bytes(&folders[0].join("model"))).is_err());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_name_may_have_bytes_that_are_not_text() {
    let folder = folder("bytes");
    let files = Files::within([&folder]).unwrap();
    let name = [bytes(&folder), b"/model-\xff"].concat();
    assert_eq!(bytes(&files.resolve(&name).unwrap()).last(), Some(&0xff));
    let outside = files.resolve(b"/model-\xff").unwrap_err().to_string();
    assert!(outside.starts_with("file '/model-\u{fffd}': "), "{outside}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_graph_of_the_program_itself_may_use_every_file_and_others_none() {
    assert_eq!(Files::all().resolve(b"../x").unwrap(), Path::new("../x"));
    assert_eq!(Files::all().resolve_prefix(b"x").unwrap(), Path::new("x"));
    for files in [Files::none(), Files::default()] {
        let error = files.resolve_prefix(b"x").unwrap_err().to_string();
        assert!(
            error.starts_with("file 'x': this session allows no files: "),
            "{error}"
        );
    }
}

#[test]
fn a_prefix_may_have_plain_files_beside_it_alone() {
    let folder = folder("prefix");
    let inside = folder.join("inside");
    let files = Files::within([&inside]).unwrap();
    let prefix = inside.join("model");
    let resolved = || files.resolve_prefix(bytes(&prefix));
    fs::write(inside.join("model.index"), "").unwrap();
    // Names that only begin as the prefix does are of other checkpoints.
    fs::create_dir(inside.join("model-2.data")).unwrap();
    assert!(resolved().is_ok());
    fs::create_dir(inside.join("model.data")).unwrap();
    let error = resolved().unwrap_err().to_string();
    assert!(
        error.ends_with("a checkpoint has plain files: remove it"),
        "{error}"
    );
    let new = inside.join("not/there/model");
    assert!(files.resolve_prefix(bytes(&new)).is_ok());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_listener_hears_of_each_checkpoint() {
    struct Heard(std::sync::Mutex<Vec<(Duration, bool)>>);
    impl CheckpointListener for Heard {
        fn saved(&self, took: Duration, well: bool) {
            self.0.lock().unwrap().push((took, well));
        }
    }
    let heard = Arc::new(Heard(std::sync::Mutex::default()));
    let files = Files::none();
    files.saved(Duration::from_secs(9), true);
    let files = files.with_checkpoint_listener(heard.clone());
    files.saved(Duration::from_secs(1), true);
    files.clone().saved(Duration::from_secs(2), false);
    let expected = [
        (Duration::from_secs(1), true),
        (Duration::from_secs(2), false),
    ];
    assert_eq!(*heard.0.lock().unwrap(), expected);
}

#[test]
fn a_file_is_no_folder() {
    let folder = folder("file");
    let file = folder.join("plain");
    fs::write(&file, "").unwrap();
    let error = Files::within([&file]).unwrap_err().to_string();
    assert_eq!(error, format!("{}: it is no folder", file.display()));
    fs::remove_dir_all(folder).unwrap();
}
