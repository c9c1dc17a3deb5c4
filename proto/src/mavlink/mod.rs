//! MAVLink framing, classification and routing.
