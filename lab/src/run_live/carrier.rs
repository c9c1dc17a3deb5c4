//! Where applications send to, and the program under test.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use super::{Places, command};
use crate::live::{End, LinkId, NodeId, Process, World};
use crate::plan::{ContenderKind, ContenderPlan};

/// Ports of the applications.
pub const MAVLINK: u16 = 14_551;
pub const CAMERA: u16 = 5_700;
pub const VIEWER: u16 = 5_701;
const LINK: u16 = 9_400;

/// How commands travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// In datagrams.
    Datagrams,
    /// On a TCP connection from the first node to the second, with this congestion control.
    Stream(&'static str),
}

/// Where the applications of each node send to.
#[derive(Debug, Clone)]
pub struct Target {
    /// How commands travel.
    pub way: Way,
    /// MAVLink, of each node.
    pub mavlink: [SocketAddr; 2],
    /// Video of the first node.
    pub video: SocketAddr,
    /// Where the second node's viewer listens.
    pub viewer: SocketAddr,
}

/// The target of a contender.
pub fn target(kind: ContenderKind, world: &World, link: LinkId) -> Target {
    let local = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let at = |end, port| SocketAddr::new(IpAddr::V4(world.addresses(link, end).v4), port);
    let any = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port);
    let direct = |way| Target {
        way,
        mavlink: [at(End::B, MAVLINK), at(End::A, MAVLINK)],
        video: at(End::B, VIEWER),
        viewer: any(VIEWER),
    };
    match kind {
        ContenderKind::Aquila => {
            Target { way: Way::Datagrams, mavlink: [local(MAVLINK); 2], video: local(CAMERA), viewer: local(VIEWER) }
        }
        ContenderKind::TcpReno => direct(Way::Stream("reno")),
        ContenderKind::Tcp => direct(Way::Stream("cubic")),
        _ => direct(Way::Datagrams),
    }
}

/// Starts the program under test at both nodes.
pub fn start_aquila(
    world: &World,
    nodes: [NodeId; 2],
    link: LinkId,
    plan: &ContenderPlan,
    places: &Places,
    folder: &Path,
) -> Result<Vec<Process>, String> {
    let key = |side: &str| folder.join(format!("{side}.key"));
    let mut public = Vec::new();
    for side in ["air", "ground"] {
        let path = key(side);
        let _ = std::fs::remove_file(&path);
        let run = |args: &[&str]| {
            let output = command(&places.binary).args(["keys"]).args(args).arg("--key").arg(&path).output();
            let output = output.map_err(|error| format!("cannot run {}: {error}", places.binary.display()))?;
            match output.status.success() {
                true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
                false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            }
        };
        run(&["generate"])?;
        public.push(run(&["show", "--public"])?);
    }
    let mut processes = Vec::new();
    for (side, node) in [(1, nodes[1]), (0, nodes[0])] {
        let name = ["air", "ground"][side];
        let mut program = command(&places.binary);
        program.arg(name).arg("--key").arg(key(name)).args(["--peer", &public[1 - side]]);
        program.arg("--state").arg(folder.join("state")).args(["--mtu", &plan.mtu.to_string()]);
        program.args(["--mavlink", &format!("udpin:127.0.0.1:{MAVLINK}"), "--log", "info"]);
        match side {
            0 => {
                program.args(["--connect", &format!("{}:{LINK}", world.addresses(link, End::B).v4)]);
                program.args(["--video-in", &format!("rtp://127.0.0.1:{CAMERA}")]);
            }
            _ => {
                program.args(["--listen", &format!("0.0.0.0:{LINK}")]);
                program.args(["--video-out", &format!("rtp://127.0.0.1:{VIEWER}")]);
            }
        }
        let log = folder.join(format!("{name}.log"));
        processes.push(world.spawn(node, name, program, &log).map_err(|error| error.to_string())?);
    }
    Ok(processes)
}
