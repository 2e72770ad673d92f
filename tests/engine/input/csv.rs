//! Records of CSV files: mistakes in them, and what TensorFlow's own tests of the dataset expect.

use thalweg::device::Files;
use thalweg::graph::Attr;
use thalweg::prelude::*;
use thalweg_tests::folders::Folder;

use super::*;

/// A CSV dataset of one file.
struct Case<'a> {
    contents: &'a [u8],
    defaults: Vec<Tensor>,
    header: bool,
    select: &'a [i64],
    exclude: &'a [i64],
    compression: &'a str,
}

impl<'a> Case<'a> {
    fn new(contents: &'a [u8], defaults: Vec<Tensor>) -> Case<'a> {
        Case {
            contents,
            defaults,
            header: false,
            select: &[],
            exclude: &[],
            compression: "",
        }
    }

    /// Text of the records, with the text of errors between them, up to the end.
    fn records(self) -> Vec<String> {
        let folder = Folder::new("csv");
        std::fs::write(folder.join("file"), self.contents).unwrap();
        let g = Graph::new();
        let files = Files::within([folder.path()]).unwrap();
        let options = SessionOptions::new().files(files);
        let options = options.default_memory_limit(8 << 20);
        let session = Session::with_options(&g, options).unwrap();
        let types: Vec<DType> = self.defaults.iter().map(Tensor::dtype).collect();
        let inputs = [
            string(&g, &folder.at("file")),
            string(&g, self.compression),
            g.constant(4096i64),
            g.constant(self.header),
            string(&g, ","),
            g.constant(true),
            string(&g, "NA"),
            g.constant(Tensor::vector(self.select)),
        ];
        let defaults = self.defaults.iter().map(|d| g.constant(d.clone()));
        let exclude = g.constant(Tensor::vector(self.exclude));
        let all = inputs.into_iter().chain(defaults).chain([exclude]);
        let dataset = typed(g.op("CSVDatasetV2").inputs(all), &types).output();
        let iterator = g.op("IteratorV2").attr("shared_name", "");
        let iterator = typed(iterator.attr("container", ""), &types).output();
        let start = g.op("MakeIterator").input(dataset).input(iterator).build();
        let next = typed(g.op("IteratorGetNext").input(iterator), &types).outputs();
        if let Err(error) = session.run::<()>(start, []) {
            return vec![error.to_string()];
        }
        let mut records = Vec::new();
        while records.len() < 20 {
            match session.run::<Vec<Tensor>>(&next, []) {
                Ok(row) => records.push(row.iter().map(text).collect::<Vec<_>>().join("|")),
                Err(error) if error.to_string().contains("End of sequence") => break,
                Err(error) => records.push(error.to_string()),
            }
        }
        records
    }
}

/// A node with the attributes of a dataset of scalars.
fn typed<'g>(node: NodeBuilder<'g>, types: &[DType]) -> NodeBuilder<'g> {
    node.attr("output_types", Attr::Types(types.to_vec())).attr(
        "output_shapes",
        Attr::Shapes(vec![Shape::scalar(); types.len()]),
    )
}

fn text(value: &Tensor) -> String {
    match value.dtype() {
        DType::String => String::from_utf8_lossy(&value.as_strings().unwrap()[0]).into_owned(),
        DType::I32 => value.to_scalar::<i32>().unwrap().to_string(),
        _ => value.to_scalar::<f32>().unwrap().to_string(),
    }
}

fn words(count: usize) -> Vec<Tensor> {
    vec![Tensor::strings(&[1], &["-"]).unwrap(); count]
}

#[test]
fn csv_records_have_quotes_line_breaks_and_defaults() {
    let numbers = vec![
        Tensor::vector(&[7i32]),
        Tensor::vector(&[0f32; 0]),
        Tensor::strings(&[], &["d"]).unwrap(),
    ];
    let mixed = Case::new(
        b" 1,0x1.8p1,NA\r\n,-2.5,\"x, \"\"y\"\"\nz\"\rNA,inf,",
        numbers,
    );
    assert_eq!(mixed.records(), ["1|3|d", "7|-2.5|x, \"y\"\nz", "7|inf|d"]);
    let header = Case {
        header: true,
        select: &[0, 2],
        ..Case::new(b"a,\"b\n\",c\n1,\"2\n3\",4\n5,6,7", words(2))
    };
    assert_eq!(header.records(), ["1|4", "5|7"]);
    let but = Case {
        exclude: &[1],
        ..Case::new(b"1,2,3\n4,5,6\n", words(2))
    };
    assert_eq!(but.records(), ["1|3", "4|6"]);
    let one = Case::new(b"0\n\n2", words(1));
    assert_eq!(one.records(), ["0", "-", "2"]);
    assert_eq!(Case::new(b"", words(2)).records(), [""; 0]);
}

#[test]
fn a_csv_record_with_a_mistake_is_refused_and_the_next_one_is_read() {
    for (contents, error) in [
        (
            &b"1,2\"3\na,b"[..],
            "Unquoted fields cannot have quotes inside",
        ),
        (b"1,\"2\"3\",4\"\na,b", "escaped by another quote"),
        (b"1,2,3\na,b", "Expect 2 fields but have more in record"),
        (b"1\na,b", "Expect 2 fields but have 1 in record"),
    ] {
        let records = Case::new(contents, words(2)).records();
        let name = String::from_utf8_lossy(contents);
        assert!(
            records[0].contains(error) && records[1..] == ["a|b"],
            "{name}: {records:?}"
        );
    }
    let open = Case::new(b"a,\"b", words(2)).records();
    assert!(open[0].contains("without closing quoted field"), "{open:?}");
    let required = vec![Tensor::vector(&[0i32; 0]); 2];
    let records = Case::new(b"5,\nx,3\n1,2", required).records();
    assert!(
        records[0].contains("Field 1 is required but missing"),
        "{records:?}"
    );
    assert!(
        records[1].contains("Field 0 in record is not a valid"),
        "{records:?}"
    );
    assert_eq!(records[2..], ["1|2"]);
}

#[test]
fn wrong_arguments_of_csv_records_are_refused() {
    let empty = Case {
        header: true,
        ..Case::new(b"", words(1))
    };
    assert!(empty.records()[0].contains("Can't read header of file"));
    for (select, exclude, error) in [
        (
            &[1, 0][..],
            &[][..],
            "select_cols should be strictly increasing",
        ),
        (&[-1, 0], &[], "select_cols should be non-negative"),
        (&[0], &[], "select_cols should match output size"),
        (&[0, 1], &[2], "Either select_cols or exclude_cols"),
        (&[], &[3, 3], "exclude_cols should be strictly increasing"),
    ] {
        let case = Case {
            select,
            exclude,
            ..Case::new(b"a,b", words(2))
        };
        let records = case.records();
        assert!(records[0].contains(error), "{records:?}");
    }
    for (default, error) in [
        (Tensor::vector(&[1i32, 2]), "only be 1 default per field"),
        (
            Tensor::zeros(DType::I32, &[1, 1]).unwrap(),
            "at most rank 1",
        ),
    ] {
        let records = Case::new(b"1", vec![default]).records();
        assert!(records[0].contains(error), "{records:?}");
    }
}

#[test]
fn a_long_field_of_a_compressed_csv_file_counts_against_the_memory_limit() {
    let bomb = super::strings::zlib(&vec![b'a'; 64 << 20]);
    let case = Case {
        compression: "ZLIB",
        ..Case::new(&bomb, words(1))
    };
    let records = case.records();
    assert!(records[0].contains("memory"), "{:?}", &records[0]);
}
