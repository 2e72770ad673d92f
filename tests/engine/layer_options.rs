//! Builds layers and initializers from their descriptions in `tests/golden/layers.jsonl.gz`.

use serde_json::Value as Json;
use thalweg::graph::Value;
use thalweg::layers::initializers::{Distribution, Fan};
use thalweg::layers::{
    Conv, Initializer, Layer, Pool, Regularizer, Weights, avg_pool, batch_norm, conv2d,
    conv2d_transpose, dense, depthwise_conv2d, dropout, embedding, layer_norm, max_pool,
    separable_conv2d,
};
use thalweg::ops::{DataFormat, Padding};
use thalweg::prelude::*;

pub fn number(object: &Json, key: &str) -> f64 {
    let found = object[key].as_f64();
    found.unwrap_or_else(|| panic!("no {key} in {object}"))
}

pub fn initializer(what: &Json) -> Initializer {
    let or = |key: &str, usual: f64| what[key].as_f64().unwrap_or(usual);
    let made = match what["class"].as_str().unwrap() {
        "zeros" => Initializer::Zeros,
        "ones" => Initializer::Ones,
        "constant" => Initializer::Constant(number(what, "value")),
        "random_uniform" => Initializer::random_uniform(or("minval", 0.0), or("maxval", 1.0)),
        "random_normal" => Initializer::random_normal(or("mean", 0.0), or("stddev", 1.0)),
        "truncated_normal" => Initializer::truncated_normal(or("mean", 0.0), or("stddev", 1.0)),
        "variance_scaling" => {
            let mode = match what["mode"].as_str().unwrap() {
                "fan_in" => Fan::In,
                "fan_out" => Fan::Out,
                _ => Fan::Avg,
            };
            let distribution = match what["distribution"].as_str().unwrap() {
                "uniform" => Distribution::Uniform,
                "truncated_normal" => Distribution::TruncatedNormal,
                _ => Distribution::Normal,
            };
            Initializer::variance_scaling(number(what, "scale"), mode, distribution)
        }
        "glorot_uniform" => Initializer::glorot_uniform(),
        "glorot_normal" => Initializer::glorot_normal(),
        "he_uniform" => Initializer::he_uniform(),
        "he_normal" => Initializer::he_normal(),
        "lecun_uniform" => Initializer::lecun_uniform(),
        "lecun_normal" => Initializer::lecun_normal(),
        "orthogonal" => Initializer::orthogonal(number(what, "gain")),
        "identity" => Initializer::Identity {
            gain: number(what, "gain"),
        },
        other => panic!("no initializer is called {other}"),
    };
    match what["seed"].as_i64() {
        Some(seed) => made.seed(seed),
        None => made,
    }
}

pub fn regularizer(what: &Json) -> Regularizer {
    match (number(what, "l1"), number(what, "l2")) {
        (l1, 0.0) => Regularizer::L1(l1),
        (0.0, l2) => Regularizer::L2(l2),
        (l1, l2) => Regularizer::L1L2 { l1, l2 },
    }
}

/// The options of a layer.
pub struct Options<'a>(pub &'a Json);

impl Options<'_> {
    fn count(&self, key: &str) -> usize {
        number(self.0, key) as usize
    }

    fn pair(&self, key: &str) -> [usize; 2] {
        match self.0[key].as_array() {
            Some(pair) => [0, 1].map(|i| pair[i].as_u64().unwrap() as usize),
            None => [1, 1],
        }
    }

    fn is_off(&self, key: &str) -> bool {
        self.0[key] == false
    }

    fn padding(&self) -> Padding {
        match self.0["padding"] == "same" {
            true => Padding::Same,
            false => Padding::Valid,
        }
    }

    /// The options that layers with weights share; `kernel` and `bias` are this layer's names of them.
    fn weights<L: Weights>(&self, mut layer: L, [kernel, bias]: [&str; 2]) -> L {
        let given = |name: &str, what: &str| match &self.0[format!("{name}_{what}")] {
            Json::Null => None,
            found => Some(found.clone()),
        };
        if let Some(name) = self.0["name"].as_str() {
            layer = layer.named(name);
        }
        if let Some(what) = given(kernel, "initializer") {
            layer = layer.kernel_initializer(initializer(&what));
        }
        if let Some(what) = given(bias, "initializer") {
            layer = layer.bias_initializer(initializer(&what));
        }
        if let Some(what) = given(kernel, "regularizer") {
            layer = layer.kernel_regularizer(regularizer(&what));
        }
        if let Some(what) = given(bias, "regularizer") {
            layer = layer.bias_regularizer(regularizer(&what));
        }
        if self.is_off("use_bias") || self.is_off("center") {
            layer = layer.without_bias();
        }
        match self.is_off("trainable") {
            true => layer.frozen(),
            false => layer,
        }
    }

    fn conv(&self, conv: Conv, kernel: &str, format: DataFormat) -> Conv {
        let conv = conv.strides(self.pair("strides")).padding(self.padding());
        let conv = conv
            .dilation(self.pair("dilation_rate"))
            .data_format(format);
        let mut conv = self.weights(conv, [kernel, "bias"]);
        if kernel == "pointwise" {
            conv = conv.depthwise_initializer(initializer(&self.0["depthwise_initializer"]));
            if !self.0["depthwise_regularizer"].is_null() {
                conv = conv.depthwise_regularizer(regularizer(&self.0["depthwise_regularizer"]));
            }
        }
        match self.0["depth_multiplier"].as_u64() {
            Some(multiplier) => conv.multiplier(multiplier as usize),
            None => conv,
        }
    }

    fn pool(&self, pool: Pool, format: DataFormat) -> Pool {
        pool.padding(self.padding()).data_format(format)
    }

    /// The layer `kind` on `x`.
    pub fn on<'g>(
        &self,
        kind: &str,
        x: Output<'g>,
        training: Value<'g>,
        format: DataFormat,
    ) -> Output<'g> {
        let filters = || self.count("filters");
        let window = self.pair("kernel_size");
        let pools = (self.pair("pool_size"), self.pair("strides"));
        match kind {
            "dense" => self
                .weights(dense(self.count("units")), ["kernel", "bias"])
                .on(x),
            "conv2d" => self.conv(conv2d(filters(), window), "kernel", format).on(x),
            "depthwise_conv2d" => self
                .conv(depthwise_conv2d(window), "depthwise", format)
                .on(x),
            "separable_conv2d" => self
                .conv(separable_conv2d(filters(), window), "pointwise", format)
                .on(x),
            "conv2d_transpose" => self
                .conv(conv2d_transpose(filters(), window), "kernel", format)
                .on(x),
            "max_pool" => self.pool(max_pool(pools.0, pools.1), format).on(x),
            "avg_pool" => self.pool(avg_pool(pools.0, pools.1), format).on(x),
            "embedding" => {
                let table = embedding(self.count("rows"), self.count("width"));
                table.initializer(initializer(&self.0["initializer"])).on(x)
            }
            "layer_norm" => {
                let norm = layer_norm().epsilon(self.0["epsilon"].as_f64().unwrap_or(1e-3));
                let norm = self.weights(norm, ["gamma", "beta"]);
                match self.is_off("scale") {
                    true => norm.without_scale().on(x),
                    false => norm.on(x),
                }
            }
            "batch_norm" => {
                let norm = batch_norm().training(training).data_format(format);
                let norm = norm.epsilon(self.0["epsilon"].as_f64().unwrap_or(1e-3));
                let norm = norm.momentum(self.0["momentum"].as_f64().unwrap_or(0.99));
                let norm = self.weights(norm, ["gamma", "beta"]);
                match self.is_off("scale") {
                    true => norm.without_scale().on(x),
                    false => norm.on(x),
                }
            }
            "dropout" => {
                let layer = dropout(number(self.0, "rate")).training(training);
                layer.seed(self.0["seed"].as_i64().unwrap()).on(x)
            }
            other => panic!("no layer is called {other}"),
        }
    }
}
