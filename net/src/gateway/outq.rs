//! What of a TCP socket's bytes its peer has yet to acknowledge: SIOCOUTQ (tcp(7)).

#![allow(unsafe_code, reason = "ioctl has no safe form")]

use std::io;
use std::os::fd::AsRawFd;

use nix::libc;

nix::ioctl_read_bad!(outq, libc::TIOCOUTQ, libc::c_int);

/// Bytes written that are not acknowledged; a FIN counts as one.
pub(super) fn unacknowledged(socket: &impl AsRawFd) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the request writes an int where it is told, which lives until the call returns.
    unsafe { outq(socket.as_raw_fd(), &raw mut bytes) }?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}
