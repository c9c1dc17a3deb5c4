//! Makes an open `/dev/net/tun` an interface: TUNSETIFF (Linux, Documentation/networking/tuntap.rst).

#![allow(unsafe_code, reason = "ioctl has no safe form, nor has tokio's way to wait for a descriptor")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use nix::libc;
use tokio::io::unix::AsyncFd;

/// Makes `tun`, just opened, the interface `name` of the calling thread's network namespace: IP packets as they are, no header of
/// the kernel's in front.
///
/// # Errors
/// The kernel's; [`io::ErrorKind::InvalidInput`] if the name is empty or longer than interfaces' are.
pub fn attach_tun(tun: &File, name: &str) -> io::Result<()> {
    if name.is_empty() || name.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: `ifreq` is plain old data, for which all zeros is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the descriptor is open, and the kernel reads and writes one `ifreq`, which lives until the call returns.
    let result = unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A device that can be waited for. Must be called within a tokio runtime.
pub(crate) fn watched(tun: File) -> io::Result<AsyncFd<File>> {
    // SAFETY: a `File` owns its descriptor, which is the same all its life, and open as long.
    unsafe { AsyncFd::register(tun) }.map_err(Into::into)
}
