//! Ends and links in virtual time, through the library's public interface: one binary for all of it.

mod aerotp;
mod bearers;
mod lent;
mod lies;
mod link;
mod modem;
mod one_link;
mod parcels;
mod parity;
mod pictures;
mod radio;
mod robustness;
mod scripted;
mod sequences;
mod tcp_model;
mod traces;
mod turns;

use std::time::Duration;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
