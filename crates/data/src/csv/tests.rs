use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::vocabulary::Vocabulary;

fn file(name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = std::env::temp_dir().join(format!("thalweg-csv-{name}-{}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

fn without_header() -> CsvOptions {
    CsvOptions {
        header: false,
        ..CsvOptions::default()
    }
}

#[test]
fn quoted_missing_and_named_fields_are_read() {
    let first = file(
        "first",
        "b,a,word\r\n1,\"2.5\",\"x, \"\"y\"\"\nz\"\n?, 3 ,red\n",
    );
    // The order of the columns is another one.
    let second = file("second", "word,a,b\n,4,5\n");
    let columns = [
        Column::floats("a"),
        Column::ints("b").or(Tensor::from(-1i64)),
        Column::texts("word"),
        Column::category("word", Vocabulary::new(["red"])),
    ];
    let options = CsvOptions {
        missing: vec!["?".to_owned()],
        ..CsvOptions::default()
    };
    let mut rows = csv([&first, &second], columns, options);
    let read: Vec<(f32, i64, String, i64)> = rows
        .by_ref()
        .map(|row| {
            let [a, b, word, id] = row.unwrap();
            let word = String::from_utf8(word.as_strings().unwrap()[0].to_vec()).unwrap();
            (
                a.to_scalar().unwrap(),
                b.to_scalar().unwrap(),
                word,
                id.to_scalar().unwrap(),
            )
        })
        .collect();
    let expected = [
        (2.5, 1, "x, \"y\"\nz", 1),
        (3.0, -1, "red", 0),
        (4.0, 5, "", 1),
    ];
    assert_eq!(read, expected.map(|(a, b, w, id)| (a, b, w.to_owned(), id)));
    rows.seek(2).unwrap();
    assert_eq!(
        rows.next().unwrap().unwrap()[1].to_scalar::<i64>().unwrap(),
        5
    );
    std::fs::remove_file(first).unwrap();
    std::fs::remove_file(second).unwrap();
}

#[test]
fn mistakes_are_named_with_their_line() {
    let error = |name: &str, text: &str, column: Column, options: CsvOptions| {
        let path = file(name, text);
        let found = csv([&path], [column], options).find_map(Result::err);
        std::fs::remove_file(&path).unwrap();
        found.unwrap().to_string()
    };
    let number = error("number", "1\n2\nx\n", Column::ints(0), without_header());
    assert!(
        number.ends_with("byte 4: line 3, column 0: `x` is no whole number"),
        "{number}"
    );
    let missing = error(
        "missing",
        "a\n1\n\"\"\n",
        Column::floats("a"),
        CsvOptions::default(),
    );
    assert!(
        missing.ends_with("line 3, column `a`: the value is missing: give the column a default"),
        "{missing}"
    );
    let name = error("name", "a\n1\n", Column::floats("b"), CsvOptions::default());
    assert!(name.ends_with("there is no column `b`"), "{name}");
    let width = error("width", "1,2\n1\n", Column::ints(1), without_header());
    assert!(
        width.ends_with("line 2 has 1 columns, the lines before have 2"),
        "{width}"
    );
    let absent = error("absent", "1,2\n", Column::ints(2), without_header());
    assert!(absent.ends_with("the row has no such column"), "{absent}");
    let default = error(
        "default",
        "\"\"\n",
        Column::ints(0).or(Tensor::from(1f32)),
        without_header(),
    );
    assert!(
        default.ends_with("the default is of f32[]: give a scalar of i64"),
        "{default}"
    );
    let long = format!("\"{}", "x".repeat(3 * MAX_ROW_BYTES));
    let long = error("long", &long, Column::texts(0), without_header());
    assert!(
        long.ends_with("a row is longer than 1048576 bytes: is a quote missing?"),
        "{long}"
    );
    let wide = ",".repeat(MAX_COLUMNS);
    let wide = error("wide", &wide, Column::texts(0), without_header());
    assert!(wide.contains("a row has 16385 columns"), "{wide}");
}

#[test]
fn a_file_of_many_long_rows_is_read() {
    let row = format!("{}\n", "y".repeat(MAX_ROW_BYTES / 2));
    let path = file("many", row.repeat(5));
    assert_eq!(
        csv([&path], [Column::texts(0)], without_header())
            .map(Ok)
            .count(),
        5
    );
    std::fs::remove_file(path).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bytes_panic(bytes in vec(prop_oneof![Just(b'"'), Just(b','), Just(b'\n'), any::<u8>()], 0..60)) {
        let path = file("any", &bytes);
        for header in [true, false] {
            let options = CsvOptions { header, ..CsvOptions::default() };
            let rows = csv([&path], [Column::texts(0), Column::floats(1)], options);
            assert!(rows.count() <= bytes.len() + 1);
        }
        std::fs::remove_file(path).unwrap();
    }
}
