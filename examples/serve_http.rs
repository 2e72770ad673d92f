//! A SavedModel behind HTTP, with axum, in TensorFlow Serving's REST form.
//!
//! ```text
//! cargo run --release --example serve_http --features cluster -- MODEL_FOLDER 127.0.0.1:8501
//! curl -d '{"instances": [[1.0, 2.0, 3.0, 4.0]]}' http://127.0.0.1:8501/v1/models/model:predict
//! ```
//!
//! Without a folder, it serves a small model of its own.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use thalweg::prelude::*;
use thalweg::train::saved_model::{DEFAULT_SIGNATURE, ModelOptions, SavedModel, save_model};
use thalweg_examples::output;

type Failure = (StatusCode, Json<Value>);

fn failure(status: StatusCode, error: impl ToString) -> Failure {
    (status, Json(json!({ "error": error.to_string() })))
}

/// The dimensions and the numbers of nested lists.
fn tensor(list: &Value) -> Result<Tensor, String> {
    fn collect(value: &Value, depth: usize, dims: &mut Vec<usize>, to: &mut Vec<f32>) -> bool {
        match value {
            Value::Array(items) => {
                if depth == dims.len() && to.is_empty() {
                    dims.push(items.len());
                }
                dims.get(depth) == Some(&items.len())
                    && items.iter().all(|item| collect(item, depth + 1, dims, to))
            }
            number => {
                let fits = depth == dims.len() && number.is_number();
                to.extend(number.as_f64().map(|n| n as f32));
                fits
            }
        }
    }
    let (mut dims, mut numbers) = (Vec::new(), Vec::new());
    match collect(list, 0, &mut dims, &mut numbers) {
        true => Tensor::new(&dims, &numbers).map_err(|e| e.to_string()),
        false => Err("'instances' must be nested lists of numbers, of equal lengths".to_owned()),
    }
}

/// A tensor as nested lists.
fn lists(dims: &[usize], numbers: &[f32]) -> Value {
    match dims {
        [] => json!(numbers[0]),
        [_] => json!(numbers),
        [first, rest @ ..] => {
            let part = rest.iter().product::<usize>();
            let parts = (0..*first).map(|i| lists(rest, &numbers[i * part..(i + 1) * part]));
            parts.collect()
        }
    }
}

async fn predict(
    State(model): State<Arc<SavedModel>>,
    // As TensorFlow Serving, whatever the type of content that the request names.
    body: String,
) -> Result<Json<Value>, Failure> {
    let request: Value =
        serde_json::from_str(&body).map_err(|e| failure(StatusCode::BAD_REQUEST, e))?;
    let input = tensor(&request["instances"]).map_err(|e| failure(StatusCode::BAD_REQUEST, e))?;
    // A step computes: it belongs on a thread that may block.
    let step = move || {
        let signature = model.signature(DEFAULT_SIGNATURE)?;
        let name = signature.inputs.keys().next().map_or("", |n| n);
        model.run(DEFAULT_SIGNATURE, &[(name, input)])
    };
    let joined = tokio::task::spawn_blocking(step).await;
    let found = joined.map_err(|e| failure(StatusCode::INTERNAL_SERVER_ERROR, e))?;
    let found = found.map_err(|e| failure(StatusCode::BAD_REQUEST, e))?;
    let outputs = found.iter().map(|(name, tensor)| {
        let numbers = tensor.as_slice::<f32>()?;
        Ok((name.clone(), lists(tensor.dims(), numbers)))
    });
    let outputs: Result<Vec<(String, Value)>, TensorError> = outputs.collect();
    let outputs = outputs.map_err(|e| failure(StatusCode::NOT_IMPLEMENTED, e))?;
    let predictions = match &outputs[..] {
        [(_, only)] => only.clone(),
        _ => Value::Object(outputs.into_iter().collect()),
    };
    Ok(Json(json!({ "predictions": predictions })))
}

/// Writes the product of four numbers with a matrix as a SavedModel.
fn small_model() -> Result<PathBuf, Box<dyn std::error::Error>> {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1, 4]);
    let w = g.variable("w", [[1.0f32, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]);
    let y = x.matmul(w);
    let session = Session::new(&g)?;
    session.run(g.initializers(), [])?;
    let folder = std::env::temp_dir().join(format!("thalweg-served-{}", std::process::id()));
    let options = ModelOptions::new().signature(DEFAULT_SIGNATURE, [("x", x)], [("y", y)]);
    save_model(&session, &folder, &options)?;
    Ok(folder)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().map_or_else(small_model, |f| Ok(f.into()))?;
    let address = args.next().unwrap_or_else(|| "127.0.0.1:8501".to_owned());
    let model = Arc::new(SavedModel::load(folder)?);
    let routes = Router::new()
        .route("/v1/models/model:predict", post(predict))
        .with_state(model);
    let listener = tokio::net::TcpListener::bind(address).await?;
    output::line(format_args!("http://{}", listener.local_addr()?));
    // Ctrl-C ends it, once requests that it has begun are answered.
    let ends = async { drop(tokio::signal::ctrl_c().await) };
    axum::serve(listener, routes)
        .with_graceful_shutdown(ends)
        .await?;
    Ok(())
}
