//! Description of a study and its machine.

use thalweg_study::Scaling;

use crate::html::escaped;
use crate::study::results::Results;

/// List of what is known.
pub(super) fn list(results: &Results) -> String {
    let machine = &results.machine;
    let named = results.systems.iter().any(|s| !s.name.is_empty());
    let mut rows = vec![match named {
        true => ("Source", results.study.clone()),
        false => ("Study", results.study.clone()),
    }];
    rows.push((
        "Batch",
        match results.scaling {
            Scaling::Weak => "each task keeps it (weak scaling)",
            Scaling::Strong => "the tasks share it (strong scaling)",
        }
        .to_owned(),
    ));
    let processor = machine.processor.as_deref().unwrap_or("unknown processor");
    let system = machine.system.as_deref().unwrap_or("unknown system");
    if let Some(cores) = machine.cores {
        let text = format!("{cores} cores of {processor}, {system}");
        rows.push(("Machine", text));
    }
    if let Some(link) = &machine.link {
        let text = format!(
            "between {}, over TCP: {:.1} µs a message, {:.2} GB/s in each direction at once",
            link.between,
            1e6 * link.latency,
            link.bandwidth / 1e9
        );
        rows.push(("Link", text));
    }
    if let Some([least, most]) = results.loads {
        let text = format!(
            "{least:.2} to {most:.2} before a run (processes that wanted to run in the minute before)"
        );
        rows.push(("Load", text));
    }
    let rows = rows.iter();
    let rows = rows.map(|(name, text)| format!("<dt>{name}</dt><dd>{}</dd>\n", escaped(text)));
    format!("<dl>\n{}</dl>\n", rows.collect::<String>())
}
