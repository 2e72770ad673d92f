//! Flags of the output: checkpoints, summaries, traces, graphs.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Debug)]
#[command(rename_all = "snake_case", next_help_heading = "Output")]
pub struct OutputFlags {
    /// The folder for checkpoints and event files.
    #[arg(long, value_name = "DIR")]
    pub train_dir: Option<PathBuf>,
    /// The folder for the event files of evaluations.
    #[arg(long, value_name = "DIR")]
    pub eval_dir: Option<PathBuf>,
    /// 1 for scalars, 2 for gradients too, 3 for all.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=3))]
    pub summary_verbosity: u8,
    /// Steps between two summaries.
    #[arg(long, default_value_t = 0)]
    pub save_summaries_steps: u64,
    /// Seconds between two checkpoints; 0 for one at the end.
    #[arg(long, default_value_t = 0)]
    pub save_model_secs: u64,
    /// Steps between two checkpoints.
    #[arg(long)]
    pub save_model_steps: Option<u64>,
    /// Checkpoints that are kept.
    #[arg(long, default_value_t = 5)]
    pub max_ckpts_to_keep: usize,
    /// A trace of a step, the second but last before the measured ones.
    #[arg(long, value_name = "FILE")]
    pub trace_file: Option<PathBuf>,
    /// As Chrome and Perfetto read it, which is the only form.
    #[arg(long, default_value_t = true)]
    pub use_chrome_trace_format: bool,
    /// The graph as a GraphDef.
    #[arg(long, value_name = "FILE")]
    pub graph_file: Option<PathBuf>,
    /// Files of the graph's parts.
    #[arg(long, value_name = "PREFIX")]
    pub partitioned_graph_file_prefix: Option<PathBuf>,
    /// A file for tfprof.
    #[arg(long, value_name = "FILE")]
    pub tfprof_file: Option<PathBuf>,
}
