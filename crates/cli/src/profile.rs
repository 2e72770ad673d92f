//! `thalweg profile`: time and memory of traced steps by layer and by op.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use thalweg_session::Profile;

use crate::failure::Failure;
use crate::output;
use crate::trace_file;

/// Print time and memory of traced steps by layer and by op
///
/// A trace is a file in Chrome's format: that of `thalweg run --trace`, of `Trace::save` or of a ProfilerHook. Of
/// several traces it prints the mean of a step.
#[derive(Args)]
pub(crate) struct ProfileArgs {
    /// Traces of steps
    #[arg(required = true, value_name = "TRACE.json")]
    traces: Vec<PathBuf>,

    /// Print all of it as JSON
    #[arg(long)]
    json: bool,
}

impl ProfileArgs {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let traces = self.traces.iter().map(|path| trace_file::read(path));
        let traces = traces.collect::<Result<Vec<_>, _>>()?;
        let profile = Profile::of(&traces);
        match self.json {
            true => output::text(&format!("{:#}\n", json(&profile))),
            false => output::text(&profile.to_string()),
        }
    }
}

/// A profile as JSON, with sums over the steps.
pub(crate) fn json(profile: &Profile) -> Value {
    let layers = profile.layers.iter().map(|l| {
        json!({
            "layer": l.layer,
            "runs": l.runs,
            "forward_us": l.forward_us,
            "backward_us": l.backward_us,
            "update_us": l.update_us,
            "bytes": l.bytes,
        })
    });
    let ops = profile.ops.iter();
    let ops = ops.map(|o| json!({"op": o.op, "runs": o.runs, "us": o.us, "bytes": o.bytes}));
    json!({
        "steps": profile.steps,
        "span_us": profile.span_us,
        "us": profile.us(),
        "arena_bytes": profile.arena_bytes,
        "layers": layers.collect::<Vec<_>>(),
        "ops": ops.collect::<Vec<_>>(),
    })
}
