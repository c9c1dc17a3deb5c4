//! MAVLink framing, classification and routing.
//!
//! Frames are carried, never decoded: a [`Frame`] is the bytes as they came, with accessors for what a link needs to
//! know. What a message is comes from one generated table ([`messages`]), how it travels from [`Policy`], and where it
//! goes from [`Router`].

pub mod frame;
pub mod messages;
pub mod radio_status;
pub mod router;
pub mod splitter;
pub mod treatment;

mod crc;

pub use frame::{Address, BuildError, ComponentId, Frame, FrameError, MessageId, Signature, SystemId, Version};
pub use messages::{MessageInfo, lookup, lookup_name};
pub use radio_status::{QueueState, RadioReporter, RadioStatus, TxbufEstimator};
pub use router::{EndpointConfig, EndpointId, EndpointKind, Router};
pub use splitter::{Splitter, SplitterStats};
pub use treatment::{Delivery, Policy, StateKey, Treatment};

#[cfg(test)]
mod corpus_tests;
#[cfg(test)]
mod testkit;
