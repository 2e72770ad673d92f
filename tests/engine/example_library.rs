//! Tests of the examples' library: results, progress bars, tables, plots.

use thalweg_examples as support;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use indicatif::ProgressDrawTarget;

use support::accuracy::describe_images;
use support::plot::{Boxes, Curve, Line, boxes, check_name, curves, scatter_with_lines};
use support::progress::Progress;
use support::report::{Outcome, Spread, table};
use support::traces::warmed_up;
use thalweg::session::{Event, Trace};
use thalweg_tests::recording_terminal::Screen;

const TRUE_LINE: Line = Line {
    weight: 3.0,
    bias: 0.0,
};

/// A name in the folder that Cargo keeps for this package's tests.
fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn an_outcome_formats_as_one_line_of_json() {
    let mut outcome = Outcome {
        workload: "say \"hi\"",
        batch: 50,
        value: 712.25,
        unit: "images/s",
    };
    let line = outcome.json();
    assert_eq!(
        line,
        r#"{"workload":"say \"hi\"","batch":50,"value":712.25,"unit":"images/s"}"#
    );
    outcome.value = f64::NAN;
    let back: serde_json::Value = serde_json::from_str(&outcome.json()).expect("JSON");
    assert!(back["value"].is_null());
}

#[test]
fn a_spread_has_median_mean_error_and_jitter() {
    assert_eq!(Spread::of(&[]), None);
    let one = Spread::of(&[7.0]).expect("a value");
    assert_eq!(
        (one.median, one.mean, one.error, one.jitter),
        (7.0, 7.0, 0.0, 0.0)
    );
    let four = Spread::of(&[4.0, 1.0, 2.0, 13.0]).expect("values");
    assert_eq!((four.median, four.mean), (3.0, 5.0));
    // Squares 1 + 16 + 9 + 64 = 90; 90 / 3 / 4 = 7.5. Distances 1, 1, 2, 10.
    assert!((four.error - 7.5f64.sqrt()).abs() < 1e-12);
    assert!((four.jitter - 1.4826 * 1.5).abs() < 1e-12);
}

#[test]
fn a_progress_bar_fits_into_any_terminal_width() {
    for (columns, seen) in [
        (20, "00/5000"),
        (40, "loss 0.1234"),
        (60, "images/s"),
        (200, "images/s"),
    ] {
        let screen = Screen::new(columns);
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(screen.clone()), 255);
        let mut progress = Progress::on(target, 5000, 50);
        for step in 0..2500 {
            progress.step(0.1234);
            if step % 500 == 498 {
                // The text and the screen change again only after a while.
                std::thread::sleep(Duration::from_millis(110));
            }
        }
        let written = screen.written();
        assert!(
            written.iter().any(|text| text.contains(seen)),
            "{written:?}"
        );
        for text in &written {
            assert!(
                text.chars().count() <= usize::from(columns),
                "{columns}: {text}"
            );
        }
    }
}

#[test]
fn a_trace_is_of_a_warmed_up_step() {
    let mut steps = 0;
    let trace = warmed_up(|| {
        steps += 1;
        let event = Event {
            node: format!("of step {steps}"),
            op: "Add".to_owned(),
            device: String::new(),
            thread: 0,
            start_us: 0.0,
            duration_us: 1.0,
            bytes: 0,
            members: Vec::new(),
            channel: None,
        };
        let events = vec![event];
        Ok::<_, String>(Trace {
            events,
            ..Trace::default()
        })
    });
    assert_eq!(trace.unwrap().events[0].node, "of step 9");

    let mut steps = 0;
    let failed = warmed_up(|| {
        steps += 1;
        Err("stopped")
    });
    assert_eq!((failed.err(), steps), (Some("stopped"), 1));
}

#[test]
fn a_table_aligns_numbers_on_the_right() {
    let text = table(
        ["set", "images"],
        [["train", "10000"], ["test", "7"]].map(|row| row.map(String::from)),
    );
    assert!(text.contains("│ train ┆  10000 │"), "{text}");
    assert!(text.contains("│ test  ┆      7 │"), "{text}");
}

#[test]
fn a_scatter_plot_shows_points_lines_and_equations() {
    let path = file("scatter.svg");
    let points = [(0.0, 0.5), (1.0, 2.5), (2.0, f64::NAN), (3.0, 9.5)];
    let fitted = Line {
        weight: 2.831,
        bias: -0.414,
    };
    scatter_with_lines(&path, &points, TRUE_LINE, fitted).expect("a figure");
    let svg = fs::read_to_string(&path).expect("the figure");
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    // Three points that can be drawn, and the one in the legend.
    assert_eq!(svg.matches("<circle").count(), 4);
    assert!(svg.contains("fitted: y = 2.83 x − 0.41"));
    assert!(svg.contains("true: y = 3.00 x + 0.00"));
}

#[test]
fn curves_draw_both_charts_with_gaps() {
    let path = file("curves.svg");
    let loss = [(0.0, 2.3), (10.0, f64::NAN), (20.0, 0.0), (30.0, 0.31)];
    let accuracy = [(0.0, 0.1), (30.0, 0.9751)];
    let losses = [Curve {
        label: "batch",
        points: &loss,
    }];
    let accuracies = [Curve {
        label: "test set",
        points: &accuracy,
    }];
    curves(&path, &losses, &accuracies).expect("a figure");
    let svg = fs::read_to_string(&path).expect("the figure");
    assert!(svg.contains("batch, last 0.31"));
    assert!(svg.contains("test set, last 97.51%"));
    assert_eq!(svg.matches("<circle").count(), 4);
    assert!(!svg.contains("NaN"));
}

#[test]
fn an_accuracy_names_its_images() {
    assert_eq!(
        describe_images(1000, 10_000),
        "the first 1000 of 10000 test images"
    );
    assert_eq!(describe_images(usize::MAX, 10_000), "all 10000 test images");
    assert_eq!(describe_images(1000, 1000), "all 1000 test images");
}

#[test]
fn the_height_of_a_box_is_proportional_to_its_bytes() {
    let path = file("boxes.svg");
    let thing = |name: &str, bytes: u64| (name.to_owned(), bytes);
    let column = |name: &str, things: &[(String, u64)]| (name.to_owned(), things.to_vec());
    let figure = |title, columns| Boxes { title, columns };
    let figures = [
        figure(
            "uneven",
            vec![
                column("first", &[thing("large", 6000), thing("small", 2)]),
                column("second", &[thing("middle", 3000), thing("other", 1500)]),
            ],
        ),
        figure("alone", vec![column("only", &[thing("large", 6000)])]),
    ];
    boxes(&path, &figures).expect("a figure");
    let svg = fs::read_to_string(&path).expect("the figure");
    // Outlines alone: each box is filled, too.
    let outlines = svg
        .lines()
        .filter(|l| l.contains("<rect") && l.contains("fill=\"none\""));
    let height = |line: &str| -> i32 {
        let (_, rest) = line.split_once(" height=\"").expect("a height");
        let (height, _) = rest.split_once('"').expect("a number");
        height.parse().expect("a number")
    };
    let heights: Vec<i32> = outlines.map(height).collect();
    let [large, small, middle, other, again] = heights[..] else {
        panic!("{heights:?} in {svg}");
    };
    assert_eq!((large, again), (2 * middle, large));
    assert_eq!(middle, 2 * other);
    assert!((1..5).contains(&small), "{heights:?}");
    for said in ["6002 bytes, 57.2%", "large, 6000 B", "small, 2 B"] {
        assert!(svg.contains(said), "{said}: {svg}");
    }
}

#[test]
fn a_figure_without_points_is_drawn() {
    let path = file("empty.svg");
    curves(&path, &[], &[]).expect("a figure");
    scatter_with_lines(&path, &[], TRUE_LINE, TRUE_LINE).expect("a figure");
}

#[test]
fn a_figure_that_cannot_be_drawn_is_an_error() {
    let png = check_name(&file("plot.png")).expect_err("a PNG");
    assert!(
        png.to_string().ends_with("give a name that ends in .svg"),
        "{png}"
    );
    assert!(check_name(&file("plot")).is_err());
    assert!(check_name(&file("plot.SVG")).is_ok());

    let lost = curves(file("no/such/folder/plot.svg"), &[], &[]).expect_err("no folder");
    assert!(lost.to_string().contains("plot.svg: "), "{lost}");

    let nan = Line {
        weight: f64::NAN,
        bias: 0.0,
    };
    let diverged = scatter_with_lines(file("nan.svg"), &[], TRUE_LINE, nan).expect_err("NaN");
    assert!(diverged.to_string().contains("diverged"), "{diverged}");
}
