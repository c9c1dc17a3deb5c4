//! Boundaries of the send queue.
