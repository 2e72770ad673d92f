//! Fixed weights of classes, drawn by the alias method: TensorFlow's `DistributionSampler`.

use std::sync::Arc;

use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::Memory;

use super::ranges::Distribution;
use super::simple_philox::SimplePhilox;
use crate::files::record_files::Format;
use crate::strings::parse;
use crate::support::tensors::AccountedVec;

/// A distribution by weights that a file or an attribute gives.
pub(super) struct AliasTable {
    weights: AccountedVec<f32>,
    total: f32,
    /// For each class the probability of its own draw, and the class that is drawn otherwise.
    aliases: AccountedVec<(f32, u32)>,
}

/// Weights of a shard of the classes.
struct ShardWeights {
    all: AccountedVec<f32>,
    total: f32,
    distortion: f32,
    shards: i64,
    shard: i64,
    /// Number of the next class.
    next: i64,
}

impl ShardWeights {
    fn push(&mut self, weight: f32) -> Result<(), KernelError> {
        let len = self.all.len();
        self.all.grow(len + 1, weight)
    }

    /// Adds the next class, if it is of the shard.
    fn add(&mut self, weight: f32) -> Result<(), KernelError> {
        if self.next % self.shards == self.shard {
            let weight = weight.powf(self.distortion);
            self.total += weight;
            self.push(weight)?;
        }
        self.next += 1;
        Ok(())
    }
}

impl AliasTable {
    /// The distribution that a node asks for.
    ///
    /// # Errors
    /// There are two lists of weights or none, another number of weights than of classes, or a line without one.
    pub(super) fn of(cx: &TensorCx<'_>) -> Result<AliasTable, KernelError> {
        let attrs = cx.attrs();
        let (file, unigrams) = (attrs.str("vocab_file"), attrs.floats("unigrams"));
        if file.is_empty() == unigrams.is_empty() {
            return Err(KernelError::Invalid(
                "Must provide either vocab_file or unigrams: one of them".to_owned(),
            ));
        }
        let (shards, shard) = (attrs.int("num_shards").max(1), attrs.int("shard"));
        let range = attrs.int("range_max");
        let reserved = reserved_of_shard(attrs.int("num_reserved_ids"), shards, shard);
        if reserved > range {
            return Err(KernelError::Invalid(format!(
                "num_reserved_ids reserves {reserved} of {range} classes: reserve fewer"
            )));
        }
        let len = usize::try_from(reserved).unwrap_or(0);
        let mut weights = ShardWeights {
            all: AccountedVec::filled(len, 0.0, cx.memory())?,
            total: 0.0,
            distortion: attrs.float("distortion"),
            shards,
            shard,
            // TensorFlow numbers the first class by the reserved ones of the shard.
            next: reserved,
        };
        for &weight in unigrams {
            weights.add(weight)?;
        }
        if !file.is_empty() {
            read(cx, file, &mut weights)?;
        }
        if usize::try_from(range) != Ok(weights.all.len()) {
            return Err(KernelError::Invalid(format!(
                "range is {range} must be equal to weights size {}: each class needs a weight",
                weights.all.len()
            )));
        }
        AliasTable::new(weights.all, weights.total, cx.memory())
    }

    fn new(
        weights: AccountedVec<f32>,
        total: f32,
        memory: &Arc<Memory>,
    ) -> Result<AliasTable, KernelError> {
        let n = weights.len();
        let sum: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        let mut rest = AccountedVec::filled(n, 0.0f64, memory)?;
        // Classes below the mean stand at the start of the list, those above it at its end.
        let mut order = AccountedVec::filled(n, 0u32, memory)?;
        let mut aliases = AccountedVec::filled(n, (0.0f32, 0u32), memory)?;
        let (mut low, mut high) = (0, n);
        for (i, &weight) in weights.iter().enumerate() {
            rest[i] = f64::from(weight * n as f32) / sum;
            aliases[i].1 = i as u32;
            if rest[i] < 1.0 {
                order[low] = i as u32;
                low += 1;
            } else {
                high -= 1;
                order[high] = i as u32;
            }
        }
        // What a low class lacks, a high class gives; the rest of that is low or high.
        while low > 0 && high < n {
            low -= 1;
            let (l, h) = (order[low], order[high]);
            high += 1;
            aliases[l as usize].1 = h;
            let left = rest[h as usize] - (1.0 - rest[l as usize]);
            rest[h as usize] = left;
            if left < 1.0 {
                order[low] = h;
                low += 1;
            } else {
                high -= 1;
                order[high] = h;
            }
        }
        for (alias, rest) in aliases.iter_mut().zip(rest.iter()) {
            alias.0 = *rest as f32;
        }
        // Those that are left are 1 but for rounding.
        for &i in order[..low].iter().chain(&order[high..]) {
            aliases[i as usize] = (1.0, i);
        }
        Ok(AliasTable {
            weights,
            total,
            aliases,
        })
    }
}

/// Number of the reserved classes that are of a shard.
fn reserved_of_shard(reserved: i64, shards: i64, shard: i64) -> i64 {
    match (0..shards).contains(&shard) && shard < reserved {
        true => (reserved - 1 - shard) / shards + 1,
        false => 0,
    }
}

/// Adds the weights in the last columns of a file's lines.
fn read(cx: &TensorCx<'_>, file: &str, weights: &mut ShardWeights) -> Result<(), KernelError> {
    let (mut lines, mut stop) = (Format::LINES.open(cx, file.as_bytes(), 0)?, cx.stop_check());
    while let Some(line) = lines.next(cx.memory())? {
        stop.tick()?;
        let Some(last) = line.data.rsplit(|&b| b == b',').next() else {
            continue;
        };
        if line.data.is_empty() {
            continue;
        }
        let weight = parse::<f32>(last).map_err(|reason| {
            KernelError::Invalid(format!("{file}: Wrong vocabulary format at line: {reason}"))
        })?;
        weights.add(weight)?;
    }
    Ok(())
}

impl Distribution for AliasTable {
    fn sample(&self, numbers: &mut SimplePhilox<'_>) -> i64 {
        let drawn = numbers.float();
        let class = numbers.below(self.aliases.len() as u32);
        let (probability, alias) = self.aliases[class as usize];
        if drawn < probability {
            class.into()
        } else {
            alias.into()
        }
    }

    fn probability(&self, class: i64) -> f32 {
        self.weights[class as usize] / self.total
    }
}
