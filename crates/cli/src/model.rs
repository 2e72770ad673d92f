//! Model file of a command: its arguments, and the loaded graph.

use std::path::{Path, PathBuf};

use clap::Args;
use thalweg_dist::limits::Machine;
use thalweg_graphdef::messages::{MetaGraphDef, SavedModel};
use thalweg_graphdef::{File, GraphDef, ImportOptions, Imported, file, import, import_meta_graph};

use crate::failure::Failure;

/// Model file.
#[derive(Args)]
pub(crate) struct ModelArgs {
    /// A GraphDef (.pb), a MetaGraphDef (.meta) or the folder of a SavedModel
    pub file: PathBuf,

    /// Tags of the graph in a SavedModel; without one the only graph, or the one tagged "serve"
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,

    /// Put the nodes of called functions in place of the calls, as of Keras's models: node `n` of the function that node
    /// `call` calls becomes `call/n`
    #[arg(long)]
    pub inline_calls: bool,
}

/// Loaded model.
pub(crate) struct Loaded {
    pub graph: GraphDef,
    /// MetaGraph without its graph, if the file has one.
    pub meta: Option<MetaGraphDef>,
    /// Tags of each graph of a SavedModel.
    pub tags: Vec<Vec<String>>,
    /// Name of the file.
    pub origin: String,
    /// Folder of a SavedModel.
    pub folder: Option<PathBuf>,
    /// `true` to import nodes of functions in place of calls.
    pub inline_calls: bool,
}

/// Maximum memory of a decoded file, in bytes: half of the memory of this process.
pub(crate) fn max_decoded_bytes() -> u64 {
    Machine::here().memory / 2
}

impl ModelArgs {
    pub(crate) fn load(&self) -> Result<Loaded, Failure> {
        let origin = self.file.display().to_string();
        let read = file::read_within(&self.file, max_decoded_bytes())?;
        let (tags, folder) = match &read {
            File::SavedModel(model) => (tags(model), Some(folder_of(&self.file))),
            _ => (Vec::new(), None),
        };
        let mut meta = match read {
            File::Graph(graph) => {
                return Ok(Loaded {
                    graph,
                    meta: None,
                    tags,
                    origin,
                    folder,
                    inline_calls: self.inline_calls,
                });
            }
            File::MetaGraph(meta) => *meta,
            File::SavedModel(model) => model.take(&self.tags, &origin)?,
        };
        Ok(Loaded {
            graph: meta.graph_def.take().unwrap_or_default(),
            meta: Some(meta),
            tags,
            origin,
            folder,
            inline_calls: self.inline_calls,
        })
    }
}

/// Folder of a SavedModel that was named by its folder or its file.
fn folder_of(path: &Path) -> PathBuf {
    match (path.is_dir(), path.parent()) {
        (false, Some(parent)) => parent.to_owned(),
        _ => path.to_owned(),
    }
}

impl Loaded {
    /// Imports the graph into an empty one.
    pub(crate) fn import<'g>(
        &mut self,
        graph: &'g thalweg_graph::Graph,
    ) -> Result<Imported<'g>, Failure> {
        let options = ImportOptions::new()
            .origin(self.origin.clone())
            .inline_calls(self.inline_calls);
        // The message is dropped after the import: its constants would be in memory twice.
        let def = std::mem::take(&mut self.graph);
        Ok(match &mut self.meta {
            None => import(graph, &def, &options)?,
            Some(meta) => {
                meta.graph_def = Some(def);
                let imported = import_meta_graph(graph, meta, &options);
                meta.graph_def = None;
                imported?
            }
        })
    }
}

fn tags(model: &SavedModel) -> Vec<Vec<String>> {
    let of = |meta: &MetaGraphDef| {
        meta.meta_info_def
            .iter()
            .flat_map(|i| i.tags.clone())
            .collect()
    };
    model.meta_graphs.iter().map(of).collect()
}
