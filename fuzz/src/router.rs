//! The router, with endpoints that come and go and frames from everywhere.

use std::collections::BTreeMap;

use aquila_proto::mavlink::router::{Filter, GroupId, RouterConfig, Verdict};
use aquila_proto::mavlink::{Address, EndpointConfig, EndpointId, EndpointKind, Frame, MessageId, Router, Version};

use crate::input::{Input, epoch};

/// HEARTBEAT, SYSTEM_TIME, PARAM_VALUE, ATTITUDE, MISSION_ITEM_INT, COMMAND_LONG, RADIO_STATUS, RADIO, BATTERY_STATUS,
/// SETUP_SIGNING.
const MESSAGES: [u32; 10] = [0, 2, 22, 30, 73, 76, 109, 166, 147, 256];
const RADIO_STATUS: [MessageId; 2] = [MessageId(109), MessageId(166)];
const SETUP_SIGNING: MessageId = MessageId(256);

/// A list of steps: endpoints are added and removed, time passes, frames are routed.
pub fn router(data: &[u8]) {
    let mut input = Input(data);
    let flags = input.u8();
    let config = RouterConfig {
        forward_setup_signing: flags & 1 != 0,
        relay_between_remotes: flags & 2 != 0,
        ..RouterConfig::default()
    };
    let mut router = Router::new(config.clone());
    let mut endpoints: BTreeMap<EndpointId, EndpointConfig> = BTreeMap::new();
    let (mut now, mut out) = (epoch(), Vec::new());
    while !input.is_empty() {
        match input.below(16) {
            0..=2 => {
                let id = EndpointId(input.below(24) as u32);
                let config = endpoint(&mut input);
                let added = router.add_endpoint(now, id, config.clone());
                assert_eq!(added.is_ok(), !endpoints.contains_key(&id));
                endpoints.entry(id).or_insert(config);
            }
            3 => {
                let id = EndpointId(input.below(24) as u32);
                router.remove_endpoint(id);
                endpoints.remove(&id);
            }
            4 => now += input.step(),
            _ => {
                let from = EndpointId(input.below(24) as u32);
                let Some(frame) = frame(&mut input) else { continue };
                let verdict = router.route(now, from, &frame, &mut out);
                assert_eq!(verdict == Verdict::Forward, !out.is_empty());
                check(&config, &endpoints, from, &frame, &out);
            }
        }
        while router.poll_event().is_some() {}
    }
    assert!(router.routes(now).all(|(_, id, _)| endpoints.contains_key(&id)));
    assert!(router.autopilots(now).all(|(_, id, _)| endpoints[&id].kind == EndpointKind::Local));
}

fn endpoint(input: &mut Input<'_>) -> EndpointConfig {
    let bits = input.u8();
    let kind = if bits & 3 == 0 { EndpointKind::Remote } else { EndpointKind::Local };
    let mut config = EndpointConfig::new(kind);
    if bits & 0x0c == 0x0c {
        config.group = Some(GroupId(u16::from(bits >> 6)));
    }
    if bits & 0x30 == 0x30 {
        let id = MessageId(MESSAGES[input.below(MESSAGES.len())]);
        match input.below(4) {
            0 => config.incoming = Filter::new().block([id]),
            1 => config.incoming = Filter::new().allow([id]),
            2 => config.outgoing = Filter::new().block([id]),
            _ => config.outgoing = Filter::new().allow([id]),
        }
    }
    config
}

/// A frame of a message that the router treats in a special way, with any content, or whatever parses.
fn frame(input: &mut Input<'_>) -> Option<Frame> {
    let kind = input.below(MESSAGES.len() + 1);
    let Some(id) = MESSAGES.get(kind) else { return Some(Frame::parse(input.short_bytes()).ok()?.0) };
    let bits = input.u8();
    let version = if bits & 1 == 0 { Version::V2 } else { Version::V1 };
    let source = Address::new(bits >> 1 & 7, bits >> 4 & 3);
    Frame::build(version, bits >> 6, source, MessageId(*id), input.short_bytes()).ok()
}

/// The promises of the router's documentation.
fn check(
    config: &RouterConfig,
    endpoints: &BTreeMap<EndpointId, EndpointConfig>,
    from: EndpointId,
    frame: &Frame,
    out: &[EndpointId],
) {
    let Some(source) = endpoints.get(&from) else { return assert!(out.is_empty(), "from nowhere") };
    let id = frame.message_id();
    let mut groups = Vec::from_iter(source.group);
    for (index, to) in out.iter().enumerate() {
        let target = &endpoints[to];
        assert!(*to != from && !out[..index].contains(to), "back, or twice");
        assert!(target.outgoing.passes(id) && source.incoming.passes(id), "filtered");
        if let Some(group) = target.group {
            assert!(!groups.contains(&group), "two of a group");
            groups.push(group);
        }
        let crosses = EndpointKind::Remote == source.kind || EndpointKind::Remote == target.kind;
        assert!(!crosses || !RADIO_STATUS.contains(&id), "describes one hop only");
        assert!(!crosses || id != SETUP_SIGNING || config.forward_setup_signing, "secret");
        let both = source.kind == EndpointKind::Remote && target.kind == EndpointKind::Remote;
        assert!(!both || config.relay_between_remotes, "from vehicle to vehicle");
    }
}
