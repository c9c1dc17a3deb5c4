//! The link emulator, sans-IO.
