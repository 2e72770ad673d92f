//! `thalweg inspect`: prints the tensors of a model or a file of weights.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use thalweg_checkpoint::bundle::index_path;
use thalweg_graphdef::File;
use thalweg_graphdef::file::{self, SAVED_MODEL};
use thalweg_graphdef::messages::attr_value::Value;
use thalweg_graphdef::messages::{GraphDef, SavedModel};
use thalweg_graphdef::tensor::{Budget, from_proto};
use thalweg_tensor::Tensor;
use thalweg_tensor::text::counted;
use thalweg_train::saved_model::VARIABLES;

use crate::failure::Failure;
use crate::model::max_decoded_bytes;
use crate::output;
use crate::progress::Progress;
use crate::statistics::Statistics;
use crate::table::table;
use crate::weight_files::open_weights;

/// Print the tensors of a checkpoint, a file of weights or a model: names, dtypes, shapes and statistics
///
/// Of a SavedModel it prints the variables, and of a graph (frozen, or a MetaGraph) the constants. Numbers that
/// are not finite are counted, and are in no other statistic.
#[derive(Args)]
pub(crate) struct Inspect {
    /// A checkpoint's prefix, a folder of checkpoints, a .safetensors or .npz file, a SavedModel's folder, a
    /// GraphDef (.pb) or a MetaGraphDef (.meta)
    path: PathBuf,

    /// Print all of it as JSON
    #[arg(long)]
    json: bool,
}

/// Tensor with its statistics.
struct TensorRow {
    name: String,
    dtype: String,
    dims: Vec<usize>,
    statistics: Option<Statistics>,
}

impl Inspect {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let (from, rows) = self.rows()?;
        let text = match self.json {
            true => format!("{:#}\n", json(&from, &rows)),
            false => text(&from, rows),
        };
        output::text(&text)
    }

    fn rows(&self) -> Result<(String, Vec<TensorRow>), Failure> {
        let path = &self.path;
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        let model = if path.is_dir() && path.join(SAVED_MODEL).exists() {
            Some(path.clone())
        } else if path.file_name().is_some_and(|n| n == SAVED_MODEL) {
            path.parent().map(Path::to_owned)
        } else {
            None
        };
        if let Some(folder) = model {
            let checkpoint = folder.join(VARIABLES);
            if index_path(&checkpoint).exists() {
                return self.weights(&checkpoint);
            }
            return self.graph(&folder);
        }
        // A checkpoint may have any name: it is recognized by its index.
        let graph = ["pb", "meta", "pbtxt"].contains(&extension) && !index_path(path).exists();
        match graph {
            true => self.graph(path),
            false => self.weights(path),
        }
    }

    fn weights(&self, path: &Path) -> Result<(String, Vec<TensorRow>), Failure> {
        let weights = open_weights(path)?;
        let names = weights.names();
        let progress = Progress::new("tensor", names.len() as u64, self.json);
        let mut rows = Vec::new();
        for (done, name) in (1u64..).zip(&names) {
            let info = weights.info(name);
            let known = info.as_ref().is_none_or(|i| i.dtype.is_some());
            rows.push(match known {
                true => row((*name).to_owned(), &weights.tensor(name)?),
                false => TensorRow {
                    name: (*name).to_owned(),
                    dtype: info
                        .as_ref()
                        .map_or(String::new(), |i| i.dtype_name.clone()),
                    dims: info.map_or_else(Vec::new, |i| i.dims),
                    statistics: None,
                },
            });
            progress.at(done);
        }
        Ok((weights.path().display().to_string(), rows))
    }

    fn graph(&self, path: &Path) -> Result<(String, Vec<TensorRow>), Failure> {
        let from = path.display().to_string();
        let graphs: Vec<GraphDef> = match file::read_within(path, max_decoded_bytes())? {
            File::Graph(def) => vec![def],
            File::MetaGraph(meta) => meta.graph_def.into_iter().collect(),
            File::SavedModel(SavedModel { meta_graphs, .. }) => {
                let graphs = meta_graphs.into_iter();
                graphs.filter_map(|m| m.graph_def).collect()
            }
        };
        let nodes: Vec<_> = graphs.iter().flat_map(|g| &g.node).collect();
        let mut budget = Budget::default();
        let mut rows = Vec::new();
        for node in nodes.iter().filter(|n| n.op == "Const") {
            let value = node.attr.get("value").and_then(|a| a.value.as_ref());
            let Some(Value::Tensor(proto)) = value else {
                continue;
            };
            let tensor = from_proto(proto, &mut budget)
                .map_err(|e| format!("{from}: node '{}': {e}", node.name))?;
            rows.push(row(node.name.clone(), &tensor));
        }
        Ok((from, rows))
    }
}

fn row(name: String, tensor: &Tensor) -> TensorRow {
    TensorRow {
        name,
        dtype: tensor.dtype().name().to_owned(),
        dims: tensor.dims().to_vec(),
        statistics: Statistics::of(tensor),
    }
}

fn text(from: &str, rows: Vec<TensorRow>) -> String {
    let elements = |r: &TensorRow| r.dims.iter().fold(1u64, |n, &d| n.saturating_mul(d as u64));
    let all = rows.iter().map(elements).fold(0, u64::saturating_add);
    let bad: u64 = rows
        .iter()
        .filter_map(|r| r.statistics)
        .map(|s| s.not_finite)
        .sum();
    let mut text = format!(
        "{from}: {}, {}",
        counted(rows.len(), "tensor"),
        counted(all, "element")
    );
    if bad > 0 {
        text += &format!(", {bad} not finite");
    }
    text += "\n\n";
    if rows.is_empty() {
        return text;
    }
    let head = [
        "tensor",
        "dtype",
        "shape",
        "min",
        "max",
        "mean",
        "std",
        "not finite",
    ];
    let cells = |r: TensorRow| {
        let own = [r.name, r.dtype, format!("{:?}", r.dims)];
        let statistics = Statistics::cells(r.statistics);
        own.into_iter().chain(statistics).collect()
    };
    let rows = rows.into_iter().map(cells).collect();
    text + &table(&head, rows, &[3, 4, 5, 6, 7])
}

fn json(from: &str, rows: &[TensorRow]) -> serde_json::Value {
    let tensors: Vec<_> = rows
        .iter()
        .map(|r| {
            json!({
                "name": r.name,
                "dtype": r.dtype,
                "shape": r.dims,
                "statistics": Statistics::json(r.statistics),
            })
        })
        .collect();
    json!({"file": from, "tensors": tensors})
}
