//! What tests and benches share without the engine.

#[path = "support/addresses.rs"]
pub mod addresses;
