//! `TF_CONFIG`: TensorFlow's description of a cluster and of the task of a process.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::error::EnvError;

/// Cluster and task of the variable `TF_CONFIG`.
///
/// ```
/// use thalweg_launch_env::TfConfig;
///
/// let text = r#"{"cluster": {"ps": ["a:1"], "worker": ["b:1", "c:1"]}, "task": {"type": "worker", "index": 1}}"#;
/// let config = TfConfig::parse(text)?;
/// assert_eq!(config.jobs["worker"][&1], "c:1");
/// assert_eq!(config.task, Some(("worker".to_owned(), 1)));
/// # Ok::<(), thalweg_launch_env::EnvError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TfConfig {
    /// Addresses by job and number of the task.
    pub jobs: BTreeMap<String, BTreeMap<u32, String>>,
    /// Job and number of the task of this process, if it is named. The cluster may not have it: an evaluator is in none.
    pub task: Option<(String, u32)>,
}

impl TfConfig {
    /// Parses `{"cluster": {"ps": ["host:port"], ...}, "task": {"type": "ps", "index": 0}}`. The tasks of a job may also be an
    /// object, with numbers as keys. Addresses are not checked.
    ///
    /// # Errors
    /// [`EnvError::TfConfig`]: the text is of another form.
    pub fn parse(text: &str) -> Result<TfConfig, EnvError> {
        let wrong = |reason: &str| EnvError::TfConfig(reason.to_owned());
        let config: Value =
            serde_json::from_str(text).map_err(|e| EnvError::TfConfig(e.to_string()))?;
        let all = config["cluster"].as_object();
        let all = all.ok_or_else(|| wrong("it has no \"cluster\" with jobs"))?;
        let mut jobs = BTreeMap::new();
        for (job, tasks) in all {
            jobs.insert(job.clone(), addresses(job, tasks)?);
        }
        let task = match &config["task"] {
            Value::Null => None,
            task => {
                // Some programs write the number as a string.
                let index = &task["index"];
                let index = index.as_u64().or_else(|| index.as_str()?.parse().ok());
                let index = index.and_then(|i| u32::try_from(i).ok());
                let named = task["type"].as_str().zip(index);
                let (job, index) =
                    named.ok_or_else(|| wrong("its \"task\" needs a \"type\" and an \"index\""))?;
                Some((job.to_owned(), index))
            }
        };
        Ok(TfConfig { jobs, task })
    }
}

/// Addresses of the tasks of a job, by number.
fn addresses(job: &str, tasks: &Value) -> Result<BTreeMap<u32, String>, EnvError> {
    let address = |v: &Value| v.as_str().map(str::to_owned);
    let mut all = BTreeMap::new();
    let numbered: Option<Vec<(u32, String)>> = match tasks {
        Value::Array(list) => (0..)
            .zip(list)
            .map(|(i, v)| Some((i, address(v)?)))
            .collect(),
        Value::Object(map) => map
            .iter()
            .map(|(i, v)| Some((i.parse().ok()?, address(v)?)))
            .collect(),
        _ => None,
    };
    let unusable = || EnvError::TfConfig(format!("the tasks of job '{job}' are no addresses"));
    for (task, address) in numbered.ok_or_else(unusable)? {
        if all.insert(task, address).is_some() {
            let text = format!("task {task} of job '{job}' is given twice");
            return Err(EnvError::TfConfig(text));
        }
    }
    Ok(all)
}
