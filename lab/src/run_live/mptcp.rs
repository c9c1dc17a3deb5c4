//! MPTCP over all links of a plan: the kernel is told which addresses may be used.

use std::io;
use std::process::Command;

use crate::live::{End, LinkId, NodeId, World};

/// Whether the kernel has it.
pub fn is_there() -> bool {
    std::fs::read_to_string("/proc/sys/net/mptcp/enabled").is_ok_and(|enabled| enabled.trim() == "1")
}

/// Lets a connection over the first link add the others. The second node says that it can be reached over them, too;
/// the first then connects there, from its own address of the same link.
///
/// # Errors
/// If `ip` of iproute2 is missing, or refuses.
pub fn allow(world: &World, nodes: [NodeId; 2], links: &[LinkId]) -> io::Result<()> {
    let count = links.len().min(8).to_string();
    for (node, id) in nodes.into_iter().enumerate() {
        ip(world, id, &["mptcp", "limits", "set", "subflow", &count, "add_addr_accepted", &count])?;
        if node == 0 {
            continue;
        }
        for link in links.iter().skip(1) {
            let address = world.addresses(*link, End::B).v4.to_string();
            ip(world, id, &["mptcp", "endpoint", "add", &address, "dev", world.link_name(*link), "signal"])?;
        }
    }
    Ok(())
}

fn ip(world: &World, node: NodeId, arguments: &[&str]) -> io::Result<()> {
    let mut command = Command::new("ip");
    command.args(arguments);
    let output = world.run_in(node, move || command.output());
    let output = output
        .map_err(|error| io::Error::new(error.kind(), format!("ip (package iproute2) cannot be run: {error}")))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(io::Error::other(format!("ip {}: {said}", arguments.join(" "))))
        }
    }
}
