//! Commits of an elastic job.

use std::collections::BTreeMap;

use thalweg_tensor::{DType, Tensor};

use crate::error::HvdError;
use crate::ranks::Hvd;

/// Content of one commit.
#[derive(Clone, Default)]
pub(super) struct Commit {
    /// Number of the commit in the job.
    pub(super) number: u64,
    pub(super) variables: BTreeMap<String, Tensor>,
    numbers: BTreeMap<String, i64>,
}

/// Commits that a rank has.
#[derive(Default)]
pub(super) struct Committed {
    /// The last commit that this rank has completely. It is kept until the next one: a round may be lost before it
    /// begins.
    last: Commit,
    /// Number of the job's last commit.
    number: u64,
    /// Numbers of the program, which the next commit keeps.
    numbers: BTreeMap<String, i64>,
}

impl Committed {
    /// Number of commits of the job.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The last commit of this rank.
    pub(super) fn last(&self) -> &Commit {
        &self.last
    }

    pub(super) fn get(&self, name: &str) -> Option<i64> {
        self.numbers.get(name).copied()
    }

    pub(super) fn set(&mut self, name: &str, value: i64) {
        self.numbers.insert(name.to_owned(), value);
    }

    /// Commits these values.
    pub(super) fn keep(&mut self, variables: BTreeMap<String, Tensor>) {
        self.number += 1;
        self.begin(variables);
    }

    /// Stores the values with which all ranks begin the round. They are the first commit, if there was none.
    pub(super) fn begin(&mut self, variables: BTreeMap<String, Tensor>) {
        self.number = self.number.max(1);
        self.last = Commit {
            number: self.number,
            variables,
            numbers: self.numbers.clone(),
        };
    }

    /// Takes over the job's commit: its number, and the numbers of the program.
    pub(super) fn learn(&mut self, (number, numbers): (u64, BTreeMap<String, i64>)) {
        self.number = number;
        self.numbers = numbers;
    }
}

impl Commit {
    /// Encodes the commit of one rank for [`Committed::learn`]. Variables are broadcast by the session.
    pub(super) fn told(
        &self,
        hvd: &Hvd,
        root: usize,
    ) -> Result<(u64, BTreeMap<String, i64>), HvdError> {
        let mut text = self.number.to_string();
        for (name, value) in &self.numbers {
            text += &format!("\n{value} {name}");
        }
        let len = hvd.broadcast(Tensor::scalar(text.len() as i64), root)?;
        let len = usize::try_from(len.to_scalar::<i64>()?).unwrap_or(0);
        let own = match hvd.rank() == root {
            true => Tensor::vector(text.as_bytes()),
            false => Tensor::zeros(DType::U8, &[len])?,
        };
        let taken = hvd.broadcast(own, root)?;
        let taken = String::from_utf8_lossy(taken.as_slice::<u8>()?).into_owned();
        let mut lines = taken.split('\n');
        let number = lines.next().and_then(|n| n.parse().ok()).unwrap_or(0);
        let parsed = |line: &str| {
            let (value, name) = line.split_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Ok((number, lines.filter_map(parsed).collect()))
    }
}
