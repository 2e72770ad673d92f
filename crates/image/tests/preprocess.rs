//! Preprocessing: TensorFlow's evaluation images, and what random numbers may change.

mod support;

use support::{array, lines};
use thalweg_image::pixels::Method;
use thalweg_image::preprocess::{
    Caffe, Cifar, ColorDistortion, Draws, Evaluation, Mean, Normalize, ResizeMethod, Training,
    Workspace,
};
use thalweg_image::{Image, Size, encode};

fn picture(height: usize, width: usize) -> Image {
    let size = Size::new(height, width, 3);
    Image::new(
        size,
        (0..size.elements()).map(|i| (i * 7 % 251) as u8).collect(),
    )
    .unwrap()
}

#[test]
fn evaluation_images_are_tensorflows_to_the_bit() {
    let cases = lines("pixels")
        .into_iter()
        .filter(|line| line["op"] == "evaluation");
    let mut count = 0;
    for line in cases {
        let (size, image) = array(&line["image"]);
        let (to, expected) = array(&line["result"]);
        let image = image.iter().map(|&x| x as u8).collect();
        let file = encode::png(&Image::new(size, image).unwrap()).unwrap();
        let mut out = vec![0.0; to.elements()];
        let evaluation = Evaluation::new(to.height, to.width);
        evaluation
            .run(&file, 0, &mut Workspace::default(), &mut out)
            .unwrap();
        assert_eq!(out, expected, "{to:?}");
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn a_seed_and_an_element_determine_the_pixels() {
    let file = encode::jpeg(&picture(60, 80), &Default::default()).unwrap();
    for colors in [None, Some(ColorDistortion::Hsv), Some(ColorDistortion::Yiq)] {
        let training = Training {
            method: ResizeMethod::RoundRobin,
            colors,
            ..Training::new(24, 20)
        };
        let image = |seed, element: u64, workspace: &mut Workspace| {
            let mut out = vec![0.0; 24 * 20 * 3];
            let mut draws = Draws::new(seed, element);
            training
                .run(
                    &file,
                    &[],
                    element as usize,
                    &mut draws,
                    workspace,
                    &mut out,
                )
                .unwrap();
            out
        };
        let mut workspace = Workspace::default();
        let forwards: Vec<_> = (0..8).map(|i| image(1, i, &mut workspace)).collect();
        let backwards: Vec<_> = (0..8)
            .rev()
            .map(|i| image(1, i, &mut Workspace::default()))
            .collect();
        assert!(forwards.iter().eq(backwards.iter().rev()));
        assert_ne!(forwards[0], forwards[4]);
        assert_ne!(forwards[0], image(2, 0, &mut workspace));
        for x in forwards.iter().flatten() {
            // Bicubic interpolation leaves the range a little where colours are not limited.
            assert!((-1.5..=1.5).contains(x), "{x}");
        }
    }
}

#[test]
fn a_training_image_without_chance_is_the_resized_image() {
    let image = picture(16, 16);
    let file = encode::png(&image).unwrap();
    let mut training = Training {
        flip: false,
        normalize: Normalize::IMAGENET,
        ..Training::new(16, 16)
    };
    // No window has such a shape, so the whole image is taken.
    training.sampler.aspect_ratio = [1000.0, 1000.0];
    training.method = ResizeMethod::Fixed(Method::Nearest);
    let mut out = vec![0.0; 16 * 16 * 3];
    training
        .run(
            &file,
            &[],
            0,
            &mut Draws::new(0, 0),
            &mut Workspace::default(),
            &mut out,
        )
        .unwrap();
    let means = [123.68, 116.78, 103.94];
    for (i, (x, &p)) in out.iter().zip(&image.pixels).enumerate() {
        assert_eq!(*x, f32::from(p) - means[i % 3]);
    }
}

#[test]
fn cifar_crops_lie_in_the_padded_image() {
    let image = picture(8, 8);
    let cifar = Cifar::default();
    let mut plain = vec![0.0; 8 * 8 * 3];
    cifar
        .evaluate(&image.pixels, image.size(), &mut plain)
        .unwrap();
    assert_eq!(plain[5], f32::from(image.pixels[5]) * (1.0 / 127.5) - 1.0);
    let mut identical = 0;
    for element in 0..400 {
        let mut out = vec![0.0; 8 * 8 * 3];
        let mut draws = Draws::new(3, element);
        cifar
            .train(&image.pixels, image.size(), &mut draws, &mut out)
            .unwrap();
        identical += usize::from(out == plain);
        // At most 4 lines and columns are border.
        assert!(out.iter().filter(|&&x| x != -1.0).count() >= 4 * 4 * 3 - 8);
    }
    // One of 9 * 9 * 2.
    assert!((1..12).contains(&identical), "{identical}");
}

#[test]
fn caffe_subtracts_the_mean_at_the_place_of_the_pixel() {
    let (size, image) = (Size::new(3, 3, 1), Vec::from_iter(10..19u8));
    let mean = Mean::Image((0..9).map(|i| i as f32).collect());
    let caffe = Caffe {
        crop: Some(1),
        mean,
        scale: 0.5,
        ..Caffe::default()
    };
    let mut out = [0.0];
    caffe.test(&image, size, &mut out).unwrap();
    assert_eq!(out, [(14.0 - 4.0) * 0.5]);
    for element in 0..20 {
        caffe
            .train(&image, size, &mut Draws::new(1, element), &mut out)
            .unwrap();
        assert_eq!(out, [5.0]);
    }
    let channels = Caffe {
        mean: Mean::Channels(vec![1.0, 2.0]),
        ..Caffe::default()
    };
    let error = channels.test(&image, size, &mut [0.0; 9]).unwrap_err();
    assert!(error.to_string().contains("buffer of 2"), "{error}");
    assert!(
        Caffe {
            crop: Some(4),
            ..Caffe::default()
        }
        .test(&image, size, &mut [0.0; 16])
        .is_err()
    );
}

#[test]
fn mirrored_caffe_images_are_half_of_all() {
    let (size, image) = (Size::new(1, 2, 1), [1u8, 2]);
    let caffe = Caffe {
        mirror: true,
        ..Caffe::default()
    };
    let mut mirrored = 0;
    for element in 0..200 {
        let mut out = [0.0; 2];
        caffe
            .train(&image, size, &mut Draws::new(1, element), &mut out)
            .unwrap();
        assert!(out == [1.0, 2.0] || out == [2.0, 1.0]);
        mirrored += usize::from(out == [2.0, 1.0]);
    }
    assert!((70..130).contains(&mirrored), "{mirrored}");
}

#[test]
fn a_wrong_buffer_is_an_error() {
    let file = encode::png(&picture(4, 4)).unwrap();
    let (mut workspace, mut out) = (Workspace::default(), vec![0.0; 7]);
    let training = Training::new(2, 2);
    assert!(
        training
            .run(
                &file,
                &[],
                0,
                &mut Draws::new(0, 0),
                &mut workspace,
                &mut out
            )
            .is_err()
    );
    assert!(
        Evaluation::new(2, 2)
            .run(&file, 0, &mut workspace, &mut out)
            .is_err()
    );
}
