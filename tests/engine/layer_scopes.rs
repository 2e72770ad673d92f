//! Variable scopes compared with TensorFlow's: names, and errors.

use std::collections::HashMap;

use serde_json::{Value as Json, json};
use thalweg::layers::{Initializer, Layer, Reuse, VariableScope, VariableScopes, Weights, dense};
use thalweg::prelude::*;
use thalweg_tests::golden::lines;

/// A running program of `layers.jsonl.gz`.
struct LayerProgram<'g> {
    graph: &'g Graph,
    input: Output<'g>,
    kept: HashMap<String, VariableScope>,
    made: Vec<Json>,
}

/// A program ends at its first error.
type ProgramResult = Result<(), ()>;

impl<'g> LayerProgram<'g> {
    fn each(&mut self, statements: &Json) -> ProgramResult {
        let statements = statements.as_array().unwrap();
        statements.iter().try_for_each(|s| {
            self.one(s)?;
            let Some(error) = self.graph.errors().first().map(|e| e.to_string()) else {
                return Ok(());
            };
            self.made.push(json!({ "error": kind(&error) }));
            Err(())
        })
    }

    fn one(&mut self, s: &Json) -> ProgramResult {
        let text = |key: &str| s[key].as_str();
        let graph = self.graph;
        let reuse = match text("reuse") {
            Some("yes") => Reuse::Yes,
            Some("auto") => Reuse::Auto,
            _ => Reuse::No,
        };
        if let Some(name) = text("in") {
            let scope = VariableScope::new(name).reuse(reuse);
            return graph.variable_scope(scope, || self.each(&s["do"]));
        }
        if let Some(name) = text("unique") {
            return graph.variable_scope(VariableScope::unique(name), || self.each(&s["do"]));
        }
        if let Some(label) = text("again") {
            let scope = self.kept[label].clone().reuse(reuse);
            return graph.variable_scope(scope, || self.each(&s["do"]));
        }
        if let Some(name) = text("names") {
            return graph.name_scope(name, || self.each(&s["do"]));
        }
        if let Some(label) = text("keep") {
            let scope = graph.current_variable_scope();
            self.kept.insert(label.to_owned(), scope);
            return Ok(());
        }
        let made = if let Some(name) = text("get") {
            let dims = s["dims"].as_array().unwrap().iter();
            let dims: Vec<i64> = dims.map(|d| d.as_i64().unwrap()).collect();
            let variable = graph.get_variable(name, dims);
            let variable = match text("dtype") {
                Some("i32") => variable.dtype(DType::I32),
                _ => variable,
            };
            variable.build().handle().operation()
        } else if let Some(name) = text("op") {
            graph.op("NoOp").name(name).build()
        } else {
            let layer = dense(s["dense"].as_u64().unwrap() as usize);
            let layer = match text("named") {
                Some(name) => layer.named(name),
                None => layer,
            };
            layer.on(self.input).operation()
        };
        if !made.is_invalid() {
            self.made.push(json!(made.name()));
        }
        Ok(())
    }
}

/// The kind of an error in the recorded programs' terms.
fn kind(error: &str) -> &'static str {
    let kinds = [
        ("it was made before, at", "exists"),
        ("it is to be reused, but is not there", "missing"),
        ("it is asked for with shape", "shape"),
        ("it is asked for as", "dtype"),
    ];
    let found = kinds.iter().find(|(text, _)| error.contains(text));
    found.unwrap_or_else(|| panic!("{error}")).1
}

#[test]
fn variable_scopes_match_tensorflows_names_and_errors() {
    let all = lines("layers.jsonl.gz");
    let programs = all.iter().filter(|l| !l["program"].is_null());
    let (mut count, mut wrong) = (0, Vec::new());
    for line in programs {
        count += 1;
        let graph = Graph::new();
        let mut program = LayerProgram {
            graph: &graph,
            input: graph.placeholder("input", DType::F32, [1, 3]),
            kept: HashMap::new(),
            made: Vec::new(),
        };
        let _ = program.each(&line["program"]);
        let made = Json::from(program.made);
        let variables: Json = graph.variables().into_iter().map(|v| v.name).collect();
        if made != line["made"] || variables != line["variables"] {
            let (name, expected) = (&line["name"], &line["made"]);
            wrong.push(format!(
                "{name}: {made}, not {expected}; variables {variables}, not {}",
                line["variables"]
            ));
        }
    }
    assert!(count > 200, "{count} programs");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_loop_reuses_variables_in_every_iteration() {
    let g = Graph::new();
    let w = g.variable_scope("cell", || {
        let w = g.get_variable("w", []);
        w.initializer(Initializer::Constant(3.0)).build()
    });
    let start = [g.constant(0i32), g.constant(1.0f32)];
    let end = g.while_loop(
        &start,
        |_, v| v[0].less(4i32),
        |_, v| vec![v[0] + 1, v[1] * w.value()],
    );
    let slope = gradients(&[end[1]], &[w.handle()])[0].unwrap();
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let got = session.step((end[1], slope), []).unwrap();
    assert_eq!(got.scalar::<f32>(0).unwrap(), 81.0);
    assert_eq!(got.scalar::<f32>(1).unwrap(), 4.0 * 27.0);
}
