//! The packed operands of a task: the block that it multiplies, and, where that is done meanwhile, the next.

use std::mem::{swap, take};
use std::ops::Range;

use bytemuck::Pod;

use super::Element;
use super::block::{Block, OperandSide};
use super::task::GemmTask;
use crate::micro_kernel::Tiled;

/// The copies of a task, by operand.
pub(super) struct Packed<'a, S> {
    /// Of the block that is multiplied.
    pub now: [&'a mut [S]; 2],
    pub next: Next<'a, S>,
}

/// The copies of the block after the one that is multiplied, where they are made meanwhile.
pub(super) struct Next<'a, S> {
    pub to: [&'a mut [S]; 2],
    /// Number of copied units.
    pub copied: [usize; 2],
}

impl<S: Tiled + Pod + Send + Sync> Packed<'_, S> {
    /// Goes on to the next block, and copies the rest of it, but no operand that is read where it lies.
    pub(super) fn turn<T: Element<Sum = S>>(
        &mut self,
        task: &GemmTask<'_, S>,
        block: Block<'_, T>,
        direct: bool,
    ) {
        for side in [OperandSide::A, OperandSide::B] {
            let i = side as usize;
            if task.plan.meanwhile[i] {
                swap(&mut self.now[i], &mut self.next.to[i]);
            }
            let copied = take(&mut self.next.copied[i]);
            let lies = match side {
                OperandSide::A => direct,
                OperandSide::B => task.plan.prepacked,
            };
            if !lies {
                let count = task.count(side, block);
                task.copy(block, side, copied..count, self.now[i]);
            }
        }
    }
}

impl<S: Tiled + Pod + Send + Sync> Next<'_, S> {
    /// Copies these units of the block, if that is done meanwhile; calls come in their order.
    pub(super) fn add<T: Element<Sum = S>>(
        &mut self,
        task: &GemmTask<'_, S>,
        block: Block<'_, T>,
        (side, units): (OperandSide, Range<usize>),
    ) {
        let i = side as usize;
        if task.plan.meanwhile[i] {
            self.copied[i] = units.end;
            task.copy(block, side, units, self.to[i]);
        }
    }
}
