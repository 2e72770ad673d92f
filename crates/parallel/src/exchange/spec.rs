//! AllReduce: tf_cnn_benchmarks' `all_reduce_spec`, algorithms by tensor size.

use std::str::FromStr;

use crate::error::ParallelError;

/// All-reduce algorithm between towers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// `pscpu`: sums on the first CPU device.
    Cpu,
    /// `psgpu`: sums on the towers' devices, in turn.
    Devices,
    /// `xring`: a ring.
    Ring,
}

/// An algorithm for tensors of up to a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) algorithm: Algorithm,
    /// Number of parts of a tensor that are reduced separately.
    pub(crate) shards: usize,
    /// Largest number of elements; `None` for the last range.
    pub(crate) most: Option<usize>,
}

/// Algorithms by tensor size; parsed from text such as `pscpu:32k:xring#2`: up to 32,768 elements on the CPU, larger
/// tensors in two rings.
///
/// `nccl` and `collective` are all-reduces over GPUs and over tasks, and are not supported; neither is `a/b`, which is
/// for several workers.
///
/// ```
/// use thalweg_parallel::AllReduce;
///
/// assert!("pscpu:32k:xring#2".parse::<AllReduce>().is_ok());
/// let error = "pscpu:many:xring".parse::<AllReduce>().unwrap_err().to_string();
/// assert!(error.contains("'many' is no number of elements"), "{error}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllReduce {
    text: String,
    ranges: Vec<Range>,
}

impl AllReduce {
    /// Uses one algorithm for all tensors.
    pub fn by(algorithm: Algorithm) -> AllReduce {
        let text = match algorithm {
            Algorithm::Cpu => "pscpu",
            Algorithm::Devices => "psgpu",
            Algorithm::Ring => "xring",
        };
        AllReduce {
            text: text.to_owned(),
            ranges: vec![Range {
                algorithm,
                shards: 1,
                most: None,
            }],
        }
    }

    /// The range for a tensor of so many elements.
    pub(super) fn of(&self, elements: usize) -> Range {
        let fits = |r: &&Range| r.most.is_none_or(|most| elements <= most);
        let last = self.ranges[self.ranges.len() - 1];
        self.ranges.iter().find(fits).copied().unwrap_or(last)
    }

    /// # Errors
    /// There are more rings than devices.
    pub(crate) fn check(&self, towers: usize) -> Result<(), ParallelError> {
        let too_many = |r: &&Range| r.algorithm == Algorithm::Ring && r.shards > towers;
        match self.ranges.iter().find(too_many) {
            Some(range) => Err(ParallelError::AllReduce {
                spec: self.text.clone(),
                why: format!("{towers} towers have no {} rings: give fewer", range.shards),
            }),
            None => Ok(()),
        }
    }
}

impl FromStr for AllReduce {
    type Err = ParallelError;

    fn from_str(text: &str) -> Result<AllReduce, ParallelError> {
        let wrong = |why: String| ParallelError::AllReduce {
            spec: text.to_owned(),
            why,
        };
        let mut ranges = Vec::new();
        let mut words = text.split(':');
        while let Some(word) = words.next() {
            let (algorithm, shards) = algorithm(word).map_err(wrong)?;
            let most = words.next().map(elements).transpose().map_err(wrong)?;
            ranges.push(Range {
                algorithm,
                shards,
                most,
            });
        }
        let bounds: Vec<usize> = ranges.iter().filter_map(|r| r.most).collect();
        if bounds.len() == ranges.len() {
            return Err(wrong(
                "it ends with a size: give an algorithm for larger tensors".to_owned(),
            ));
        }
        if !bounds.is_sorted_by(|a, b| a < b) {
            return Err(wrong(
                "sizes do not grow: give them from the smallest on".to_owned(),
            ));
        }
        Ok(AllReduce {
            text: text.to_owned(),
            ranges,
        })
    }
}

fn algorithm(word: &str) -> Result<(Algorithm, usize), String> {
    let (name, shards) = word.split_once('#').unwrap_or((word, "1"));
    let known = "give pscpu, psgpu or xring";
    let algorithm = match name {
        "pscpu" => Algorithm::Cpu,
        "psgpu" => Algorithm::Devices,
        "xring" => Algorithm::Ring,
        name if name.contains('/') => {
            return Err(format!(
                "'{name}' is for several workers, and here is one process: {known}"
            ));
        }
        "nccl" | "collective" => {
            return Err(format!(
                "'{name}' is not there for towers of one process: {known}"
            ));
        }
        name => return Err(format!("there is no algorithm '{name}': {known}")),
    };
    match shards.parse() {
        Ok(0) | Err(_) => Err(format!("'{shards}' is no number of parts: give 1 or more")),
        Ok(shards) => Ok((algorithm, shards)),
    }
}

/// Parses a number of elements, such as 32k: 32,768.
fn elements(word: &str) -> Result<usize, String> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &word[digits.len()..] {
        "" => Some(0),
        "k" | "K" => Some(10),
        "m" | "M" => Some(20),
        "g" | "G" => Some(30),
        "t" | "T" => Some(40),
        _ => None,
    };
    let number = digits.parse::<usize>().ok();
    let all = number.zip(shift).and_then(|(n, s)| n.checked_mul(1 << s));
    all.ok_or_else(|| format!("'{word}' is no number of elements: give one such as 32k"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_algorithm_follows_the_tensor_size() {
        let spec: AllReduce = "pscpu:2k:psgpu#3:1M:xring#2".parse().unwrap();
        let of = |elements| (spec.of(elements).algorithm, spec.of(elements).shards);
        assert_eq!(of(0), (Algorithm::Cpu, 1));
        assert_eq!(of(2048), (Algorithm::Cpu, 1));
        assert_eq!(of(2049), (Algorithm::Devices, 3));
        assert_eq!(of(1 << 20), (Algorithm::Devices, 3));
        assert_eq!(of(usize::MAX), (Algorithm::Ring, 2));
    }

    #[test]
    fn invalid_specifications_are_errors_with_reasons() {
        for (spec, why) in [
            ("", "there is no algorithm ''"),
            ("nccl", "'nccl' is not there for towers"),
            ("pscpu/pscpu", "'pscpu/pscpu' is for several workers"),
            ("xring#0", "'0' is no number of parts"),
            ("pscpu:32k", "it ends with a size"),
            ("pscpu:32k:xring:1k:psgpu", "sizes do not grow"),
            ("pscpu:99999999999T:xring", "is no number of elements"),
        ] {
            let error = spec.parse::<AllReduce>().unwrap_err().to_string();
            assert!(error.contains(why), "{spec}: {error}");
        }
    }
}
