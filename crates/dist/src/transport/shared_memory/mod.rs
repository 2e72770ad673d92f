//! Values between co-located tasks, those of one machine: the receiver maps the segments of shared memory
//! that the sender's values lie in, and reads them in place, where a connection copies them twice and has
//! the network's work for each packet.
//!
//! A segment is a file without a name (`thalweg_tensor::Buffer::segment`), so that who maps it needs a
//! descriptor. It comes through a Unix socket: the receiver asks the sender by a call (`Colocate`), over
//! the connection and protected as that is, which socket it listens on ([`Lender::socket`](lender::Lender::socket)), and connects
//! to it ([`ColocatedTask::find`](segments::ColocatedTask::find)). The socket's name is in the abstract namespace, where nobody on another
//! machine, or in another network namespace, finds it: values then go over the connection. Both ends take
//! nobody but their own user (`SO_PEERCRED`). The system need not let one process read the other's memory.
//!
//! A value that is lent ([`Loans::lend`](lender::Loans::lend)) stays as it is until the receiver gives it back through the
//! socket. What the receiver has not given back when the stream ends that tells of it is never written
//! again.

pub(crate) mod lender;
pub(crate) mod loan_table;
pub(crate) mod segments;
#[cfg(target_os = "linux")]
mod socket;
#[cfg(not(target_os = "linux"))]
#[path = "unsupported.rs"]
mod socket;

#[cfg(all(test, target_os = "linux"))]
mod tests;
