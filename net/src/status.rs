//! The status page: what the link is doing, over HTTP on this machine.
//!
//! | path | answer |
//! |---|---|
//! | `/` | a summary to read, plain text |
//! | `/status` | the whole [`StatusSnapshot`] as JSON |
//! | `/metrics` | the same for Prometheus, text format 0.0.4; names begin with `aquila_`, each with its HELP line |
//!
//! A session shows a [`StatusSnapshot`], a gateway a [`GatewaySnapshot`](crate::gateway::GatewaySnapshot). Their loop publishes a snapshot through a `tokio::sync::watch` whenever it likes, a few times a second; a
//! request is answered with the latest and never reaches into the session.

mod metrics;
pub(crate) mod page;
mod server;
mod snapshot;
mod summary;

pub use metrics::render_metrics;
pub use server::{Exposure, Shown, StatusError, StatusServer};
pub use snapshot::{
    AerotpStatus, BearerStatus, ClassStatus, CongestionStatus, LatencyStatus, MavlinkEndpointStatus, MavlinkStatus,
    PeerStatus, PerClass, RadioStatus, RateMeter, ReplicationStatus, SecurityStatus, StatusSnapshot, VideoInputStatus,
    VideoOutputStatus, VideoStatus,
};
pub use summary::render_summary;

#[cfg(test)]
mod tests;
