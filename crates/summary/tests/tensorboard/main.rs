//! TensorBoard's own reader, in Python, reads a writer's files: `read.py` compares every value.

use std::error::Error;
use std::path::Path;
use std::process::Command;

use thalweg_graph::Graph;
use thalweg_graphdef::messages::{DeviceStepStats, RunMetadata, StepStats};
use thalweg_ops::{NewGraph, SourceOps};
use thalweg_summary::{RunStatus, SessionEvent, SummaryWriter};
use thalweg_tensor::{DType, Tensor};

/// A Python that has TensorBoard, if there is one.
fn python() -> Option<String> {
    let named = std::env::var("TENSORFLOW_PYTHON").ok();
    let python = named.unwrap_or_else(|| "python3".to_owned());
    // Looking for the package is quick, importing it is not.
    let look = "import importlib.util as u, sys; sys.exit(u.find_spec('tensorboard') is None)";
    let found = Command::new(&python).args(["-c", look]).status();
    found.is_ok_and(|s| s.success()).then_some(python)
}

#[test]
fn tensorboard_reads_a_writers_files() -> Result<(), Box<dyn Error>> {
    let Some(python) = python() else {
        let required = std::env::var("REQUIRE_TENSORFLOW").is_ok_and(|v| v == "1");
        assert!(
            !required,
            "no Python with TensorBoard: set TENSORFLOW_PYTHON"
        );
        eprintln!("SKIPPED: no Python with TensorBoard; set TENSORFLOW_PYTHON to one");
        return Ok(());
    };
    let dir = std::env::temp_dir().join(format!("thalweg-tensorboard-{}", std::process::id()));
    write(&dir)?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tensorboard/read.py");
    let output = Command::new(python).arg(script).arg(&dir).output()?;
    std::fs::remove_dir_all(&dir)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    println!("{said}");
    assert!(output.status.success(), "{said}\n{errors}");
    Ok(())
}

fn write(dir: &Path) -> Result<(), Box<dyn Error>> {
    let writer = SummaryWriter::create(dir)?;
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1]);
    let _ = g.op("Neg").input(x).name("y").output();
    writer.graph(&g)?;
    let hparams = [
        ("rate", 0.25.into()),
        ("optimizer", "Adam".into()),
        ("nesterov", true.into()),
    ];
    writer.hparams(hparams, &["loss"])?;
    writer.session_log(SessionEvent::Start, 0)?;
    for (step, loss) in [(1, 0.5), (2, -1e30), (3, f64::INFINITY)] {
        writer.scalar("loss", loss, step)?;
    }
    let weights = Tensor::vector(&[-2.0, -1.0, 0.0, 1e-3, 0.5, 3.0]);
    writer.histogram("weights", &weights, 4)?;
    writer.text("notes", "A *note*: ä", 5)?;
    let digits = Tensor::new(&[2, 2, 2, 1], &[0.0f32, 2.0, 4.0, 1.0, 0.0, 2.0, -2.0, 2.0])?;
    writer.image("digits", &digits, 6, 3)?;
    let device = DeviceStepStats {
        device: "/cpu:0".to_owned(),
        ..DeviceStepStats::default()
    };
    let metadata = RunMetadata {
        step_stats: Some(StepStats {
            dev_stats: vec![device],
        }),
        ..RunMetadata::default()
    };
    writer.run_metadata("step 7", &metadata, 7)?;
    writer.session_log(SessionEvent::Checkpoint("model.ckpt-8"), 8)?;
    writer.session_log(SessionEvent::Stop, 9)?;
    writer.hparams_end(RunStatus::Success)?;
    writer.close()?;
    Ok(())
}
