//! The golden graphs: TensorFlow's programs as files, with their steps and expected results.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use npyz::DType as NpyType;
use npyz::NpyFile;
use serde_json::Value;
use thalweg::prelude::*;
use thalweg_graphdef::messages::NodeDef;
use thalweg_graphdef::{GraphDef, ImportOptions, Imported, import};
use thalweg_ops::NewGraph;
use thalweg_session::{Feed, Feeding, Fetched, Session, SessionError, SessionOptions};

use crate::golden::{Tolerance, difference};

/// Runs a step; an error is TensorFlow's error code and the text.
pub type Step<'g> = Box<
    dyn Fn(
            (Vec<Output<'g>>, Vec<Operation<'g>>),
            &[Feed<'_>],
        ) -> Result<Fetched, (&'static str, String)>
        + 'g,
>;

/// A golden graph.
pub struct GoldenGraph {
    pub name: String,
    pub def: GraphDef,
    /// `true` if calls are inlined when the graph is imported.
    pub inline_calls: bool,
    json: Value,
    arrays: HashMap<String, Tensor>,
}

/// Folder of the files.
pub fn folder() -> PathBuf {
    crate::root().join("tests/golden/graphs")
}

/// Names of the golden graphs that are GraphDefs and begin with `prefix`.
pub fn names(prefix: &str) -> Vec<String> {
    let files = std::fs::read_dir(folder()).unwrap();
    let names = files.filter_map(|f| f.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names
        .filter_map(|f| f.strip_suffix(".pb.gz").map(str::to_owned))
        .filter(|n| n.starts_with(prefix))
        .collect();
    names.sort();
    names
}

pub fn unzipped(path: &Path) -> Vec<u8> {
    let file = std::fs::File::open(path).unwrap();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file)
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

impl GoldenGraph {
    pub fn read(name: &str) -> GoldenGraph {
        let bytes = unzipped(&folder().join(format!("{name}.pb.gz")));
        let json = std::fs::read(folder().join(format!("{name}.json"))).unwrap();
        let json: Value = serde_json::from_slice(&json).unwrap();
        let mut arrays = arrays(&folder().join(format!("{name}.npz")));
        for (key, strings) in json["strings"].as_object().unwrap() {
            arrays.insert(key.clone(), string_tensor(strings));
        }
        GoldenGraph {
            name: name.to_owned(),
            def: prost::Message::decode(&bytes[..]).unwrap(),
            inline_calls: false,
            json,
            arrays,
        }
    }

    /// Imports the graph and runs all of its steps in a session of this process; an error describes the differences.
    pub fn check(&self, options: SessionOptions) -> Result<(), String> {
        let graph = Graph::new();
        let session = |graph| {
            let session = Session::with_options(graph, options).map_err(|e| e.to_string())?;
            let step: Step<'_> = Box::new(move |fetches, feeds| {
                let code_and_text = |e: SessionError| (code(&e), e.to_string());
                session.step(fetches, feeds).map_err(code_and_text)
            });
            Ok(step)
        };
        self.check_on(&graph, |_| {}, session)
    }

    /// Imports the graph with its nodes changed by `place`, and runs all of its steps by `open`'s function; an error
    /// describes the differences.
    pub fn check_on<'g>(
        &self,
        graph: &'g Graph,
        place: impl FnMut(&mut NodeDef),
        open: impl FnOnce(&'g Graph) -> Result<Step<'g>, String>,
    ) -> Result<(), String> {
        let import_options = ImportOptions::new().origin(format!("{}.pb", self.name));
        let import_options = import_options.inline_calls(self.inline_calls);
        let mut def = self.def.clone();
        def.node.iter_mut().for_each(place);
        let imported = import(graph, &def, &import_options).map_err(|e| e.to_string())?;
        let run = open(graph)?;
        for init in strings(&self.json["inits"]) {
            let op = imported.operation(&init).ok_or(format!("no op {init}"))?;
            run((vec![], vec![op]), &[]).map_err(|(_, e)| format!("init {init}: {e}"))?;
        }
        let tolerance = Tolerance {
            rel: self.json["tolerance"]["rel"].as_f64().unwrap(),
            abs: self.json["tolerance"]["abs"].as_f64().unwrap(),
        };
        for (i, step) in self.json["steps"].as_array().unwrap().iter().enumerate() {
            self.step(&imported, &run, step, tolerance)
                .map_err(|e| format!("step {i}: {e}"))?;
        }
        Ok(())
    }

    fn step<'g>(
        &self,
        imported: &Imported<'g>,
        run: &Step<'g>,
        step: &Value,
        tolerance: Tolerance,
    ) -> Result<(), String> {
        let mut feeds = Vec::new();
        for (name, key) in step["feeds"].as_object().unwrap() {
            let output = imported.output(name).ok_or(format!("no output {name}"))?;
            let value = &self.arrays[key.as_str().unwrap()];
            feeds.push(output.feed(value.clone()));
        }
        let mut fetches = Vec::new();
        for name in strings(&step["fetches"]) {
            fetches.push(imported.output(&name).ok_or(format!("no output {name}"))?);
        }
        let mut targets = Vec::new();
        for name in strings(&step["targets"]) {
            targets.push(imported.operation(&name).ok_or(format!("no op {name}"))?);
        }
        let result = run((fetches, targets), &feeds);
        match (result, step["error"].as_object()) {
            (Err((_, e)), None) => Err(e),
            (Ok(_), Some(error)) => Err(format!("it runs, TensorFlow says {error:?}")),
            (Err((code, e)), Some(error)) => {
                // TensorFlow reports an invalid request late, as an internal error.
                let wanted = match error["code"].as_str().unwrap() {
                    "INTERNAL" => "INVALID_ARGUMENT",
                    // Some ops report a missing variable, not a missing value.
                    "NOT_FOUND" => "FAILED_PRECONDITION",
                    wanted => wanted,
                };
                (code == wanted)
                    .then_some(())
                    .ok_or(format!("error is {code}, TensorFlow's {error:?}: {e}"))
            }
            (Ok(fetched), None) => self.compare(&fetched, step, tolerance),
        }
    }

    fn compare(&self, fetched: &Fetched, step: &Value, tolerance: Tolerance) -> Result<(), String> {
        let names = strings(&step["fetches"]);
        for (i, key) in strings(&step["results"]).iter().enumerate() {
            let found = fetched.tensor(i).map_err(|e| e.to_string())?;
            let wanted = &self.arrays[key];
            let exact = Tolerance { rel: 0.0, abs: 0.0 };
            let tolerance = if wanted.dtype().is_float() {
                tolerance
            } else {
                exact
            };
            if let Some(text) = difference(found, wanted, tolerance) {
                return Err(format!("{}: {text}", names[i]));
            }
        }
        Ok(())
    }
}

/// TensorFlow's code of an error.
pub fn code(error: &SessionError) -> &'static str {
    use thalweg_device::KernelError;
    fn of(error: &KernelError) -> &'static str {
        match error {
            KernelError::Uninitialized { .. }
            | KernelError::UninitializedTable { .. }
            | KernelError::FailedPrecondition(_) => "FAILED_PRECONDITION",
            KernelError::OutOfRange(_) => "OUT_OF_RANGE",
            KernelError::Cancelled(_) => "CANCELLED",
            KernelError::Function { source, .. } => of(source),
            _ => "INVALID_ARGUMENT",
        }
    }
    match error {
        SessionError::Kernel { source, .. } => of(source),
        SessionError::Timeout { .. } => "DEADLINE_EXCEEDED",
        SessionError::Cancelled { .. } => "CANCELLED",
        _ => "INVALID_ARGUMENT",
    }
}

fn strings(list: &Value) -> Vec<String> {
    let items = list.as_array().unwrap().iter();
    items.map(|s| s.as_str().unwrap().to_owned()).collect()
}

fn string_tensor(json: &Value) -> Tensor {
    use base64::Engine;
    let dims: Vec<usize> = json["dims"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d.as_u64().unwrap() as usize)
        .collect();
    let engine = base64::engine::general_purpose::STANDARD;
    let items = strings(&json["base64"]);
    let items: Vec<Vec<u8>> = items.iter().map(|s| engine.decode(s).unwrap()).collect();
    Tensor::strings(&dims, &items).unwrap()
}

/// Arrays of a `.npz` file by their names.
pub fn arrays(path: &Path) -> HashMap<String, Tensor> {
    let mut archive = zip::ZipArchive::new(File::open(path).unwrap()).unwrap();
    let mut arrays = HashMap::new();
    for i in 0..archive.len() {
        let member = archive.by_index(i).unwrap();
        let name = member.name().trim_end_matches(".npy").to_owned();
        let file = NpyFile::new(member).unwrap();
        let dims: Vec<usize> = file.shape().iter().map(|&d| d as usize).collect();
        let NpyType::Plain(kind) = file.dtype() else {
            panic!("{name} is no plain array");
        };
        let text = kind.to_string();
        macro_rules! read {
            ($t:ty) => {
                Tensor::new(&dims, &file.into_vec::<$t>().unwrap()).unwrap()
            };
        }
        let tensor = match &text[1..] {
            "f2" => read!(half::f16),
            "f4" => read!(f32),
            "f8" => read!(f64),
            "i1" => read!(i8),
            "i2" => read!(i16),
            "i4" => read!(i32),
            "i8" => read!(i64),
            "u1" => read!(u8),
            "u2" => read!(u16),
            "u4" => read!(u32),
            "u8" => read!(u64),
            "b1" => read!(bool),
            other => panic!("{name} holds {other}"),
        };
        arrays.insert(name, tensor);
    }
    arrays
}
