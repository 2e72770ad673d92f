//! Functions that run on a GPU: those of branches and loops become part of the GPU's program.
//!
//! Each function is simplified for the arguments of its node, as where it is called. Its nodes are then appended to the
//! graph of the program, with outputs of the graph in place of arguments. The host lets the program run the nodes of one
//! branch, or those of a loop again and again; see [`super::gpu`].

mod caller;
mod inline;
mod reason;

pub(super) use caller::{Caller, is_call};
pub(super) use inline::{Functions, Inlined, inline};
pub(super) use reason::{Nesting, call_reason};
