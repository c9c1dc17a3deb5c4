//! The TUN device of connections that are passed through: made, given addresses and routes, read and written.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use aquila_proto::gateway::{Intercept, TunConfig};
use netlink_packet_route::route::RouteMessage;
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use rtnetlink::{LinkUnspec, RouteMessageBuilder};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::intercept::TunSpec;
use crate::attach::{attach_tun, watched};

/// Why there is no device.
#[derive(Debug, thiserror::Error)]
pub enum TunError {
    /// `/dev/net/tun` cannot be opened.
    #[error("cannot open /dev/net/tun{hint}", hint = match .0.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT | Errno::ENODEV | Errno::ENXIO) => " (load the module with `modprobe tun`, or give the container \
            the device)",
        Some(Errno::EACCES | Errno::EPERM) => " (run as root, or let everybody open it, as most systems do: `chmod 666 \
            /dev/net/tun`)",
        _ => "",
    })]
    Device(#[source] io::Error),
    /// The interface cannot be made.
    #[error("cannot make the interface {0}{hint}", hint = match .1.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EPERM) => NEEDS,
        Some(Errno::EBUSY) => " (another program has one of this name: choose another with --tun)",
        _ => "",
    })]
    Interface(String, #[source] io::Error),
    /// It cannot be given what it needs.
    #[error("cannot give the interface {interface} {what}{hint}", hint = match .error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EPERM) => NEEDS,
        Some(Errno::EEXIST) => " (there is one already: see `ip address` and `ip route`)",
        _ => "",
    })]
    Setting {
        /// Its name.
        interface: String,
        /// An address, a route, or what else.
        what: String,
        /// Why not.
        #[source]
        error: io::Error,
    },
}

const NEEDS: &str = " (this needs CAP_NET_ADMIN: run as root, or `setcap cap_net_admin+ep` the program, or write \
                     AmbientCapabilities=CAP_NET_ADMIN in its systemd unit)";
/// Longest packet: any kernel's segments fit, and nothing is gained by longer ones.
const MTU: u16 = 1500;

/// Packets that wait in the device for us: a window of short ones.
const QUEUE: u32 = 2000;

/// A device in use. It goes when dropped, with its addresses and routes.
#[derive(Debug)]
pub(super) struct Tun {
    device: Arc<AsyncFd<File>>,
    task: JoinHandle<()>,
    /// Packets that the device did not take.
    pub refused: u64,
    /// Targets on this machine's loopback can be reached.
    pub reaches_loopback: bool,
}

impl Tun {
    /// Makes the device; what comes goes to `packets`. Must be called within a tokio runtime.
    pub async fn open(
        spec: &TunSpec,
        intercepts: &[Intercept],
        packets: mpsc::Sender<Vec<u8>>,
    ) -> Result<(Self, TunConfig), TunError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(nix::libc::O_NONBLOCK)
            .open("/dev/net/tun")
            .map_err(TunError::Device)?;
        let name = &spec.name;
        attach_tun(&file, name).map_err(|error| TunError::Interface(name.clone(), error))?;
        let index = if_nametoindex(name.as_str()).map_err(|error| TunError::Interface(name.clone(), error.into()))?;
        let v6 = prepare(spec, index, intercepts).await?;
        // Packets from the device to 127.0.0.0/8 are not martians; those are all ours. There is no such thing for ::1.
        let loopback = set(&format!("ipv4/conf/{name}/route_localnet"), "1");
        let device = watched(file).map_err(TunError::Device)?;
        let device = Arc::new(device);
        let task = tokio::spawn(receive(Arc::clone(&device), packets));
        let config = TunConfig {
            mtu: MTU,
            v4: spec.v4.map(|(address, _)| TunSpec::own(address)),
            v6: spec.v6.filter(|_| v6).map(|(address, _)| TunSpec::own(address)),
            intercepts: intercepts.to_vec(),
        };
        Ok((Self { device, task, refused: 0, reaches_loopback: loopback.is_ok() }, config))
    }

    /// Writes a packet. What the device does not take is lost, as on a wire.
    pub fn send(&mut self, packet: &[u8]) {
        self.refused += u64::from(self.device.get_ref().write(packet).is_err());
    }
}

impl Drop for Tun {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn receive(device: Arc<AsyncFd<File>>, packets: mpsc::Sender<Vec<u8>>) {
    let mut buffer = vec![0; usize::from(u16::MAX)];
    loop {
        match device.async_io(Interest::READABLE, |mut file| file.read(&mut buffer)).await {
            Ok(len) => {
                if packets.send(buffer[..len].to_vec()).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the TUN device is gone");
                return;
            }
        }
    }
}

/// Whether it has IPv6, which a machine may be without.
async fn prepare(spec: &TunSpec, index: u32, intercepts: &[Intercept]) -> Result<bool, TunError> {
    let failed = |what: String| {
        let interface = spec.name.clone();
        move |error: io::Error| TunError::Setting { interface, what, error }
    };
    let (connection, handle, _) = rtnetlink::new_connection().map_err(failed("anything".to_owned()))?;
    let driver = tokio::spawn(connection);
    // Link-local addresses bring router solicitations, which nobody has asked for.
    let _ = set(&format!("ipv6/conf/{}/addr_gen_mode", spec.name), "1");
    let up = LinkUnspec::new_with_index(index).mtu(MTU.into()).txqueuelen(QUEUE).up().build();
    handle
        .link()
        .set(up)
        .execute()
        .await
        .map_err(|error| failed("a length and a queue".to_owned())(io_error(error)))?;
    let mut v6 = false;
    let addresses =
        [spec.v4.map(|(ip, bits)| (IpAddr::V4(ip), bits)), spec.v6.map(|(ip, bits)| (IpAddr::V6(ip), bits))];
    for (address, bits) in addresses.into_iter().flatten() {
        match handle.address().add(index, address, bits).execute().await {
            Ok(()) => v6 |= address.is_ipv6(),
            Err(error) if address.is_ipv6() && !intercepts.iter().any(|one| one.network.is_ipv6()) => {
                tracing::warn!(%error, %address, "no IPv6 for connections that are passed through");
            }
            Err(error) => return Err(failed(format!("the address {address}/{bits}"))(io_error(error))),
        }
    }
    let mut routed = Vec::new();
    for Intercept { network, bits, .. } in intercepts {
        if routed.contains(&(network, bits)) {
            continue; // Other ports of it.
        }
        let added = handle.route().add(route(*network, *bits, index)).execute().await;
        added.map_err(|error| failed(format!("the route to {network}/{bits}"))(io_error(error)))?;
        routed.push((network, bits));
    }
    driver.abort();
    Ok(v6)
}

fn route(network: IpAddr, bits: u8, index: u32) -> RouteMessage {
    match network {
        IpAddr::V4(network) => RouteMessageBuilder::<std::net::Ipv4Addr>::new()
            .destination_prefix(network, bits)
            .output_interface(index)
            .build(),
        IpAddr::V6(network) => RouteMessageBuilder::<std::net::Ipv6Addr>::new()
            .destination_prefix(network, bits)
            .output_interface(index)
            .build(),
    }
}

fn io_error(error: rtnetlink::Error) -> io::Error {
    match error {
        rtnetlink::Error::NetlinkError(message) => io::Error::from_raw_os_error(-message.raw_code()),
        error => io::Error::other(error.to_string()),
    }
}

fn set(key: &str, value: &str) -> io::Result<()> {
    std::fs::write(format!("/proc/sys/net/{key}"), value)
}
