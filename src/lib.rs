//! Thalweg: an engine for static dataflow graphs.
