//! What the examples print and draw.

use thalweg_examples as support;

use std::fs;
use std::path::PathBuf;

use support::plot::{Curve, Line, check_name, curves, scatter_with_lines};
use support::report::{Outcome, Spread, table};

const TRUE_LINE: Line = Line {
    weight: 3.0,
    bias: 0.0,
};

/// A name in the folder that Cargo keeps for this package's tests.
fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn an_outcome_is_one_line_of_json() {
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
fn a_spread_says_how_far_measurements_lie_apart() {
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
fn a_table_lines_numbers_up_on_the_right() {
    let text = table(
        ["set", "images"],
        [["train", "10000"], ["test", "7"]].map(|row| row.map(String::from)),
    );
    assert!(text.contains("│ train ┆  10000 │"), "{text}");
    assert!(text.contains("│ test  ┆      7 │"), "{text}");
}

#[test]
fn a_scatter_shows_every_point_both_lines_and_their_equations() {
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
fn curves_show_both_charts_and_leave_gaps() {
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
fn a_training_without_a_step_still_has_a_figure() {
    let path = file("empty.svg");
    curves(&path, &[], &[]).expect("a figure");
    scatter_with_lines(&path, &[], TRUE_LINE, TRUE_LINE).expect("a figure");
}

#[test]
fn a_figure_that_cannot_be_drawn_says_why() {
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
