//! The op in sessions, on a server, in files; its gradient against finite differences.

use focal_loss::{FocalLoss, OPS, ops};
use thalweg::dist::{self as cluster, ClusterOptions, Server, ServerOptions};
use thalweg::gradient_check::{GradientCheck, mixed};
use thalweg::graphdef::{ExportOptions, ImportOptions, export, import};
use thalweg::ops::OpSet;
use thalweg::prelude::*;
use thalweg::train::saved_model::LoadOptions;
use thalweg::train::{ModelOptions, SavedModel, save_model};

fn options() -> SessionOptions {
    SessionOptions::new().ops(&ops().unwrap())
}

fn targets(elements: usize) -> Tensor {
    let values: Vec<f64> = (0..elements).map(|i| (i % 2) as f64).collect();
    Tensor::vector(&values)
}

#[test]
fn the_gradient_is_that_of_finite_differences() {
    for (gamma, alpha) in [(2.0, 0.25), (0.0, 0.5), (1.0, 0.9), (3.5, 0.1)] {
        let check = GradientCheck::new([mixed(&[6], 1)]).session(options());
        for check in [
            check.clone(),
            check.clone().unknown_shapes(),
            check.single(),
        ] {
            let found = check.run(|g, x| {
                let targets = g.constant(targets(6)).cast(x[0].dtype());
                vec![FocalLoss { gamma, alpha }.of(x[0], targets)]
            });
            found.unwrap_or_else(|e| panic!("gamma {gamma}, alpha {alpha}: {e}"));
        }
    }
}

/// The loss, made of Thalweg's ops.
fn composed<'g>(loss: FocalLoss, x: Output<'g>, t: Output<'g>) -> Output<'g> {
    let p = x.sigmoid();
    let missed = p + t - p * t * 2.0;
    let weight = t * loss.alpha + (1.0 - t) * (1.0 - loss.alpha);
    weight * missed.pow(loss.gamma) * (x.softplus() - x * t)
}

#[test]
fn the_loss_is_that_of_its_formula_on_any_number_of_threads() {
    let elements = 20_000;
    let logits: Vec<f32> = (0..elements).map(|i| (i as f32 - 1e4) * 0.004).collect();
    for threads in [1, 3] {
        let g = Graph::with_ops(&ops().unwrap());
        let x = g.placeholder("x", DType::F32, [-1]);
        let t = g.constant(targets(elements)).cast(DType::F32);
        let loss = FocalLoss::default();
        let worst = (loss.of(x, t) - composed(loss, x, t)).abs();
        let worst = worst.reduce_max(&[0], false);
        let session = Session::with_options(&g, options().threads(threads)).unwrap();
        let worst: f32 = session.run(worst, [x.feed(&logits)]).unwrap();
        assert!(worst < 1e-5, "{worst}");
    }
}

/// Trains one weight for some steps. Returns it.
fn trained<'g>(g: &'g Graph, run: impl Fn(&[Operation<'g>])) -> Output<'g> {
    let w = g.variable("w", 1.0f64);
    let loss = FocalLoss::default().of(w * g.constant([2.0f64, -1.0]), g.constant([1.0, 0.0]));
    let train = GradientDescent::new(0.5).minimize(loss.sum());
    run(&g.initializers());
    for _ in 0..5 {
        run(&[train]);
    }
    w.value()
}

#[test]
fn a_server_runs_it() {
    let ops = ops().unwrap();
    let g = Graph::with_ops(&ops);
    let local = Session::with_options(&g, options()).unwrap();
    let w = trained(&g, |ops| drop(local.step(ops, []).unwrap()));
    let expected: f64 = local.run(w, []).unwrap();

    let server = Server::start(ServerOptions::listening("127.0.0.1:0").session(options())).unwrap();
    let g = Graph::with_ops(&ops);
    let connected = ClusterOptions::new().session(options());
    let session = cluster::Session::connect(&server.target(), &g, connected).unwrap();
    let w = trained(&g, |ops| drop(session.step(ops, []).unwrap()));
    assert_eq!(session.run::<f64>(w, []).unwrap(), expected);
}

#[test]
fn a_server_or_session_without_it_says_how_to_give_it() {
    let g = Graph::with_ops(&ops().unwrap());
    let loss = FocalLoss::default().of(g.constant([2.0f32]), g.constant([1.0f32]));
    let session = Session::new(&g).unwrap();
    let text = session.run::<f32>(loss, []).unwrap_err().to_string();
    assert!(text.contains("SessionOptions::ops"), "{text}");

    let server = Server::start(ServerOptions::listening("127.0.0.1:0")).unwrap();
    let connected = ClusterOptions::new().session(options());
    let session = cluster::Session::connect(&server.target(), &g, connected).unwrap();
    let text = session.run::<f32>(loss, []).unwrap_err().to_string();
    assert!(text.contains("SessionOptions::ops"), "{text}");

    let plain = Graph::new();
    plain.op("FocalLoss").build();
    let text = plain.errors()[0].to_string();
    assert!(text.contains("Graph::with_ops"), "{text}");
}

#[test]
fn a_graph_def_and_a_saved_model_hold_it() {
    let ops = ops().unwrap();
    let g = Graph::with_ops(&ops);
    let x = g.placeholder("x", DType::F32, [-1]);
    let w = g.variable("w", 2.0f32);
    let loss = FocalLoss {
        gamma: 3.0,
        alpha: 0.75,
    }
    .of(x * w, x.sign());
    let session = Session::with_options(&g, options()).unwrap();
    session.run(g.initializers(), []).unwrap();
    let expected: Vec<f32> = session.run(loss, [x.feed([1.0f32, -0.5])]).unwrap();

    let def = export(&g, &ExportOptions::default()).unwrap();
    let missing = import(&Graph::new(), &def, &ImportOptions::default()).unwrap_err();
    assert!(missing.to_string().contains("Graph::with_ops"), "{missing}");
    let read = Graph::with_ops(&ops);
    import(&read, &def, &ImportOptions::default()).unwrap();

    let folder = std::env::temp_dir().join(format!("focal_loss_{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let signature = ModelOptions::new().signature("loss", [("x", x)], [("loss", loss)]);
    save_model(&session, &folder, &signature).unwrap();
    let loading = LoadOptions::new().session(options());
    let model = SavedModel::load_with(&folder, &loading).unwrap();
    let found = model.run("loss", &[("x", Tensor::vector(&[1.0f32, -0.5]))]);
    assert_eq!(found.unwrap()["loss"].to_vec::<f32>().unwrap(), expected);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn it_stands_beside_the_ops_of_other_crates() {
    assert!(OpSet::new(OPS.iter().copied()).is_ok());
    assert!(OpSet::new(OPS.iter().chain(OPS).copied()).is_err());
}
