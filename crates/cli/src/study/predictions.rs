//! Predicted speeds of a CSV file.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use csv::StringRecord;
use thalweg_study::{Data, Point};

use crate::failure::Failure;

/// Maximum size of a file of predictions, in bytes.
const MAX_BYTES: u64 = 16 << 20;
/// Columns that the file has, in any order. `system` is one more for files of several systems.
const COLUMNS: [&str; 6] = [
    "mode",
    "data",
    "batch",
    "servers",
    "tasks",
    "images_per_second",
];

/// Predicted speed of a point.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Prediction {
    /// System of a study of several ones; empty without.
    pub(super) system: String,
    pub(super) point: Point,
    /// Images per second of all tasks.
    pub(super) images_per_second: f64,
}

/// Reads the predictions. Columns beyond the named ones are passed over, and so are rows without images per second: the table
/// of another study's results can be given.
///
/// # Errors
/// The file cannot be read or is too large; it lacks a column; a row has a wrong value: the error has its line.
pub(super) fn read(path: &Path) -> Result<Vec<Prediction>, Failure> {
    let file = File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
    parse(file.take(MAX_BYTES + 1)).map_err(|e| format!("{}: {e}", path.display()).into())
}

fn parse(reader: impl Read) -> Result<Vec<Prediction>, String> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(reader);
    let head = reader.headers().map_err(|e| told(&e))?.clone();
    let column = |name: &str| head.iter().position(|h| h == name);
    let mut places = [0; COLUMNS.len()];
    for (place, name) in places.iter_mut().zip(COLUMNS) {
        *place = column(name)
            .ok_or_else(|| format!("line 1: there is no column {name}: {}", COLUMNS.join(", ")))?;
    }
    let system = column("system");
    let mut all = Vec::new();
    for row in reader.records() {
        let row = row.map_err(|e| told(&e))?;
        let place = row.position();
        let line = place.map_or(0, csv::Position::line);
        if place.is_some_and(|at| at.byte() > MAX_BYTES) {
            return Err(format!("it is larger than {} MiB", MAX_BYTES >> 20));
        }
        let prediction = prediction(&row, &places, system);
        all.extend(prediction.map_err(|e| format!("line {line}: {e}"))?);
    }
    Ok(all)
}

/// Error of the form of a file.
fn told(error: &csv::Error) -> String {
    match error.position() {
        Some(at) => format!("line {}: {error}", at.line()),
        None => error.to_string(),
    }
}

/// Prediction of a row; `None` without images per second.
fn prediction(
    row: &StringRecord,
    places: &[usize; COLUMNS.len()],
    system: Option<usize>,
) -> Result<Option<Prediction>, String> {
    let [mode, data, batch, servers, tasks, speed] = places.map(|at| row.get(at).unwrap_or(""));
    if speed.is_empty() {
        return Ok(None);
    }
    let number = |name: &str, text: &str, least: u32| {
        let number = text.parse().ok().filter(|n: &u32| *n >= least);
        number.ok_or_else(|| format!("{name} is '{text}': give a number from {least} on"))
    };
    let rate = speed
        .parse()
        .ok()
        .filter(|s: &f64| s.is_finite() && *s > 0.0);
    Ok(Some(Prediction {
        system: system.and_then(|at| row.get(at)).unwrap_or("").to_owned(),
        point: Point {
            mode: mode.to_owned(),
            data: match data {
                "synthetic" => Data::Synthetic,
                "real" => Data::Real,
                _ => return Err(format!("data is '{data}': give synthetic or real")),
            },
            batch: number("batch", batch, 1)?,
            tasks: number("tasks", tasks, 1)?,
            servers: number("servers", servers, 0)?,
        },
        images_per_second: rate
            .ok_or_else(|| format!("images_per_second is '{speed}': give a number above 0"))?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "mode,data,batch,servers,tasks,images_per_second\n";

    #[test]
    fn rows_are_predictions_in_columns_of_any_order() {
        let text = "images_per_second,note,system,tasks,servers,batch,data,mode\n\
                    12.5,x,Piz Daint,2,1,64,synthetic,parameter_server\n,x,,4,1,64,real,horovod\n";
        let all = parse(text.as_bytes()).unwrap();
        let [only] = &all[..] else { panic!("{all:?}") };
        assert_eq!((&*only.system, only.images_per_second), ("Piz Daint", 12.5));
        assert_eq!(
            only.point.to_string(),
            "parameter_server, 2 tasks, 1 servers, batch 64, synthetic"
        );
        assert_eq!(parse(HEAD.as_bytes()).unwrap(), []);
    }

    #[test]
    fn errors_name_the_line_and_what_would_be_right() {
        let error = |rows: &str| parse(format!("{HEAD}{rows}").as_bytes()).unwrap_err();
        let good = "horovod,synthetic,64,0,2,10.0\n";
        for (row, says) in [
            ("horovod,synthetic,64,0,0,10.0", "tasks is '0'"),
            ("horovod,synthetic,-1,0,2,10.0", "batch is '-1'"),
            ("horovod,fake,64,0,2,10.0", "data is 'fake'"),
            ("horovod,synthetic,64,0,2,nan", "images_per_second is 'nan'"),
            ("horovod,synthetic,64,0,2,-5", "images_per_second is '-5'"),
            ("horovod,synthetic", "line 3"),
        ] {
            let told = error(&format!("{good}{row}\n"));
            assert!(
                told.starts_with("line 3: ") && told.contains(says),
                "{told}"
            );
        }
        let lacks = parse(&b"mode,data\n"[..]).unwrap_err();
        assert!(
            lacks.starts_with("line 1: there is no column batch"),
            "{lacks}"
        );
    }
}
