//! Structs that own a graph, its session and callables: they can be moved and returned.

use std::sync::Arc;

use thalweg::graph::{NodeId, OutputId};
use thalweg::prelude::*;

/// A line that is fitted to points.
struct LineModel {
    graph: Arc<Graph>,
    session: Session<'static>,
    step: Callable<'static>,
    train: NodeId,
    x: OutputId,
    y: OutputId,
    predicted: OutputId,
}

impl LineModel {
    fn new() -> Result<LineModel, SessionError> {
        let graph = Arc::new(Graph::new());
        let g = &*graph;
        let x = g.placeholder("x", DType::F32, [-1]);
        let y = g.placeholder("y", DType::F32, [-1]);
        let predicted = x * g.variable("slope", 0.0f32).value();
        let loss = (predicted - y).square().mean();
        let train = GradientDescent::new(0.05).minimize(loss);
        let session = Session::new(graph.clone())?;
        session.run(g.initializers(), [])?;
        Ok(LineModel {
            step: session.callable((train, loss), [x, y])?,
            train: train.id(),
            x: x.id(),
            y: y.id(),
            predicted: predicted.id(),
            session,
            graph,
        })
    }

    fn fit(&mut self, x: &Tensor, y: &Tensor) -> Result<f32, SessionError> {
        self.step.call(&[x.clone(), y.clone()])?.scalar(1)
    }

    fn at(&self, x: f32) -> Result<[f32; 1], SessionError> {
        self.session.run(self.predicted, [self.x.feed([x])])
    }
}

#[test]
fn a_model_in_a_struct_moves_to_another_thread() {
    let mut line = LineModel::new().unwrap();
    let (x, y) = (Tensor::from([1.0f32, 2.0]), Tensor::from([3.0f32, 6.0]));
    line.fit(&x, &y).unwrap();
    let thread = std::thread::spawn(move || {
        for _ in 0..100 {
            line.fit(&x, &y).unwrap();
        }
        line
    });
    let line = thread.join().unwrap();
    let [found] = line.at(10.0).unwrap();
    assert!((found - 30.0).abs() < 1e-3, "{found}");
    // Numbers are feeds and fetches, too.
    let feeds = [line.x.feed([1.0f32]), line.y.feed([3.0f32])];
    line.session.step(line.train, feeds).unwrap();
    assert_eq!(line.graph.trainable_variables().len(), 1);
}

#[test]
fn a_callable_outlives_its_session() {
    let make = || {
        let g = Arc::new(Graph::new());
        let x = g.placeholder("x", DType::F32, []);
        let step = Session::new(g.clone()).unwrap();
        step.callable(x * x, [x]).unwrap()
    };
    let mut step: Callable<'static> = make();
    let called = step.call(&[3.0f32.into()]).unwrap();
    assert_eq!(called.scalar::<f32>(0).unwrap(), 9.0);
}

#[test]
fn clones_of_a_session_share_its_variables() {
    let g = Graph::new();
    let n = g.variable("n", 1i32);
    let session = Session::new(&g).unwrap();
    let other = session.clone();
    session.run(g.initializers(), []).unwrap();
    other.run(n.assign_add(1), []).unwrap();
    assert_eq!(session.run::<i32>(n, []).unwrap(), 2);
}

#[test]
fn a_session_takes_a_graph_by_value() {
    let g = Graph::new();
    g.constant(2.0f32).named("two");
    let session: Session<'static> = Session::new(g).unwrap();
    assert_eq!(session.run::<f32>("two", []).unwrap(), 2.0);
    assert!(session.graph().find("two").is_some());
}

#[test]
fn a_function_and_a_closure_give_outputs() {
    fn twice<'g>(x: Output<'g>) -> Output<'g> {
        x + x
    }
    let g = Graph::new();
    let x = g.constant(1.0f32);
    // The types come from the use: a lifetime that is written out would be a new one.
    let shifted = |x, by: f64| twice(x) + by;
    let y = [x, x * 2].map(|x| shifted(x, 0.5));
    let found: [f32; 2] = Session::new(&g).unwrap().run(y, []).unwrap();
    assert_eq!(found, [2.5, 4.5]);
}
