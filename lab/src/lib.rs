//! Experiments: simulated aircraft, camera and virtual-time runs.

pub mod aerotp;
pub mod agreement;
pub mod aircraft;
pub mod camera;
pub mod channels;
mod closed_loop;
pub mod conclone;
pub mod demo;
mod ends;
mod fnv;
pub mod frames;
mod handovers;
pub mod judge;
pub mod live;
pub mod metrics;
pub mod mule;
pub mod pair;
pub mod plan;
pub mod quality;
pub mod record;
pub mod report;
pub mod run;
pub mod run_live;
pub mod scenarios;
pub mod score;
pub mod serial_pty;
#[cfg(test)]
mod testing;
mod timeline;
pub mod traces;
mod viewer;
