//! Values between co-located tasks (tasks on one machine) through shared memory. The receiver maps the sender's
//! segments and reads the values in place; a connection would copy them twice and process each packet.
//!
//! A segment is a file without a name (`thalweg_tensor::Buffer::segment`), so a receiver needs a descriptor to map
//! it. Descriptors come through a Unix socket: the receiver asks the sender for the address of its socket
//! ([`Lender::socket`](lender::Lender::socket)) by a call (`Colocate`), over the connection and with its protection,
//! and connects to it ([`ColocatedTask::find`](segments::ColocatedTask::find)). The socket's name is in the abstract
//! namespace, so processes on another machine or in another network namespace do not find it: values then go over the
//! connection. Both ends accept their own user only (`SO_PEERCRED`). The system need not allow one process to read
//! the other's memory.
//!
//! A lent value ([`Loans::lend`](lender::Loans::lend)) does not change until the receiver returns it through the
//! socket. A buffer that is not returned by the end of the stream that has announced it is never written again.

pub(crate) mod lender;
pub(crate) mod loan_table;
pub(crate) mod segments;
#[cfg(target_os = "linux")]
mod socket;
#[cfg(not(target_os = "linux"))]
#[path = "unsupported.rs"]
mod socket;
// Compiled on Linux too, so that a change here does not break the other systems unseen.
#[cfg(all(test, target_os = "linux"))]
mod unsupported;

#[cfg(all(test, target_os = "linux"))]
mod tests;
