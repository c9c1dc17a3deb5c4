//! Wire codecs: pure, each with a round trip test and a fuzz target.

pub mod varint;
