//! Tests of `cnn_benchmarks --data_dir`: images from files.

#[path = "../../../tests/support/folders.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod folders;

use std::process::{Command, Output};

use folders::Folder;
use thalweg::data::example::{Datum, ExampleWriter};
use thalweg::data::{Compression, LmdbWriter, RecordWriter};
use thalweg::image::{Image, Size, encode};

/// The flag that reads images from a folder.
fn data_dir(folder: &Folder) -> String {
    format!("--data_dir={}", folder.path().display())
}

fn run(args: &[&str]) -> Output {
    let fixed = [
        "--device=cpu",
        "--num_warmup_batches=0",
        "--display_every=1",
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_cnn_benchmarks"));
    command.args(fixed).args(args).output().unwrap()
}

fn lines(args: &[&str]) -> Vec<String> {
    let done = run(args);
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{errors}");
    let text = String::from_utf8(done.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// The losses of the steps.
fn losses(lines: &[String]) -> Vec<&str> {
    let steps = lines
        .iter()
        .filter(|line| line.contains("images/sec: ") && line.contains("jitter"));
    steps
        .map(|line| line.rsplit('\t').next().unwrap())
        .collect()
}

/// Files of CIFAR-10 with 40 images, whose bytes follow from their places.
fn cifar(folder: &Folder) {
    let image = |n: usize| {
        let pixel = move |i: usize| (n * 31 + i * (n + 7)) as u8;
        std::iter::once((n % 10) as u8).chain((0..3072).map(pixel))
    };
    for (file, from) in [
        ("data_batch_1.bin", 0),
        ("data_batch_2.bin", 20),
        ("test_batch.bin", 40),
    ] {
        let bytes: Vec<u8> = (from..from + 20).flat_map(image).collect();
        std::fs::write(folder.join(file), bytes).unwrap();
    }
}

/// A picture whose pixels follow from its number, as a JPEG file.
fn jpeg(number: usize) -> Vec<u8> {
    let pixels = (0..60 * 50 * 3).map(|i| (i * (number + 3)) as u8).collect();
    let picture = Image::new(Size::new(60, 50, 3), pixels).unwrap();
    encode::jpeg(&picture, &Default::default()).unwrap()
}

/// A record with ImageNet's keys.
fn record(number: usize, label: i64) -> Vec<u8> {
    let record = ExampleWriter::new().bytes("image/encoded", [jpeg(number)]);
    record.ints("image/class/label", &[label]).finish()
}

#[test]
fn records_lmdb_and_folders_of_the_same_pictures_train_alike() {
    let folders = ["records", "lmdb", "pictures"].map(Folder::new);
    let [records, lmdb, pictures] = &folders;
    let file = records.join("train-00000-of-00001");
    let mut file = RecordWriter::create(file, Compression::None).unwrap();
    let mut database = LmdbWriter::create(lmdb.join("train.lmdb")).unwrap();
    for number in 0..9 {
        let class = number / 3;
        file.write(&record(number, 1 + class as i64)).unwrap();
        let datum = Datum::parse(b"").unwrap();
        let picture = jpeg(number);
        let datum = Datum {
            data: &picture,
            label: class as i32,
            encoded: true,
            ..datum
        };
        let key = format!("{number:08}");
        database.add(key.as_bytes(), &datum.to_vec()).unwrap();
        let folder = pictures.join(&format!("class{class}"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{number}.jpg")), picture).unwrap();
    }
    file.finish().unwrap();
    database.finish().unwrap();
    let train = |folder: &Folder| {
        let fixed = [
            "--model=trivial",
            "--batch_size=4",
            "--num_batches=6",
            "--init_learning_rate=0.0001",
        ];
        let data = data_dir(folder);
        lines(&[&fixed[..], &[&*data]].concat())
    };
    let [from_records, from_lmdb, from_pictures] = folders.each_ref().map(train);
    assert_eq!(losses(&from_records).len(), 6);
    assert_eq!(losses(&from_records), losses(&from_lmdb));
    assert_eq!(losses(&from_records), losses(&from_pictures));
}

#[test]
fn images_of_cifar_are_the_same_on_any_number_of_threads() {
    let folder = Folder::new("cifar");
    cifar(&folder);
    let data = data_dir(&folder);
    let train = |threads: &str| {
        let args = [
            "--model=trivial",
            "--data_name=cifar10",
            "--batch_size=8",
            "--num_batches=12",
            &data,
            threads,
        ];
        lines(&args)
    };
    let one = train("--datasets_num_private_threads=1");
    assert!(
        one.iter().any(|line| line == "Dataset:     cifar10"),
        "{one:?}"
    );
    let waited = one.last().unwrap();
    assert!(
        waited.starts_with("waited for input: ") && waited.ends_with("(2 files, 1 thread)"),
        "{waited}"
    );
    let three = train("--datasets_num_private_threads=3");
    assert_eq!(losses(&one).len(), 12);
    assert_eq!(losses(&one), losses(&three));
}

#[test]
fn a_training_on_files_goes_on_with_the_batch_that_it_was_at() {
    let folder = Folder::new("resumed");
    cifar(&folder);
    let data = data_dir(&folder);
    let train = |to: &str, steps: &str| {
        let to = format!("--train_dir={}", folder.join(to).display());
        let steps = format!("--num_batches={steps}");
        lines(&[
            "--model=trivial",
            "--data_name=cifar10",
            "--batch_size=8",
            &data,
            &to,
            &steps,
        ])
    };
    let whole = train("whole", "9");
    let (first, second) = (train("parts", "4"), train("parts", "5"));
    let parts = [losses(&first), losses(&second)].concat();
    assert_eq!(parts, losses(&whole));
}

#[test]
fn records_with_pictures_train_and_evaluate() {
    let folder = Folder::new("records");
    for (name, pictures) in [
        ("train-00000-of-00001", 12),
        ("validation-00000-of-00001", 8),
    ] {
        let mut writer = RecordWriter::create(folder.join(name), Compression::None).unwrap();
        for n in 0..pictures {
            writer.write(&record(n, 1 + n as i64 % 3)).unwrap();
        }
        writer.finish().unwrap();
    }
    let (data, train) = (
        data_dir(&folder),
        format!("--train_dir={}", folder.join("run").display()),
    );
    let flags = [
        "--model=trivial",
        "--batch_size=4",
        "--num_batches=3",
        &data,
        &train,
    ];
    let trained = lines(
        &[
            &flags[..],
            &["--distortions", "--resize_method=round_robin"],
        ]
        .concat(),
    );
    assert_eq!(losses(&trained).len(), 3);
    let evaluated = lines(&[&flags[..], &["--eval", "--num_eval_batches=2"]].concat());
    assert!(
        evaluated.iter().any(|line| line.contains("Accuracy @ 1")),
        "{evaluated:?}"
    );
}

#[test]
fn wrong_files_are_named() {
    let folder = Folder::new("wrong");
    let data = data_dir(&folder);
    let flags = [
        "--model=trivial",
        "--batch_size=4",
        "--num_batches=3",
        &data,
    ];
    let fails = |text: &str| {
        let done = run(&flags);
        let errors = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success() && errors.contains(text), "{errors}");
    };
    fails("it holds no TFRecord files named train-*");
    let searched = |place: &str| format!("(the pattern `{}", folder.join(place).display());
    fails(&searched("*"));
    // The reason is that of the folder of this set, if it is there.
    std::fs::create_dir(folder.join("train")).unwrap();
    fails(&searched("train/*"));
    let write = |record: &[u8]| {
        let file = folder.join("train-00000-of-00001");
        let mut writer = RecordWriter::create(file, Compression::None).unwrap();
        (0..4).for_each(|_| writer.write(record).unwrap());
        writer.finish().unwrap();
    };
    write(b"");
    fails("a record has no image/encoded");
    let record = ExampleWriter::new().bytes("image/encoded", [b"no picture"]);
    write(&record.ints("image/class/label", &[1]).finish());
    fails("error: ");
    std::fs::write(folder.join("train-00000-of-00001"), b"").unwrap();
    fails("fewer images than one batch");
}

#[test]
fn deep_mnist_learns_from_mnists_files() {
    let data = concat!(
        "--data_dir=",
        env!("CARGO_MANIFEST_DIR"),
        "/../../data/mnist"
    );
    let flags = ["--model=deep_mnist", "--num_batches=40", "--batch_size=32"];
    let trained = lines(&[&flags[..], &[data]].concat());
    let losses: Vec<f32> = losses(&trained)
        .iter()
        .map(|l| l.parse().unwrap())
        .collect();
    let mean = |part: &[f32]| part.iter().sum::<f32>() / part.len() as f32;
    let (first, last) = (mean(&losses[..5]), mean(&losses[35..]));
    assert!(last < first / 2.0, "{losses:?}");
    let empty = Folder::new("no_mnist");
    let done = run(&["--model=deep_mnist", "--data_name=mnist", &data_dir(&empty)]);
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(
        !done.status.success() && errors.contains("train-images"),
        "{errors}"
    );
}
