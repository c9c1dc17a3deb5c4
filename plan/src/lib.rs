//! Mission planning for data mules [DATA-MULES: Palma et al., "Unmanned Aerial Vehicles as Data Mules: An Experimental
//! Assessment", IEEE Access 5, 2017]: which trajectory, and what fits.
//!
//! A [`scenario`] says where the node is, what flies, what radios they have and what is to be transferred. A [`flight`]
//! is flown by the numbers, read from a [`mission`], or from a [`log`]. A [`forecast`] has what the link carries,
//! second by second and in many tries of chance; [`sweep`] tries circles, [`fit`] finds the constants of a flight that
//! was flown, [`write`] writes a trace for the lab and a mission for the autopilot, [`report`] draws.
//!
//! Bytes and text go in, structures and text come out: no files, sockets, clocks or randomness but a seed. Angles are
//! in degrees, levels in dB, and names say so. Nothing panics, whatever is read: a file is refused with line or byte
//! and reason ([`fault::ParseError`]), and its size bounds the memory.
#![forbid(unsafe_code)]

pub mod antenna;
pub mod fault;
pub mod fit;
pub mod flight;
pub mod forecast;
pub mod geodesy;
pub mod log;
pub mod mission;
pub mod obstruction;
pub mod radio;
pub mod report;
pub mod scenario;
pub mod sweep;
pub mod terrain;
pub mod write;
