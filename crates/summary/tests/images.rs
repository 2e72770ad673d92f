//! ImageSummary against TensorFlow: tags, sizes and pixels of
//! `tests/golden/image_summaries.jsonl.gz`. The bytes of a PNG depend on its encoder, so the pixels
//! are compared.

use std::error::Error;
use std::io::{Cursor, Read};

use half::f16;
use prost::Message;
use serde_json::Value as Json;
use thalweg_graph::Graph;
use thalweg_ops::{NewGraph, SourceOps, summaries};
use thalweg_session::Session;
use thalweg_summary::messages::{Summary, summary::value::Value};
use thalweg_tensor::Tensor;

const CASES: &[u8] = include_bytes!("../../../tests/golden/image_summaries.jsonl.gz");

fn numbers(json: &Json) -> Vec<f64> {
    let number = |v: &Json| match v.as_str() {
        Some("nan") => f64::NAN,
        Some("inf") => f64::INFINITY,
        Some("-inf") => f64::NEG_INFINITY,
        _ => v.as_f64().unwrap(),
    };
    json.as_array().unwrap().iter().map(number).collect()
}

fn tensor(json: &Json) -> Tensor {
    let dims: Vec<usize> = numbers(&json["dims"]).iter().map(|&d| d as usize).collect();
    let data = numbers(&json["data"]);
    let tensor = match json["dtype"].as_str().unwrap() {
        "u8" => Tensor::new(&dims, &data.iter().map(|&x| x as u8).collect::<Vec<_>>()),
        "f16" => Tensor::new(
            &dims,
            &data.iter().map(|&x| f16::from_f64(x)).collect::<Vec<_>>(),
        ),
        "f32" => Tensor::new(&dims, &data.iter().map(|&x| x as f32).collect::<Vec<_>>()),
        _ => Tensor::new(&dims, &data),
    };
    tensor.unwrap()
}

/// The size of a PNG, and its bytes.
fn decoded(png: &[u8]) -> ([u32; 2], Vec<u8>) {
    let mut reader = png::Decoder::new(Cursor::new(png)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    pixels.truncate(info.buffer_size());
    ([info.height, info.width], pixels)
}

#[test]
fn image_summaries_have_tensorflows_tags_and_pixels() -> Result<(), Box<dyn Error>> {
    let mut lines = String::new();
    flate2::read::GzDecoder::new(CASES).read_to_string(&mut lines)?;
    assert!(lines.lines().count() > 40);
    for line in lines.lines() {
        let case: Json = serde_json::from_str(line)?;
        let name = &case["name"];
        let images = tensor(&case["images"]);
        let most = case["most"].as_i64().unwrap();
        let color: Vec<u8> = numbers(&case["bad_color"])
            .iter()
            .map(|&x| x as u8)
            .collect();

        let g = Graph::new();
        let node = g.op("ImageSummary").input(g.constant("a/b"));
        let node = node
            .input(g.constant(images.clone()))
            .attr("max_images", most);
        let node = node.attr("bad_color", Tensor::vector(&color)).output();
        let bytes: Tensor = Session::new(&g)?.run(node, [])?;
        let bytes = &bytes.as_strings()?[0];
        let by_hand = summaries::image(b"a/b", &images, most as usize, &color)?;
        assert_eq!(bytes[..], by_hand, "{name}");

        let summary = Summary::decode(bytes)?;
        let expected = case["shown"].as_array().unwrap();
        assert_eq!(summary.value.len(), expected.len(), "{name}");
        for (value, expected) in summary.value.iter().zip(expected) {
            assert_eq!(Some(value.tag.as_str()), expected["tag"].as_str(), "{name}");
            let Some(Value::Image(image)) = &value.value else {
                panic!("{name}: no image");
            };
            let size = [image.height, image.width, image.colorspace].map(f64::from);
            assert_eq!(size[..], numbers(&expected["size"]), "{name}");
            let (own, pixels) = decoded(&image.encoded_image_string);
            assert_eq!(own.map(f64::from), size[..2], "{name}");
            let wanted: Vec<u8> = tensor(&expected["pixels"]).as_slice::<u8>()?.to_vec();
            assert_eq!(pixels, wanted, "{name}");
        }
    }
    Ok(())
}

#[test]
fn images_of_another_form_are_refused() -> Result<(), Box<dyn Error>> {
    let said = |images: Tensor, color: &[u8]| {
        summaries::image(b"x", &images, 3, color)
            .unwrap_err()
            .to_string()
    };
    let zeros = |dims: &[usize]| Tensor::zeros(thalweg_tensor::DType::F32, dims);
    assert_eq!(
        said(zeros(&[1, 2, 2, 2])?, &summaries::BAD_COLOR),
        "images have the shape [n, height, width, channels] with 1, 3 or 4 channels, and not [1,2,2,2]"
    );
    assert_eq!(
        said(zeros(&[1, 2, 2, 3])?, &[1]),
        "bad_color has 1 numbers, but the images have 3 channels: give one for each"
    );
    assert!(
        said(zeros(&[1, 0, 2, 3])?, &[1, 2, 3])
            .starts_with("an image of 0 by 2 pixels cannot be a PNG: ")
    );

    let g = Graph::new();
    let flat = g.constant([[1.0f32]]);
    let _ = g
        .op("ImageSummary")
        .input(g.constant("x"))
        .input(flat)
        .attr("bad_color", Tensor::vector(&[1u8]))
        .output();
    let error = g.errors()[0].to_string();
    assert!(
        error.contains("input 1 has shape [1,1], but must have 4 dimensions"),
        "{error}"
    );
    Ok(())
}
