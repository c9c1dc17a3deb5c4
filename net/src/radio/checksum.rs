//! The socket option SO_NO_CHECK, which neither `socket2` nor `nix` has.

#![allow(unsafe_code, reason = "setsockopt has no safe form for this option")]

use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd;

use nix::libc;

/// UDP packets over IPv4 leave this socket without a checksum: what is damaged on the way is handed over.
///
/// # Errors
/// What the system says.
pub fn without(socket: &impl AsRawFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the option's value is an int, which lives until the call returns, and `len` is its size.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, (&raw const on).cast(), len)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
