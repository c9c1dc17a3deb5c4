//! `aquila check`: says what a configuration file means, or what is wrong with it.

use std::io::{self, Write};
use std::path::Path;

use aquila_net::bearer::Source;
use aquila_net::camera::CameraSetup;
use aquila_net::encoder::{EncoderKind, EncoderSetup, Sizes};
use aquila_net::gateway::TunSpec;
use aquila_net::mavlink::EndpointSpec;
use aquila_net::mule::{Reach, Role as MuleRole};
use aquila_net::radio::LineSpec;
use aquila_proto::cc::EncoderRange;
use aquila_proto::mavlink::Treatment;
use aquila_proto::mavlink::treatment::message_named;
use aquila_proto::replication::Reliability;
use aquila_proto::session::Side;
use aquila_proto::video::{ReassemblerConfig, VideoParity};

use crate::args::CheckArgs;
use crate::config::{
    self, Carried, Environment, GatewaySettings, GatewaySide, MuleProgram, MuleSettings, Role, Settings, VideoSettings,
};
use crate::keys;

/// Checks the file and writes what it means for a side to `out`. Gives false if it cannot be used for the side asked for,
/// or without one for neither.
pub fn run(args: &CheckArgs, environment: &Environment, out: &mut impl Write) -> anyhow::Result<bool> {
    let file = config::load(&args.file)?;
    let sides = match args.side {
        Some(side) => vec![side.into()],
        None => vec![Side::Air, Side::Ground],
    };
    let mut usable = false;
    for side in sides {
        match Settings::resolve(file.clone(), side, environment) {
            Ok(settings) => {
                usable = true;
                writeln!(out, "{}: good for {}", args.file.display(), settings.side.name())?;
                describe(&settings, out)?;
                for message in file.mavlink.overrides.keys() {
                    let Treatment { class, delivery } = settings.policy.treatment(message_named(message)?);
                    writeln!(out, "  override   {message} travels as {}, {delivery:?}", class.name())?;
                }
            }
            Err(error) => writeln!(out, "{}: not for {}: {error}", args.file.display(), side.name())?,
        }
    }
    if args.side.is_none() && file.gateway != Default::default() && !file.gateway.goes_by_link() {
        match GatewaySettings::resolve(file.clone(), environment) {
            Ok(settings) => {
                usable = true;
                writeln!(out, "{}: good for a gateway", args.file.display())?;
                describe_gateway(&settings, out)?;
            }
            Err(error) => writeln!(out, "{}: not for a gateway: {error}", args.file.display())?,
        }
    }
    if args.side.is_none() && (file.mule.peers.is_some() || file.mule.cast.is_some() || file.mule.hear.is_some()) {
        for role in [MuleRole::Node, MuleRole::Carrier, MuleRole::Shore] {
            match MuleProgram::resolve(file.clone(), role, environment) {
                Ok(program) => {
                    usable = true;
                    writeln!(out, "{}: good for a {} of files", args.file.display(), role.name())?;
                    describe_mule(&program.mule, out)?;
                }
                Err(error) => writeln!(out, "{}: not for a {} of files: {error}", args.file.display(), role.name())?,
            }
        }
    }
    Ok(usable)
}

fn describe_mule(mule: &MuleSettings, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "  files      {} in {}", mule.role.name(), mule.store.display())?;
    for peer in &mule.peers {
        let partner = peer.partner(mule.role);
        let goes = match (partner.gives_to, partner.takes_from) {
            (true, true) => "files go both ways",
            (true, false) => "gets files",
            (false, true) => "gives files",
            (false, false) => "nothing goes either way",
        };
        let how = match &peer.reach {
            Reach::At(remote) => format!("at {remote}"),
            Reach::Listen(address) => format!("comes to {address}"),
            Reach::Discover => "is looked for".into(),
        };
        writeln!(out, "  store      {}: {goes}, {how}{}", partner.name, if peer.radio { ", by radio" } else { "" })?;
    }
    for cast in &mule.casts {
        writeln!(out, "  cast       {cast}")?;
    }
    for hear in &mule.hears {
        writeln!(out, "  hear       {hear}")?;
    }
    for air in mule.airs() {
        match keys::load_shared(&air.key) {
            Ok(key) => writeln!(out, "  shared key {} of {}", key.fingerprint(), air.name())?,
            Err(error) => writeln!(out, "  warning    {error}")?,
        }
    }
    if let Some(spool) = &mule.spool {
        writeln!(out, "  spool      {}", spool.folder.display())?;
        for rule in &spool.rules {
            writeln!(out, "  spool rule {rule}")?;
        }
    }
    if let Some(shore) = &mule.shore {
        match &shore.folder {
            Some(folder) => writeln!(out, "  deliver    to {}", folder.display())?,
            None => writeln!(out, "  deliver    as bundles")?,
        }
    }
    for key in &mule.sources {
        writeln!(out, "  source     {}", key.fingerprint())?;
    }
    for key in &mule.shores {
        writeln!(out, "  shore      {}", key.fingerprint())?;
    }
    Ok(())
}

fn describe_gateway(settings: &GatewaySettings, out: &mut impl Write) -> io::Result<()> {
    let side = if settings.side == GatewaySide::Air { "air" } else { "ground" };
    writeln!(out, "  side       {side}")?;
    writeln!(out, "  peer       {}", settings.peer.fingerprint())?;
    writeln!(out, "  radio      {}", settings.radio.name())?;
    describe_carried(&settings.carried, &settings.state, out)
}

fn describe_carried(carried: &Carried, state: &Path, out: &mut impl Write) -> io::Result<()> {
    for forward in &carried.forwards {
        writeln!(out, "  forward    {forward}, {}", forward.treatment(&carried.rules))?;
    }
    for intercept in &carried.intercepts {
        writeln!(out, "  intercept  {intercept}, reliable")?;
    }
    if let Some(tun) = carried.tun.clone().or_else(|| (!carried.intercepts.is_empty()).then(TunSpec::default)) {
        writeln!(out, "  tun        {tun}")?;
    }
    for allow in &carried.allow {
        writeln!(out, "  allow      {allow}")?;
    }
    let limits = &carried.limits;
    writeln!(
        out,
        "  custody    {} bytes of one connection, {} of all, {} connections, in {}",
        limits.flow_custody.0,
        limits.total_custody.0,
        limits.max_flows,
        state.display(),
    )
}

fn describe(settings: &Settings, out: &mut impl Write) -> io::Result<()> {
    let link = &settings.link;
    match keys::load(&settings.key) {
        Ok(identity) if identity.public() == settings.peer => {
            writeln!(out, "  warning    [identity] peer is our own public key; it must be the other side's")?;
        }
        Ok(identity) => writeln!(out, "  we are     {}", identity.public().fingerprint())?,
        Err(error) => writeln!(out, "  warning    {error}")?,
    }
    writeln!(out, "  peer       {}", settings.peer.fingerprint())?;
    let interface = link.bind_interface.as_deref().map_or(String::new(), |name| format!(" through {name}"));
    match &link.role {
        Role::Listen(address) => writeln!(out, "  link       listens at {address}{interface}")?,
        Role::Connect(remote) => writeln!(out, "  link       connects to {remote}{interface}")?,
        Role::ConnectByRadio => writeln!(out, "  link       connects by radio only")?,
    }
    for radio in &link.radios {
        writeln!(out, "  radio      {radio}, called {}, {:.1} kbit/s", radio.name(), radio.rate().0 as f64 / 1e3)?;
        if let LineSpec::Serial { device, .. } = &radio.line
            && !device.exists()
        {
            writeln!(out, "  warning    there is no {} now; it will be waited for", device.display())?;
        }
    }
    for (bearer, number) in link.bearers.iter().zip(0..) {
        let name = bearer.name();
        writeln!(out, "  bearer {number}   {bearer}, called {name}")?;
        if let Source::Interface(interface) = &bearer.source
            && !Path::new("/sys/class/net").join(interface).exists()
        {
            writeln!(out, "  warning    there is no interface {interface} now; it will be waited for")?;
        }
    }
    writeln!(out, "  packets    {} bytes of UDP payload at most", link.mtu)?;
    writeln!(out, "  state      {}", link.state.display())?;
    settings.mule.as_ref().map_or(Ok(()), |mule| describe_mule(mule, out))?;
    settings.gateway.as_ref().map_or(Ok(()), |carried| describe_carried(carried, &settings.link.state, out))?;
    for endpoint in &settings.endpoints {
        writeln!(out, "  mavlink    {endpoint}")?;
        if let EndpointSpec::Serial { path, .. } = endpoint
            && !path.exists()
        {
            writeln!(out, "  warning    there is no {} now; it will be waited for", path.display())?;
        }
    }
    let yes = |yes| if yes { "yes" } else { "no" };
    writeln!(out, "  autopilot  slowed by RADIO_STATUS: {}", yes(settings.radio_status))?;
    writeln!(out, "  signing    SETUP_SIGNING crosses the link: {}", yes(settings.forward_setup_signing))?;
    if let Some(modem) = &settings.link.modem {
        writeln!(out, "  modem      {modem}")?;
    }
    let control = &settings.control;
    writeln!(
        out,
        "  control    commands are kept for {:?}, setpoints for {:?}, heartbeats for {:?}",
        control.command_age, control.setpoint_age, control.liveness_age,
    )?;
    let classes: Vec<_> = settings.replicated.iter().map(|class| class.name()).collect();
    let Reliability { failure, deadline, repeats, budget } = settings.reliability;
    match classes.is_empty() {
        true => writeln!(out, "  copies     nothing is replicated")?,
        false => writeln!(
            out,
            "  copies     of {}: fails within {deadline:?} by a chance of {failure:e}, is repeated by one of {repeats:e}, for {} kbit/s at most",
            classes.join(" and "),
            budget.0 / 1000,
        )?,
    }
    writeln!(out, "  congestion {}", settings.congestion.name())?;
    describe_video(&settings.video, out)?;
    match settings.status {
        Some((address, _)) => writeln!(out, "  status     http://{address}/"),
        None => writeln!(out, "  status     not served"),
    }
}

fn describe_video(video: &VideoSettings, out: &mut impl Write) -> io::Result<()> {
    for (flow, spec) in &video.inputs {
        let queue = &video.queues[usize::from(flow.number())];
        writeln!(
            out,
            "  camera     {spec} as flow {flow}, queue of {} frames, {} bytes, {:?}",
            queue.max_frames, queue.max_bytes.0, queue.max_age,
        )?;
    }
    let sizes = |sizes: &Sizes| if *sizes == Sizes::Same { String::new() } else { format!(", in {sizes}") };
    if let Some(CameraSetup { pipeline, sizes: own, h265, intra_refresh }) = &video.camera {
        let h265 = if *h265 { ", which may be one for H.265" } else { "" };
        let refresh = if *intra_refresh { ", refreshed bit by bit after losses where the encoder can" } else { "" };
        writeln!(out, "  films      {pipeline}{h265}{}{refresh}", sizes(own))?;
    }
    if let Some(EncoderSetup { spec, kind, sizes: own }) = &video.encoder {
        let kind = if *kind == EncoderKind::Unknown { String::new() } else { format!(", {kind}") };
        writeln!(out, "  encoder    {spec}{kind}{}", sizes(own))?;
    }
    if !video.inputs.is_empty() {
        let EncoderRange { least, most, .. } = video.range;
        match video.camera.is_some() || video.encoder.is_some() {
            true => writeln!(out, "  pictures   of {} to {} kbit/s", least.0 / 1000, most.0 / 1000)?,
            false => writeln!(
                out,
                "  pictures   of as many bits as their camera makes: nothing tells it what the link carries"
            )?,
        }
        let VideoParity { share, frames, repeat } = video.parity;
        let parity = if share > 0.0 { format!("{share} of it over {frames} frames") } else { "none".to_owned() };
        let repeats = if repeat { "; what is lost is sent again" } else { "" };
        writeln!(out, "  parity     {parity}{repeats}")?;
    }
    for spec in &video.outputs {
        let ReassemblerConfig { reorder_time, max_frame_age, .. } = video.reassembly;
        writeln!(out, "  viewer     {spec}, reordering for {reorder_time:?}, nothing older than {max_frame_age:?}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::SideArg;
    use crate::testing::{PEER, TempDir};

    fn check(text: &str, side: Option<SideArg>) -> (anyhow::Result<bool>, String) {
        let dir = TempDir::new("check");
        let file = dir.join("aquila.toml");
        std::fs::write(&file, text).unwrap();
        let environment = Environment { state: Some(dir.join("state")), ..Environment::default() };
        let mut out = Vec::new();
        let result = run(&CheckArgs { file, side }, &environment, &mut out);
        (result, String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_file_for_the_ground_is_told_from_one_for_the_air() {
        let text = format!("[identity]\npeer = '{PEER}'");
        let (usable, out) = check(&text, None);
        assert!(usable.unwrap());
        for wanted in ["good for ground", "not for air", "connect", "listens at [::]:9400", "aquila keys generate"] {
            assert!(out.contains(wanted), "{wanted} in {out}");
        }
        assert!(!check(&text, Some(SideArg::Air)).0.unwrap());
    }

    #[test]
    fn a_gateway_is_explained() {
        let text = format!(
            "[identity]\npeer = '{PEER}'\n[gateway]\nside = 'air'\nradio = '/dev/ttyUSB0:57600'\nforwards = ['tcp/2222:127.0.0.1:22']\nintercepts = ['tcp/10.20.0.5:22>127.0.0.1']"
        );
        let (usable, out) = check(&text, None);
        assert!(usable.unwrap());
        for wanted in [
            "good for a gateway",
            "tcp/127.0.0.1:2222:127.0.0.1:22, near-reliable",
            "tcp/10.20.0.5/32:22>127.0.0.1, reliable",
            "aquila0,198.18.72.1/30",
            "tcp/127.0.0.0/8:*",
            "ttyUSB0",
        ] {
            assert!(out.contains(wanted), "{wanted} in {out}");
        }
    }

    #[test]
    fn what_goes_by_the_link_is_explained() {
        let text = format!("[identity]\npeer = '{PEER}'\n[gateway]\nallow = ['tcp/127.0.0.1:22']");
        let (usable, out) = check(&text, None);
        assert!(usable.unwrap());
        assert!(out.contains("allow      tcp/127.0.0.1/32:22") && !out.contains("gateway:"), "{out}");
    }

    #[test]
    fn what_makes_pictures_is_explained() {
        let text = format!(
            "[identity]\npeer = '{PEER}'\n[link]\nconnect = 'host'\n[video]\nencoder = 'majestic:root:secret@10.0.0.9'\nencoder_most = '4Mbit/s'\nparity = 0.1\nrepeat = true"
        );
        let (usable, out) = check(&text, Some(SideArg::Air));
        assert!(usable.unwrap(), "{out}");
        for wanted in
            ["majestic:root:...@10.0.0.9", "pictures   of 200 to 4000 kbit/s", "0.1 of it over 4 frames; what is lost"]
        {
            assert!(out.contains(wanted), "{wanted} in {out}");
        }
        assert!(!out.contains("secret"), "{out}");
        let text = text.replace(
            "majestic:root:secret@10.0.0.9'",
            "exec:cat'\nencoder_kind = 'x264'\nsizes = ['1280x720@30:900', '640x360@30:0']",
        );
        let (_, out) = check(&text, Some(SideArg::Air));
        assert!(out.contains("exec:cat, x264, in sizes 1280x720@30:900 640x360@30:0"), "{out}");
        let (_, out) = check(&text.replace("'1280x720@30:900', '640x360@30:0'", "'auto'"), Some(SideArg::Air));
        assert!(out.contains("exec:cat, x264, in sizes that are best for the encoder"), "{out}");
    }

    #[test]
    fn overrides_are_explained() {
        let text = format!("[identity]\npeer = '{PEER}'\n[mavlink.overrides]\nATTITUDE = 'command'");
        assert!(check(&text, None).1.contains("ATTITUDE travels as control, Reliable"));
    }

    #[test]
    fn mistakes_name_file_and_line() {
        let error = check("[link]\nmtuu = 1200", None).0.unwrap_err().to_string();
        assert!(error.contains("aquila.toml:2:1: unknown field `mtuu`"), "{error}");
    }

    #[test]
    fn a_serial_line_that_is_not_there_is_a_warning() {
        let text = format!(
            "[identity]\npeer = '{PEER}'\n[link]\nconnect = 'host'\n[mavlink]\nendpoints = ['serial:/dev/no-such:57600']"
        );
        let (usable, out) = check(&text, Some(SideArg::Air));
        assert!(usable.unwrap() && out.contains("no /dev/no-such now"), "{out}");
    }
}
