//! Video: RTP to frames to fragments and back.
