//! Accuracy of deep MNIST on a test split.

use thalweg::data::Split;
use thalweg::prelude::*;

use crate::model::{DeepMnist, feeds};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Test images of one step: few, because all their features are in memory at once.
const TEST_BATCH: usize = 200;

/// Describes the images of an accuracy over the first `most` of `all`: `the first 1000 of 10000 test images`.
pub fn describe_images(most: usize, all: usize) -> String {
    match most < all {
        true => format!("the first {most} of {all} test images"),
        false => format!("all {all} test images"),
    }
}

/// Measures the accuracy of a network on a split.
pub struct Test<'g> {
    step: Callable<'g>,
    feeds: [Tensor; 3],
}

impl<'g> Test<'g> {
    /// A test of this network.
    pub fn new(session: &Session<'g>, net: &DeepMnist<'_>) -> Result<Test<'g>> {
        Ok(Test {
            step: session.callable(net.accuracy, net.inputs())?,
            feeds: feeds(TEST_BATCH, 1.0)?,
        })
    }

    /// The accuracy on the first `most` images of `split`.
    pub fn accuracy(&mut self, split: &Split, most: usize) -> Result<f64> {
        let (mut found, mut seen) = (0.0, 0);
        for chunk in split.chunks(TEST_BATCH)? {
            if self.feeds[0].dims()[0] != chunk.len() {
                self.feeds = feeds(chunk.len(), 1.0)?;
            }
            let [images, labels, _] = &mut self.feeds;
            chunk.images_into(images.as_mut_slice()?)?;
            chunk.one_hot_into(labels.as_mut_slice()?)?;
            let part = self.step.call(&self.feeds)?.scalar::<f32>(0)?;
            found += f64::from(part) * chunk.len() as f64;
            seen += chunk.len();
            if seen >= most {
                break;
            }
        }
        Ok(found / seen.max(1) as f64)
    }
}
