//! CTCLoss, CTCGreedyDecoder, CTCBeamSearchDecoder: connectionist temporal classification, of sequences whose labels have no
//! times.

mod beam;
mod beam_search;
mod greedy;
mod loss;
mod paths;
mod scores;

pub(super) use beam::BEAM_SEARCH_DECODER;
pub(super) use greedy::GREEDY_DECODER;
pub(super) use loss::CTC_LOSS;
