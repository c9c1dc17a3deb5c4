//! Makes a bundle (RFC 9171 §4).

use std::time::Duration;

use hardy_bpv7::block::{Flags as BlockFlags, Type};
use hardy_bpv7::builder::Builder;
use hardy_bpv7::bundle::Flags;
use hardy_bpv7::creation_timestamp::CreationTimestamp;
use hardy_bpv7::dtn_time::DtnTime;
use hardy_bpv7::hop_info::HopInfo;

use crate::Eid;
use crate::read::DTN_EPOCH_MS;

/// A bundle that is to be made. Primary and payload block get a CRC-32C each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Who makes it.
    pub source: Eid,
    /// Who it is for.
    pub destination: Eid,
    /// Who is told what became of it; `None` for nobody. RFC 9171 §4.3.1 has no default.
    pub report_to: Option<Eid>,
    /// When, in milliseconds since 1970. Without a clock, or by one that stands before 2000, `None`: the bundle then
    /// gets an age block (RFC 9171 §4.4.2).
    pub created_ms: Option<u64>,
    /// Together with source and time it has to be a name that no other bundle has. Without a clock it never repeats.
    pub sequence: u64,
    /// How long anybody wants it.
    pub lifetime: Duration,
    /// Over how many nodes it may go, 1 to 255; `None` for no such block.
    pub hop_limit: Option<u8>,
    /// What is asked of those that carry it.
    pub requests: Requests,
}

/// Flags of a bundle (RFC 9171 §4.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Requests {
    /// Nobody may cut it in pieces.
    pub whole: bool,
    /// The application that gets it is asked to say so.
    pub acknowledge: bool,
    /// `report_to` is told when it is delivered.
    pub report_delivery: bool,
    /// `report_to` is told when it is deleted.
    pub report_deletion: bool,
}

/// Why no bundle is made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MakeError {
    /// Hop limit 0.
    #[error("a hop limit of 0; it is 1 to 255")]
    HopLimit,
    /// Made by nobody, but with requests that need somebody (RFC 9171 §4.2.3).
    #[error("a bundle of dtn:none must not be cut and asks for no reports")]
    Anonymous,
    /// The library cannot write it.
    #[error("cannot be written: {0}")]
    Library(String),
}

impl Draft {
    /// With a hop limit of 32, not to be cut, reported to nobody.
    pub fn new(source: Eid, destination: Eid, created_ms: u64, lifetime: Duration) -> Self {
        Self {
            source,
            destination,
            report_to: None,
            created_ms: Some(created_ms),
            sequence: 0,
            lifetime,
            hop_limit: Some(32),
            requests: Requests { whole: true, ..Requests::default() },
        }
    }

    /// The bundle.
    ///
    /// # Errors
    /// [`MakeError`] if nobody could read it.
    pub fn build(&self, payload: &[u8]) -> Result<Vec<u8>, MakeError> {
        let requests = self.requests;
        if self.source.is_null() && (!requests.whole || requests.report_delivery || requests.report_deletion) {
            return Err(MakeError::Anonymous);
        }
        let flags = Flags {
            do_not_fragment: requests.whole,
            app_ack_requested: requests.acknowledge,
            delivery_report_requested: requests.report_delivery,
            delete_report_requested: requests.report_deletion,
            ..Flags::default()
        };
        let time = self.created_ms.and_then(|ms| ms.checked_sub(DTN_EPOCH_MS)).filter(|ms| *ms > 0).map(DtnTime::new);
        let mut builder = Builder::new(self.source.clone(), self.destination.clone())
            .with_flags(flags)
            .with_report_to(self.report_to.clone().unwrap_or(Eid::Null))
            .with_lifetime(self.lifetime);
        if let Some(limit) = self.hop_limit {
            if limit == 0 {
                return Err(MakeError::HopLimit);
            }
            // Not the library's own, which asks for reports, and so cannot be in a bundle of nobody's.
            let hops = hardy_cbor::encode::emit(&HopInfo { limit: limit.into(), count: 0 }).0;
            builder = block(builder, Type::HopCount, hops)?;
        }
        if time.is_none() {
            let age = hardy_cbor::encode::emit(&0u64).0;
            let flags = BlockFlags { must_replicate: true, ..BlockFlags::default() };
            builder =
                builder.add_extension_block(Type::BundleAge).map_err(library)?.with_flags(flags).build(age.into());
        }
        let stamp = CreationTimestamp::from_parts(time, self.sequence);
        let (_, bytes) = builder.with_payload(payload.into()).build(stamp).map_err(library)?;
        Ok(bytes.into())
    }
}

/// With a block that every fragment gets.
fn block(builder: Builder<'_>, kind: Type, data: Vec<u8>) -> Result<Builder<'_>, MakeError> {
    let flags = BlockFlags { must_replicate: true, ..BlockFlags::default() };
    Ok(builder.add_extension_block(kind).map_err(library)?.with_flags(flags).build(data.into()))
}

fn library(error: hardy_bpv7::builder::Error) -> MakeError {
    MakeError::Library(error.to_string())
}
