//! The variables of ResNet-50.

use super::NamedShape;

/// The variables of ResNet-50 version 1 (He and others, "Deep Residual Learning", 2015, table 1) for
/// 1001 classes, in the order in which a program builds them: each convolution with the scale,
/// offset, mean and variance of its batch normalisation.
pub fn variables() -> Vec<NamedShape> {
    let mut all = Vec::new();
    let mut conv = |name: &str, side: i64, from: i64, to: i64| {
        all.push((format!("{name}/weights"), vec![side, side, from, to]));
        for part in ["gamma", "beta", "moving_mean", "moving_variance"] {
            all.push((format!("{name}/{part}"), vec![to]));
        }
    };
    conv("conv1", 7, 3, 64);
    let mut channels = 64;
    for (stage, (blocks, width)) in [(3, 64), (4, 128), (6, 256), (3, 512)]
        .into_iter()
        .enumerate()
    {
        for block in 0..blocks {
            let name = |of: &str| format!("stage{}/block{block}/{of}", stage + 2);
            if block == 0 {
                conv(&name("shortcut"), 1, channels, 4 * width);
            }
            conv(&name("conv1"), 1, channels, width);
            conv(&name("conv2"), 3, width, width);
            conv(&name("conv3"), 1, width, 4 * width);
            channels = 4 * width;
        }
    }
    all.push(("fc/weights".to_owned(), vec![channels, 1001]));
    all.push(("fc/biases".to_owned(), vec![1001]));
    all
}
