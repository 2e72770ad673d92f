//! `thalweg freeze`: a graph with constants in place of its variables.

use std::path::PathBuf;

use clap::Args;
use thalweg_checkpoint::disk;
use thalweg_graph::{Graph, OutputId};
use thalweg_graphdef::file::encode;
use thalweg_ops::NewGraph;
use thalweg_session::{Session, SessionOptions};
use thalweg_tensor::text::counted;
use thalweg_train::FreezeSessionError;
use thalweg_train::saved_model::signatures;

use crate::failure::Failure;
use crate::model::ModelArgs;
use crate::names::{NameResolver, signature_of};
use crate::output;
use crate::output_file::check_output_file;
use crate::restore::Restore;

/// Write a graph with constants in place of its variables, and with only the nodes that some outputs need
#[derive(Args)]
pub(crate) struct Freeze {
    #[command(flatten)]
    model: ModelArgs,

    #[command(flatten)]
    restore: Restore,

    /// Outputs of the frozen graph: names, `node:1` or `node`
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    outputs: Vec<String>,

    /// Take the outputs of a signature of the model
    #[arg(long, value_name = "NAME")]
    signature: Option<String>,

    /// File for the frozen graph, a GraphDef
    #[arg(long, value_name = "FILE.pb")]
    out: PathBuf,
}

impl Freeze {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if self.outputs.is_empty() && self.signature.is_none() {
            return Err(
                "nothing is asked for: name outputs with --outputs, or a --signature".into(),
            );
        }
        check_output_file(&self.out)?;
        let graph = Graph::new();
        let mut loaded = self.model.load()?;
        self.restore.prepare(&mut loaded);
        let imported = loaded.import(&graph)?;
        let all = match &loaded.meta {
            Some(meta) => signatures(&graph, &loaded.origin, meta)?,
            None => Default::default(),
        };
        let names = NameResolver {
            graph: &graph,
            imported: &imported,
            file: &loaded.origin,
            signature: None,
        };
        let mut outputs = Vec::new();
        for name in &self.outputs {
            outputs.push(names.output("--outputs", name)?);
        }
        if let Some(name) = &self.signature {
            let signature = signature_of(&all, name, &loaded.origin)?;
            let own = signature.outputs.values();
            outputs.extend(own.map(|&id: &OutputId| graph.output(id)));
        }
        let options = SessionOptions::new();
        let options = self.restore.session_options(options, &loaded)?;
        let session = Session::with_options(&graph, options)?;
        let restored = self.restore.restore(&session, &loaded)?;
        let def = thalweg_train::freeze(&session, &outputs).map_err(|e| match e {
            FreezeSessionError::Step(e) if restored == 0 => {
                format!("{e}: --checkpoint names a file with the values of variables").into()
            }
            e => Failure::from(e),
        })?;
        let nodes = def.node.len();
        disk::write(&disk::system(), &self.out, &encode(&def))?;
        output::line(format_args!(
            "{}, {} restored; written: {}",
            counted(nodes, "node"),
            counted(restored, "variable"),
            self.out.display()
        ))
    }
}
