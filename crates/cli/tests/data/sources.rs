//! `thalweg data convert`: each kind of source, and its errors.

use thalweg_data::LmdbReader;
use thalweg_data::example::Datum;
use thalweg_image::{decode, size_of};

use super::support::{Folder, fails, works};
use super::{each_example, int, jpeg, names, photos, text};

#[test]
fn a_folder_of_pictures_becomes_shards_with_the_keys_of_imagenet() {
    let folder = Folder::new("convert");
    let source = photos(&folder, 6);
    let convert = |to: &str, threads: &str| {
        let to = folder.at(to);
        works(&[
            "data",
            "convert",
            &source,
            "--to",
            &to,
            "--shards",
            "3",
            "--validation",
            "0.25",
            "--seed",
            "7",
            "--threads",
            threads,
        ]);
        names(&to)
    };
    let expected = [
        "labels.txt",
        "train-00000-of-00003",
        "train-00001-of-00003",
        "train-00002-of-00003",
        "validation-00000-of-00001",
    ];
    assert_eq!(convert("one", "1"), expected);
    assert_eq!(convert("two", "4"), expected);
    let mut found = Vec::new();
    let mut classes = Vec::new();
    for name in expected {
        let [one, two] = ["one", "two"].map(|to| folder.at(&format!("{to}/{name}")));
        let bytes = std::fs::read(&one).unwrap();
        assert!(
            bytes == std::fs::read(two).unwrap(),
            "{name}: the order follows from the seed"
        );
        if name == "labels.txt" {
            assert_eq!(bytes, b"n01440764\nrose\n");
            continue;
        }
        classes.extend(each_example(&one, |e| text(e, "image/class/text")));
        found.extend(each_example(&one, |e| {
            let class = text(e, "image/class/text").unwrap();
            let filename = text(e, "image/filename").unwrap();
            let file = folder.join("photos").join(&class).join(&filename);
            let encoded = e
                .get("image/encoded")
                .unwrap()
                .bytes()
                .unwrap()
                .next()
                .unwrap();
            assert!(encoded == std::fs::read(file).unwrap(), "the file itself");
            let sizes = ["height", "width", "channels"].map(|k| int(e, &format!("image/{k}")));
            assert_eq!(sizes, [Some(30), Some(40), Some(3)]);
            assert_eq!(text(e, "image/format").unwrap(), "JPEG");
            assert_eq!(text(e, "image/colorspace").unwrap(), "RGB");
            let (label, synset) = match class.as_str() {
                "rose" => (2, None),
                _ => (1, Some(class.clone())),
            };
            assert_eq!(int(e, "image/class/label"), Some(label));
            assert_eq!(text(e, "image/class/synset"), synset);
            (class, filename)
        }));
    }
    assert!(!classes.is_sorted(), "the classes are mixed");
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 12);
}

#[test]
fn pictures_are_made_smaller_and_files_compressed() {
    let folder = Folder::new("resize");
    let source = photos(&folder, 1);
    for method in ["gzip", "zlib"] {
        let file = folder.at(&format!("{method}.tfrecord"));
        works(&[
            "data",
            "convert",
            &source,
            "--to",
            &file,
            "--compression",
            method,
            "--resize",
            "15",
            "--first-label",
            "0",
        ]);
        let start: &[u8] = if method == "gzip" {
            &[0x1f, 0x8b]
        } else {
            &[0x78, 0x9c]
        };
        assert!(std::fs::read(&file).unwrap().starts_with(start));
        let mut labels = each_example(&file, |e| {
            let encoded = e
                .get("image/encoded")
                .unwrap()
                .bytes()
                .unwrap()
                .next()
                .unwrap();
            let size = size_of(encoded).unwrap();
            assert_eq!((size.height, size.width), (15, 20));
            assert_eq!(int(e, "image/width"), Some(20));
            let level = decode(encoded, 3).unwrap().pixels[0];
            let label = int(e, "image/class/label").unwrap();
            assert!(level.abs_diff([10, 130][label as usize]) < 3);
            label
        });
        labels.sort_unstable();
        assert_eq!(labels, [0, 1]);
    }
}

#[test]
fn a_damaged_picture_is_an_error_that_leaves_nothing_behind_or_is_left_out() {
    let folder = Folder::new("damaged");
    let source = photos(&folder, 3);
    std::fs::write(folder.join("photos/rose/bad.jpg"), &jpeg(1)[..200]).unwrap();
    let to = folder.at("records");
    let error = fails(&["data", "convert", &source, "--to", &to]);
    assert!(
        error.contains("rose/bad.jpg: the JPEG file is truncated"),
        "{error}"
    );
    assert!(error.contains("--skip-damaged"), "{error}");
    assert_eq!(names(&to), [""; 0]);

    let report = works(&["data", "convert", &source, "--to", &to, "--skip-damaged"]);
    assert!(report.contains("1 picture left out"), "{report}");
    let file = |n| format!("{to}/train-0000{n}-of-00004");
    let all = (0..4).map(|n| each_example(&file(n), |e| e.len()).len());
    assert_eq!(all.sum::<usize>(), 6);
}

#[test]
fn files_of_an_older_conversion_and_other_classes_are_refused() {
    let folder = Folder::new("older");
    let source = photos(&folder, 2);
    let to = folder.at("records");
    works(&["data", "convert", &source, "--to", &to, "--shards", "2"]);
    // Readers take all by a pattern: another number of files would mix two conversions.
    let error = fails(&["data", "convert", &source, "--to", &to, "--shards", "3"]);
    assert!(
        error.contains("-of-00002 is there already: remove"),
        "{error}"
    );
    works(&[
        "data", "convert", &source, "--to", &to, "--shards", "1", "--name", "test",
    ]);
    std::fs::create_dir(folder.join("photos/another")).unwrap();
    let error = fails(&["data", "convert", &source, "--to", &to, "--name", "other"]);
    assert!(error.contains("labels.txt lists other classes"), "{error}");
}

#[test]
fn idx_files_become_png_files() {
    let folder = Folder::new("idx");
    let images = folder.at("t10k-images-idx3-ubyte");
    let mut bytes = vec![0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 4];
    bytes.extend((0..24).map(|n| n * 10));
    std::fs::write(&images, bytes).unwrap();
    std::fs::write(
        folder.join("t10k-labels-idx1-ubyte"),
        [0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 4],
    )
    .unwrap();
    let file = folder.at("digits.tfrecord");
    works(&["data", "convert", &images, "--to", &file]);
    let mut all = each_example(&file, |e| {
        let encoded = e
            .get("image/encoded")
            .unwrap()
            .bytes()
            .unwrap()
            .next()
            .unwrap();
        let image = decode(encoded, 0).unwrap();
        assert_eq!((image.height, image.width, image.channels), (2, 4, 1));
        assert_eq!(text(e, "image/format").unwrap(), "PNG");
        assert_eq!(text(e, "image/colorspace").unwrap(), "Grayscale");
        let label = int(e, "image/class/label").unwrap();
        (image.pixels[0], label, text(e, "image/class/text").unwrap())
    });
    all.sort();
    let expected = [(0, 8, "7"), (80, 1, "0"), (160, 5, "4")];
    assert_eq!(
        all,
        expected.map(|(pixel, label, text)| (pixel, label, text.to_owned()))
    );

    let alone = folder.at("alone");
    std::fs::copy(&images, &alone).unwrap();
    let error = fails(&["data", "convert", &alone, "--to", &folder.at("x.tfrecord")]);
    assert!(error.contains("name its file of labels too"), "{error}");
}

#[test]
fn cifar_files_become_png_files_with_the_names_of_classes() {
    let folder = Folder::new("cifar");
    let record = |label: u8, colors: [u8; 3]| {
        let planes = colors.into_iter().flat_map(|c| vec![c; 1024]);
        [label].into_iter().chain(planes).collect::<Vec<u8>>()
    };
    let bytes = [record(9, [1, 2, 3]), record(0, [4, 5, 6])].concat();
    std::fs::write(folder.join("data_batch_1.bin"), bytes).unwrap();
    let classes = "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n";
    std::fs::write(folder.join("batches.meta.txt"), classes).unwrap();
    let file = folder.at("cifar.tfrecord");
    works(&["data", "convert", &folder.at(""), "--to", &file]);
    let mut all = each_example(&file, |e| {
        let encoded = e
            .get("image/encoded")
            .unwrap()
            .bytes()
            .unwrap()
            .next()
            .unwrap();
        let image = decode(encoded, 0).unwrap();
        assert_eq!((image.height, image.width, image.channels), (32, 32, 3));
        let pixel = image.pixels[3069..].to_vec();
        (
            int(e, "image/class/label").unwrap(),
            text(e, "image/class/text").unwrap(),
            pixel,
        )
    });
    all.sort();
    let expected = [(1, "airplane", [4, 5, 6]), (10, "truck", [1, 2, 3])];
    assert_eq!(all, expected.map(|(l, t, p)| (l, t.to_owned(), p.to_vec())));
}

#[test]
fn lmdb_holds_the_files_of_pictures_with_the_keys_of_caffe() {
    let folder = Folder::new("lmdb");
    let source = photos(&folder, 5);
    let to = folder.at("out");
    works(&[
        "data",
        "convert",
        &source,
        "--to",
        &to,
        "--format",
        "lmdb",
        "--validation",
        "0.2",
    ]);
    assert_eq!(names(&to), ["labels.txt", "train.lmdb", "validation.lmdb"]);
    let mut seen = Vec::new();
    for (set, count) in [("train", 8), ("validation", 2)] {
        let file = LmdbReader::open(format!("{to}/{set}.lmdb")).unwrap();
        assert_eq!(file.len(), count);
        let mut cursor = file.cursor();
        for number in 0..count {
            let (key, value) = cursor.next().unwrap().unwrap();
            let key = String::from_utf8(key).unwrap();
            let name = key.strip_prefix(&format!("{number:08}_")).unwrap();
            let datum = Datum::parse(&value).unwrap();
            assert_eq!((datum.channels, datum.height, datum.width), (3, 30, 40));
            assert!(datum.encoded);
            let class = ["n01440764", "rose"][datum.label as usize];
            let file = folder.join("photos").join(class).join(name);
            assert!(datum.data == std::fs::read(&file).unwrap());
            seen.push(file);
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 10);
    let table = folder.at("x.csv");
    std::fs::write(&table, "a\n1\n").unwrap();
    let error = fails(&["data", "convert", &table, "--to", &to, "--format", "lmdb"]);
    assert!(error.contains("not the row of a table"), "{error}");
}

#[test]
fn columns_of_a_table_have_the_narrowest_type() {
    let folder = Folder::new("table");
    let source = folder.at("people.csv");
    std::fs::write(&source, "age,height,name\n30,1.5,\"Ann, B\"\n,2,\n7,,x\n").unwrap();
    let file = folder.at("people.tfrecord");
    works(&["data", "convert", &source, "--to", &file]);
    let row = |e: &thalweg_data::example::Example<'_>| {
        let height = e.get("height").and_then(|f| f.floats()?.next());
        (
            int(e, "age"),
            height.map(|h| h.to_string()),
            text(e, "name"),
        )
    };
    let mut all = each_example(&file, row);
    all.sort();
    let expected = [
        (None, Some("2"), None),
        (Some(7), None, Some("x")),
        (Some(30), Some("1.5"), Some("Ann, B")),
    ];
    let owned = |s: Option<&str>| s.map(str::to_owned);
    assert_eq!(
        all,
        expected.map(|(age, height, name)| (age, owned(height), owned(name)))
    );

    let to = folder.at("x.tfrecord");
    let error = fails(&[
        "data",
        "convert",
        &source,
        "--to",
        &to,
        "--column",
        "name=float",
    ]);
    assert!(
        error.contains("column `name`: `") && error.contains("` is no number"),
        "{error}"
    );
    let error = fails(&[
        "data", "convert", &source, "--to", &to, "--column", "nam=int",
    ]);
    assert!(error.contains("has no such column"), "{error}");
    std::fs::write(&source, "a,b\n1,2\n3\n").unwrap();
    let error = fails(&["data", "convert", &source, "--to", &to]);
    assert!(error.contains("line: 3"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_conversion_that_is_stopped_leaves_nothing_behind() {
    use std::process::{Command, Stdio};
    use std::time::Duration;

    let folder = Folder::new("stopped");
    let source = photos(&folder, 1);
    for n in 0..5000 {
        let file = folder.join(&format!("photos/rose/{n:04}.jpg"));
        std::fs::hard_link(folder.join("photos/rose/0.jpg"), file).unwrap();
    }
    let to = folder.at("out");
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    let arguments = ["data", "convert", &source, "--to", &to, "--threads", "1"];
    let mut process = command
        .args(arguments)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !std::path::Path::new(&to).is_dir() || names(&to).is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let kill = Command::new("kill")
        .args(["-INT", &process.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    let error = std::io::read_to_string(process.stderr.take().unwrap()).unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(1));
    assert!(error.contains("stopped by a signal"), "{error}");
    assert_eq!(names(&to), [""; 0]);
}
