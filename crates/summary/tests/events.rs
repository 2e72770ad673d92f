//! Round trips of summaries through event files.

use std::error::Error;

use prost::Message;
use thalweg_graph::Graph;
use thalweg_graphdef::messages::summary::value::Value;
use thalweg_ops::{NewGraph, SourceOps};
use thalweg_session::Session;
use thalweg_summary::messages::{event::What, summary};
use thalweg_summary::{Event, EventReader, SummaryWriter};

/// Values of each kind, as TensorFlow encodes them (`Summary.Value.SerializeToString`).
const VALUES: [(&str, &[u8]); 6] = [
    ("simple_value", b"\x0a\x06simple\x15\0\0\0\x3f"),
    ("obsolete_old_style_histogram", b"\x0a\x03old\x1a\x02xy"),
    (
        "image",
        b"\x0a\x05image\x22\x0b\x08\x01\x10\x02\x18\x03\x22\x03png",
    ),
    (
        "histo",
        b"\x0a\x05histo\x2a\x61\x09\0\0\0\0\0\0\xf0\xbf\x11\0\0\0\0\0\0\0\x40\x19\0\0\0\0\0\0\x08\x40\
          \x21\0\0\0\0\0\0\xf8\x3f\x29\0\0\0\0\0\0\x15\x40\
          \x32\x18\0\0\0\0\0\0\xe0\xbf\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x04\x40\
          \x3a\x18\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x40",
    ),
    (
        "audio",
        b"\x0a\x05audio\x32\x19\x0d\0\0\xfa\x45\x10\x01\x18\x02\x22\x03wav\x2a\x09audio/wav",
    ),
    (
        "tensor with metadata",
        b"\x0a\x06tensor\x42\x0b\x08\x07\x12\x04\x12\x02\x08\x01\x42\x01a\
          \x4a\x13\x0a\x09\x0a\x04text\x12\x01\x01\x12\x01d\x1a\x01s\x20\x02",
    ),
];

#[test]
fn a_value_of_any_kind_is_written_as_tensorflow_wrote_it() {
    for (kind, bytes) in VALUES {
        let value = summary::Value::decode(bytes).unwrap();
        assert!(value.value.is_some(), "{kind}");
        let written = value.encode_to_vec();
        assert_eq!(
            written.escape_ascii().to_string(),
            bytes.escape_ascii().to_string(),
            "{kind}"
        );
    }
}

#[test]
fn the_histogram_of_a_step_is_in_the_event_file() -> Result<(), Box<dyn Error>> {
    let g = Graph::new();
    let weights = g.constant([-1.0f32, 0.5, 0.5, 2.0]);
    let summary = g.op("HistogramSummary").input(g.constant("weights"));
    let summary = summary.input(weights).build().output(0);
    let fetched = Session::new(&g)?.step(summary, [])?;
    let tensor = fetched.tensor(0)?;

    let dir = std::env::temp_dir().join(format!("thalweg-step-{}", std::process::id()));
    let writer = SummaryWriter::create(&dir)?;
    writer.summary(&tensor.as_strings()?[0], 3)?;
    writer.close()?;
    let events: Vec<Event> = EventReader::open(writer.path())?.collect::<Result<_, _>>()?;
    std::fs::remove_dir_all(dir)?;
    let Some(What::Summary(read)) = &events[1].what else {
        panic!("{events:?}");
    };
    assert_eq!(events[1].step, 3);
    assert_eq!(read.value[0].tag, "weights");
    let Some(Value::Histo(histogram)) = &read.value[0].value else {
        panic!("{read:?}");
    };
    assert_eq!(
        (histogram.min, histogram.max, histogram.num),
        (-1.0, 2.0, 4.0)
    );
    assert_eq!(histogram.bucket.iter().sum::<f64>(), 4.0);
    assert_eq!(histogram.bucket.len(), histogram.bucket_limit.len());
    Ok(())
}
