//! What a server answers, in the negotiation ([`option`]) and to requests ([`transmission`]).

pub mod option;
pub mod transmission;
