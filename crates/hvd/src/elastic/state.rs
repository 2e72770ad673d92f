//! What an elastic job goes on with.

use std::collections::BTreeMap;

use thalweg_tensor::{DType, Tensor};

use crate::error::HvdError;
use crate::ranks::Hvd;

/// What was committed once.
#[derive(Clone, Default)]
pub(super) struct Commit {
    /// The how manieth commit of the job it is.
    pub(super) number: u64,
    pub(super) variables: BTreeMap<String, Tensor>,
    numbers: BTreeMap<String, i64>,
}

/// What a rank knows of commits.
#[derive(Default)]
pub(super) struct Committed {
    /// The last commit that this rank has all of. It is kept until there is another one: a round may be lost before it begins.
    last: Commit,
    /// The number of the job's last commit.
    number: u64,
    /// Numbers of the program, which the next commit keeps.
    numbers: BTreeMap<String, i64>,
}

impl Committed {
    /// How often the job has committed.
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

    /// Has the values that all ranks begin the round with. They are the first commit, where there was none.
    pub(super) fn begin(&mut self, variables: BTreeMap<String, Tensor>) {
        self.number = self.number.max(1);
        self.last = Commit {
            number: self.number,
            variables,
            numbers: self.numbers.clone(),
        };
    }

    /// Learns what the job has committed: its number, and the numbers of the program.
    pub(super) fn learn(&mut self, (number, numbers): (u64, BTreeMap<String, i64>)) {
        self.number = number;
        self.numbers = numbers;
    }
}

impl Commit {
    /// What [`Committed::learn`] takes, of the commit of one rank. Variables go through the session.
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
