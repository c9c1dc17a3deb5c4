//! What is kept of a flow until the far side has it: where, the caller decides.

use super::FlowId;
use super::frame::Reason;
use super::target::Target;

/// Whom a flow goes to and who opened it: what must be known to take it up again after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deed {
    /// Which flow.
    pub flow: FlowId,
    /// We opened it. Else the other side did.
    pub ours: bool,
    /// Whom it goes to, at the side that did not open it.
    pub target: Target,
}

/// A flow that was in custody when the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// What it is.
    pub deed: Deed,
    /// All before it has been taken.
    pub released: u64,
    /// All before it is stored.
    pub end: u64,
    /// The application had closed there.
    pub fin: bool,
}

/// What could not be stored; nothing of it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot store what is in custody: {0}")]
pub struct StorageError(pub String);

/// Storage of what is in custody. What a call has returned from survives a crash of the program.
pub trait Custody {
    /// What was there when the program began.
    fn load(&mut self) -> Vec<Kept>;

    /// Flows that have ended, the oldest first, and why; `None`: both sides had everything, and so much was taken.
    fn load_ended(&mut self) -> Vec<(FlowId, Option<Reason>, u64)>;

    /// A flow begins.
    ///
    /// # Errors
    /// If that cannot be stored.
    fn begin(&mut self, deed: &Deed) -> Result<(), StorageError>;

    /// Bytes at the end of a flow.
    ///
    /// # Errors
    /// If they cannot be stored; then none of them are.
    fn append(&mut self, flow: FlowId, bytes: &[u8]) -> Result<(), StorageError>;

    /// The application has closed.
    ///
    /// # Errors
    /// If that cannot be stored.
    fn finish(&mut self, flow: FlowId) -> Result<(), StorageError>;

    /// At most `max` bytes from `offset` on; fewer only at the end of a record.
    ///
    /// # Errors
    /// If they cannot be read.
    fn read(&mut self, flow: FlowId, offset: u64, max: usize) -> Result<Vec<u8>, StorageError>;

    /// All before `offset` has been taken, and need not be kept.
    fn release(&mut self, flow: FlowId, offset: u64);

    /// A flow has ended: nothing of it need be kept, but for flows of the other side that it has.
    fn end(&mut self, flow: FlowId, remember: Option<(Option<Reason>, u64)>);
}
