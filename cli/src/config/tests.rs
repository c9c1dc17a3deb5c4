//! Files with mistakes, command lines over files, and the sample.

use aquila_net::encoder::EncoderKind;
use aquila_net::gateway::Allow;
use aquila_net::mule::Role as MuleRole;
use aquila_proto::cc::EncoderRange;
use aquila_proto::mavlink::{Delivery, MessageId, lookup_name};
use aquila_proto::session::Side;
use aquila_proto::{Bitrate, Class};
use clap::Parser;

use super::*;
use crate::args::{Cli, Command};
use crate::testing::PEER;

const SAMPLE: &str = include_str!("../../../packaging/aquila.toml");

fn read(text: &str) -> Result<File, LoadError> {
    parse(Path::new("dir/aquila.toml"), text)
}

fn environment() -> Environment {
    Environment { state: Some("/state".into()), ..Environment::default() }
}

/// What `text` means for `side`, with a peer, and for the air with an address to connect to, if it names none.
fn resolve(text: &str, side: Side) -> Result<Settings, Invalid> {
    let mut file = read(text).unwrap_or_else(|error| panic!("{error}"));
    file.identity.peer.get_or_insert_with(|| Text(PEER.parse().unwrap()));
    if side == Side::Air && file.link.listen.is_none() {
        file.link.connect.get_or_insert_with(|| Text("ground".parse().unwrap()));
    }
    Settings::resolve(file, side, &environment())
}

#[test]
fn a_line_with_a_mistake_is_shown_without_its_password() {
    for line in [
        r#"encoder = "majestic:root:p\w secret@cam""#,
        r#"encoder = "majestic:root:secret@cam/""#,
        r#"encoder = "majestic:root:se"cret@cam""#,
    ] {
        let error = read(&format!("[video]\n{line}")).expect_err(line).to_string();
        assert!(
            error.contains(":2:") && error.contains(r#"encoder = "majestic:..."#) && !error.contains("cret"),
            "{error}"
        );
    }
}

fn shown(settings: &Settings) -> String {
    format!("{settings:?}")
}

#[test]
fn mistakes_in_a_file_name_line_and_column_and_what_is_right() {
    for (text, place, hints) in [
        ("[link]\nmtu = 1200\nmtuu = 1300\n", "dir/aquila.toml:3:1: ", &["unknown field `mtuu`", "`mtu`"][..]),
        ("[lnk]\n", "dir/aquila.toml:1:2: ", &["unknown field `lnk`", "`link`"]),
        ("[link]\n  mtu = 1100", "dir/aquila.toml:2:9: ", &["1200", "RFC 9000", "WireGuard", "1420", "1280"]),
        ("[link]\nmtu = \"1200\"", "dir/aquila.toml:2:7: ", &["string"]),
        ("[link]\nheartbeat = 100", "dir/aquila.toml:2:13: ", &["in quotes"]),
        ("[control]\nsetpoint_age = '5s'", "dir/aquila.toml:2:16: ", &["from 50ms to 2s"]),
        ("[identity]\npeer = 'me'", "dir/aquila.toml:2:8: ", &["aquila keys show"]),
        // Of a list, the place is its beginning, and the message says which entry.
        ("[mavlink]\nendpoints = [\n  'udpin:0.0.0.0:1',\n  'udp:1',\n]", "dir/aquila.toml:2:13: ", &["`udp:1`"]),
        ("[video]\ninputs = ['http://x']", "dir/aquila.toml:2:11: ", &["rtp://ADDRESS:PORT"]),
        ("[mavlink.overrides]\nHEARTBEAT = 'bulk'", "dir/aquila.toml:2:13: ", &["command", "setpoint", "transaction"]),
        ("[video]\nqueue_frames = 0", "dir/aquila.toml:2:16: ", &["from 1 to 10000"]),
        ("# é\n[link]\nlisten = '", "dir/aquila.toml:3:11: ", &[]),
        ("[link]\nmtu = 1200\nmtu = 1300", "dir/aquila.toml:3:1: ", &["duplicate"]),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.starts_with(place), "{text}\n{error}");
        for hint in hints {
            assert!(error.contains(hint), "{text}\n{error}");
        }
    }
    assert!(load(Path::new("/no/such/file")).unwrap_err().to_string().contains("/no/such/file"));
}

#[test]
fn keys_that_contradict_each_other_are_refused_with_what_to_write() {
    for (text, side, hint) in [
        ("[link]\nlisten = '[::]:1'\nconnect = 'h'", Side::Ground, "one side listens"),
        ("[link]\nlisten = '[::]:0'", Side::Ground, "9400"),
        ("[link]\nlost_after = '200ms'", Side::Ground, "must grow"),
        ("[link]\nheartbeat = '250ms'", Side::Ground, "must grow"),
        ("[link]\nbind_interface = 'wwan0/1'", Side::Ground, "ip link"),
        ("[link]\nbind_interface = 'sixteen_letters_'", Side::Ground, "1 to 15"),
        ("[link]\nbind_interface = 'wwan0'", Side::Air, "bearers = [\"wwan0\"]"),
        ("[link]\nbearers = ['wwan0']", Side::Ground, "the side that connects"),
        ("[link]\nbearers = ['wwan0', 'wwan0,backup']", Side::Air, "name=other"),
        ("[link]\nbearers = ['a', 'b']\nmodem = 'mmcli:0'", Side::Air, "of which bearer"),
        ("[mavlink]\nendpoints = ['udpin:0.0.0.0:1', 'udpin:0.0.0.0:1']", Side::Air, "twice"),
        ("[mavlink.overrides]\nNO_SUCH_MESSAGE = 'state'", Side::Air, "NO_SUCH_MESSAGE"),
        ("[video]\ninputs = [':1', ':1']", Side::Air, "port of its own"),
        ("[video]\ninputs = [':1', ':2?flow=0']", Side::Air, "flow 0 twice"),
        ("[video]\noutputs = [':5600']", Side::Ground, "127.0.0.1:5600"),
        ("[video]\nsizes = ['1280x720@30:0']", Side::Air, "exec:COMMAND"),
        ("[video]\nencoder = 'v4l2:/dev/video0'\nsizes = ['1280x720@30:0']", Side::Air, "exec:COMMAND"),
        ("[video]\nencoder_kind = 'x264'", Side::Air, "exec:COMMAND"),
        ("[video]\nencoder = 'v4l2:/dev/video0'\nencoder_kind = 'x264'", Side::Air, "\"rekeying\" for v4l2:"),
        ("[video]\nencoder = 'majestic:camera'\nencoder_kind = 'rekeying'", Side::Air, "no difference"),
        ("[video]\nh265 = true", Side::Air, "... ! encoder"),
        ("[video]\nintra_refresh = true\nencoder = 'exec:x'", Side::Air, "intra_refresh is for camera"),
        ("[video]\nencoder_least = '2Mbit/s'\nencoder_most = '1Mbit/s'", Side::Air, "above encoder_most"),
        ("[video]\nencoder = 'exec:x'\nsizes = ['1280x720@30:0', '640x360@30:500']", Side::Air, "out of place"),
        ("[video]\nencoder = 'exec:x'\nsizes = ['auto', '640x360@30:0']", Side::Air, "stands alone"),
        ("[log]\nlevel = 'a=b=c'", Side::Ground, "debug"),
    ] {
        let error = resolve(text, side).expect_err(text).to_string();
        assert!(error.contains(hint), "{text}\n{error}");
    }
    assert!(resolve("[link]\nbind_interface = 'fifteen_letters'", Side::Ground).is_ok());
    let nobody = Settings::resolve(File::default(), Side::Ground, &environment()).unwrap_err();
    assert!(nobody.to_string().contains("aquila keys show"));
    let peer = || read(&format!("[identity]\npeer = '{PEER}'")).unwrap();
    assert_eq!(Settings::resolve(peer(), Side::Air, &environment()).unwrap_err(), Invalid::NoRole);
    let homeless = Settings::resolve(peer(), Side::Ground, &Environment::default());
    assert_eq!(homeless.unwrap_err(), Invalid::NoState);
}

#[test]
fn the_range_of_an_encoder_is_as_it_is_configured_and_follows_as_its_kind_does() {
    let range = |text: &str| resolve(text, Side::Air).unwrap().video.range;
    assert_eq!(range(""), EncoderRange::default());
    let given = range(
        "[video]\nencoder = 'exec:x'\nencoder_kind = 'x264'\nencoder_least = '300kbit/s'\nencoder_most = '4Mbit/s'",
    );
    let wanted = EncoderKind::X264.range(Bitrate::kbps(300), Bitrate::mbps(4));
    assert_eq!(given, wanted);
    assert!(wanted.response.rise < 1.0);
    assert!(range("[video]\nencoder = 'v4l2:/dev/video0'\nencoder_kind = 'rekeying'").rekeys);
    assert!(!range("[video]\nencoder = 'v4l2:/dev/video0'").rekeys);
}

#[test]
fn replication_is_as_it_is_configured() {
    let text = "[replication]\nclasses = ['control', 'telemetry']\nfailure = 1e-9\ndeadline = '250ms'\nrepeats = 0.01\nbudget = '1Mbit/s'";
    let settings = resolve(text, Side::Air).unwrap();
    assert_eq!(settings.replicated, [Class::Control, Class::Telemetry]);
    let wanted = aquila_proto::replication::Reliability {
        failure: 1e-9,
        deadline: std::time::Duration::from_millis(250),
        repeats: 0.01,
        budget: Bitrate::mbps(1),
    };
    assert_eq!(settings.reliability, wanted);
    for (text, hint) in [
        ("[replication]\nclasses = ['video']", "`control`"),
        ("[replication]\nfailure = 0.0", "above 0"),
        ("[replication]\nfailure = 1.0", "below 1"),
        ("[link]\nbearers = ['eth0,cheap']", "backup"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(hint), "{text}: {error}");
    }
    let many: Vec<_> = (0..17).map(|n| format!("'eth{n}'")).collect();
    let error = resolve(&format!("[link]\nbearers = [{}]", many.join(", ")), Side::Air).unwrap_err();
    assert_eq!(error, Invalid::TooManyBearers);
}

#[test]
fn each_side_has_defaults_that_suit_it() {
    let air = resolve("", Side::Air).unwrap();
    assert_eq!(air.link.role, Role::Connect(Remote { host: "ground".to_owned(), port: 9400 }));
    assert_eq!(air.endpoints, ["udpin:127.0.0.1:14550".parse().unwrap()]);
    assert_eq!((air.video.inputs.len(), air.video.outputs.len(), air.video.queues.len()), (1, 0, 1));
    assert_eq!(air.video.inputs[0].1.to_string(), "rtp://0.0.0.0:5600");

    let ground = resolve("", Side::Ground).unwrap();
    assert_eq!(ground.link.role, Role::Listen("[::]:9400".parse().unwrap()));
    assert_eq!(ground.endpoints, ["udpout:127.0.0.1:14550".parse().unwrap()]);
    assert_eq!((ground.video.inputs.len(), ground.video.queues.len()), (0, 0));
    assert_eq!(ground.video.outputs[0].to_string(), "rtp://127.0.0.1:5600");
    assert_eq!((ground.key.to_str(), ground.link.mtu), (Some("/state/identity.key"), 1200));
    assert_eq!((ground.status, ground.forward_setup_signing, ground.radio_status), (None, false, true));
}

#[test]
fn overrides_change_how_a_message_travels() {
    let text = "[mavlink.overrides]\nATTITUDE = 'command'\n42000 = 'setpoint'\nHEARTBEAT = 'transaction'";
    let policy = resolve(text, Side::Air).unwrap().policy;
    let treatment = |name| policy.treatment(lookup_name(name).unwrap().id);
    assert_eq!((treatment("ATTITUDE").class, treatment("ATTITUDE").delivery), (Class::Control, Delivery::Reliable));
    assert_eq!(treatment("HEARTBEAT").class, Class::Telemetry);
    assert_eq!(policy.treatment(MessageId(42_000)).delivery, Delivery::Setpoint);
}

/// As the sample says: what is replicated is Control, and a message becomes that by its name or its number.
#[test]
fn a_single_message_is_replicated_if_it_is_made_control() {
    let plain = resolve("", Side::Air).unwrap();
    assert_eq!(plain.replicated, [Class::Control]);
    let ids = [lookup_name("NAMED_VALUE_INT").unwrap().id, MessageId(42_000)];
    for id in ids {
        assert_eq!(plain.policy.treatment(id).class, Class::Telemetry, "{id:?}, if nothing is said");
    }
    for treatment in ["command", "setpoint"] {
        let by_name = format!("[mavlink.overrides]\nNAMED_VALUE_INT = '{treatment}'\n42000 = '{treatment}'");
        let by_number = format!("[mavlink.overrides]\n'{}' = '{treatment}'\n'42000' = '{treatment}'", ids[0].0);
        for text in [by_name, by_number] {
            let settings = resolve(&text, Side::Air).unwrap();
            assert_eq!(ids.map(|id| settings.policy.treatment(id).class), [Class::Control; 2], "{text}");
            assert_eq!(settings.replicated, [Class::Control]);
        }
    }
}

#[cfg(feature = "gstreamer")]
#[test]
fn the_session_knows_how_the_encoder_that_was_chosen_follows() {
    for (h265, software) in [(false, EncoderKind::X264), (true, EncoderKind::X265)] {
        let text = format!("[video]\ncamera = 'videotestsrc ! encoder'\nh265 = {h265}\nencoder_most = '4Mbit/s'");
        let video = resolve(&text, Side::Air).unwrap().video;
        let EncoderRange { least, most, .. } = video.range;
        let video = match video.with_encoder() {
            Ok(video) => video,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let kind = video.camera.unwrap().kind();
        assert_eq!(video.range, kind.range(least, most));
        // Where there is hardware, that is chosen, and not known.
        assert!([software, EncoderKind::Unknown].contains(&kind), "{kind}");
    }
}

#[test]
fn cameras_have_flows_and_queues_of_their_own() {
    let text = "[video]\ninputs = [':1?codec=h264', ':2?flow=3&codec=h265']\nqueue_age = '100ms'\nqueue_bytes = '1MiB'";
    let video = resolve(text, Side::Air).unwrap().video;
    assert_eq!(video.inputs.iter().map(|(flow, _)| flow.number()).collect::<Vec<_>>(), [0, 3]);
    let codecs: Vec<_> = video.queues.iter().map(|queue| queue.codec.name()).collect();
    assert_eq!(codecs, ["h264", "auto", "auto", "h265"]);
    assert_eq!(video.queues[3].max_age.as_millis(), 100);
    assert_eq!(video.queues[3].max_bytes.0, 1 << 20);
}

#[test]
fn the_command_line_goes_before_the_file() {
    let mut file = read(
        "[link]\nlisten = '[::]:1'\nmtu = 1300\n[mavlink]\nendpoints = ['udpin:0.0.0.0:1']\n[status]\nlisten = '127.0.0.1:1'",
    )
    .unwrap();
    let line = format!(
        "aquila air --peer {PEER} --connect host:2 --mtu 1400 --mavlink serial:/dev/x:57600 -m tcpin:127.0.0.1:5 \
         --video-in :7?codec=h265 --video-out 127.0.0.1:8 --status 127.0.0.1:9 --log debug --key /k --state /s \
         --bearer wwan0 --bearer 192.0.2.7@relay:9400,metered,name=sat --controller scream"
    );
    let Command::Air(args) = Cli::parse_from(line.split_whitespace()).command else { panic!("not air") };
    args.override_file(&mut file);
    let settings = Settings::resolve(file, Side::Air, &environment()).unwrap();
    assert_eq!(settings.link.role, Role::Connect("host:2".parse().unwrap()));
    assert_eq!((settings.link.mtu, settings.link.bind_interface), (1400, None));
    let bearers: Vec<_> = settings.link.bearers.iter().map(ToString::to_string).collect();
    assert_eq!(bearers, ["wwan0", "192.0.2.7@relay:9400,metered,name=sat"]);
    let endpoints: Vec<_> = settings.endpoints.iter().map(ToString::to_string).collect();
    assert_eq!(endpoints, ["serial:/dev/x:57600", "tcpin:127.0.0.1:5"]);
    assert_eq!(settings.video.inputs[0].1.to_string(), "rtp://0.0.0.0:7?codec=h265");
    assert_eq!(settings.status.unwrap().0, "127.0.0.1:9".parse().unwrap());
    assert_eq!((settings.key.to_str(), settings.link.state.to_str()), (Some("/k"), Some("/s")));
    assert_eq!(settings.log, "debug");
    assert_eq!(settings.congestion.name(), "scream");

    let mut file = read("[link]\nmtu = 1300").unwrap();
    crate::args::LinkArgs::default().override_file(&mut file);
    assert_eq!(file, read("[link]\nmtu = 1300").unwrap(), "what is not given changes nothing");
}

#[test]
fn a_controller_has_a_table_of_its_own_and_its_parameters_count_when_it_is_chosen() {
    use aquila_proto::cc::{CongestionConfig, PaperConfig};
    let table = "[congestion.paper]\nkappa = 2\nd_base = '50ms'\nr_safe = '30kbit/s'\nrtt_gain = 0.5\nmin_window = 4\nmax_window = '1MB'\nmss = '1200B'\ninitial_rtt = '200ms'";
    assert_eq!(resolve(table, Side::Air).unwrap().congestion, CongestionConfig::default());
    for (name, made) in [
        ("paper", CongestionConfig::Paper as fn(PaperConfig) -> CongestionConfig),
        ("paper-literal", CongestionConfig::PaperLiteral),
    ] {
        let text = format!("[congestion]\ncontroller = '{name}'\n{table}");
        let congestion = resolve(&text, Side::Air).unwrap().congestion;
        let expected = PaperConfig {
            kappa: 2.0,
            d_base: std::time::Duration::from_millis(50),
            r_safe: aquila_proto::Bitrate::kbps(30),
            rtt_gain: 0.5,
            min_window: 4,
            max_window: aquila_proto::ByteCount(1_000_000),
            mss: aquila_proto::ByteCount(1200),
            initial_rtt: std::time::Duration::from_millis(200),
            ..PaperConfig::default()
        };
        assert_eq!(congestion, made(expected), "{name}");
    }
    for (text, hint) in [
        ("[congestion]\ncontroller = 'reno'", "there are fpv2, paper"),
        ("[congestion.paper]\nkapa = 1", "`kappa`"),
        ("[congestion.paper]\nbeta = 1.5", "from 0 to 1"),
        ("[congestion.scream]\nrate_pace_min = 50000", "in quotes"),
        ("[congestion.cubic]\ninitial_window = '1kB'", "from 2400"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(hint), "{text}: {error}");
    }
}

/// `(section, key, line)` of each key in the sample, all of which are commented out.
fn sample_keys() -> Vec<(&'static str, &'static str, &'static str)> {
    let mut section = "";
    let mut keys = Vec::new();
    for line in SAMPLE.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if let Some(line) = line.strip_prefix('#')
            && let Some((key, _)) = line.split_once(" = ")
            && key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        {
            keys.push((section, key, line));
        }
    }
    keys
}

/// What `text` means for a gateway that has all it must.
fn shown_gateway(text: &str) -> String {
    let mut file = read(text).unwrap_or_else(|error| panic!("{error}"));
    file.identity.peer.get_or_insert_with(|| Text(PEER.parse().unwrap()));
    file.gateway.side.get_or_insert(GatewaySide::Air);
    file.gateway.radio.get_or_insert_with(|| Text("/dev/ttyUSB0:57600".parse().unwrap()));
    format!("{:?}", GatewaySettings::resolve(file, &environment()).unwrap())
}

/// What `text` means for a carrier of files.
fn shown_mule(text: &str) -> String {
    let file = read(text).unwrap_or_else(|error| panic!("{error}"));
    format!("{:?}", MuleProgram::resolve(file, MuleRole::Carrier, &environment()).unwrap())
}

#[test]
fn stores_of_files_say_what_they_lack_and_whom_they_believe() {
    let other = "aq1:3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";
    let resolve_as = |text: &str, role| MuleProgram::resolve(read(text).unwrap(), role, &environment());
    for (text, role, hint) in [
        ("", MuleRole::Shore, "--deliver"),
        ("[mule]\ndeliver = '/srv'", MuleRole::Node, "this is a node"),
        ("[mule]\ndeliver = '/srv'\nspool = '/data'", MuleRole::Shore, "spool"),
        ("[mule]\nspool_rules = ['*,priority=1']", MuleRole::Node, "there is none"),
        (&format!("[mule]\npeers = ['{PEER}', '{PEER},radio']"), MuleRole::Carrier, "twice"),
        ("[log]\nlevel = '=='", MuleRole::Carrier, "[log]"),
        ("[mule]\nbundles_listen = '127.0.0.1:4556'", MuleRole::Node, "--bundles-node"),
        ("[mule]\ndeliver = '/srv'\ncast = ['udp:239.255.94.11:9411,rate=2M,key=k']", MuleRole::Shore, "to nobody"),
        ("[mule]\nhear = ['udp:239.255.94.11:9411,key=k']", MuleRole::Node, "takes nothing"),
        ("[mule]\nhear = ['udp:0.0.0.0:1,key=k', 'udp:0.0.0.0:1,key=l']", MuleRole::Carrier, "0.0.0.0:1 twice"),
        ("[mule]\nbundles_to = ['*=127.0.0.1:4556']", MuleRole::Node, "this is a node"),
        ("[mule]\ndeliver = '/srv'\nbundles_files = 'dtn://lab/in'", MuleRole::Shore, "exclude each other"),
        ("[mule]\nbundles_files = 'dtn://lab/in'", MuleRole::Shore, "none of bundles_to"),
        ("[mule]\nbundles_files = 'dtn://lab/in'", MuleRole::Carrier, "are for shores"),
        ("[mule]\ndeliver = '/srv'\nbundles_listen = '127.0.0.1:4556'", MuleRole::Shore, "this is a shore"),
    ] {
        let error = resolve_as(text, role).unwrap_err().to_string();
        assert!(error.contains(hint), "{text}: {error}");
    }
    let text =
        "[mule]\nbundles_node = 'dtn://b/'\nbundles_to = ['dtn://lab/*=lab:4556']\nbundles_files = 'dtn://lab/in'";
    let shore = resolve_as(text, MuleRole::Shore).unwrap().mule;
    assert_eq!(shore.shore.map(|shore| shore.folder), Some(None), "files leave as bundles");
    assert_eq!(shore.bundles.unwrap().files.unwrap().to_string(), "dtn://lab/in");
    let text = format!("[mule]\npeers = ['{PEER}@ship:9410,radio', '{other}@office:9410,shore']");
    let carrier = resolve_as(&text, MuleRole::Carrier).unwrap().mule;
    assert_eq!(carrier.sources, [PEER.parse().unwrap()], "what the node has is taken");
    assert_eq!(carrier.shores, [other.parse().unwrap()], "the shore is believed");
    // In the aircraft the ground station is a shore, and on the ground the aircraft a carrier.
    let air = resolve("[mule]\nlook = ['wlan0']", Side::Air).unwrap().mule.unwrap();
    assert_eq!((air.role, air.shores.len(), air.sources.len()), (MuleRole::Carrier, 1, 0));
    let ground = resolve("[mule]\ndeliver = '/srv'", Side::Ground).unwrap().mule.unwrap();
    assert_eq!((ground.role, ground.shores.len(), ground.sources.len()), (MuleRole::Shore, 0, 1));
    assert!(resolve("", Side::Ground).unwrap().mule.is_none());
}

#[test]
fn a_gateway_says_what_it_lacks_and_refuses_what_makes_no_sense() {
    let peer = format!("[identity]\npeer = '{PEER}'\n[gateway]\n");
    for (text, hint) in [("", "--radio"), ("radio = '/dev/ttyUSB0:57600'", "--side")] {
        let file = read(&format!("{peer}{text}")).unwrap();
        let error = GatewaySettings::resolve(file, &environment()).unwrap_err().to_string();
        assert!(error.contains(hint), "{text}: {error}");
    }
    for (text, hint) in [
        ("forwards = ['tcp/22']", "TARGET:PORT"),
        ("intercepts = ['udp/10.20.0.5:22']", "tcp/ADDRESS"),
        ("tun = 'aquila0,10.0.0.1'", "NAME[,ADDRESS/BITS]"),
        ("rules = ['tcp/22=reliable']", "--intercept"),
        ("rules = ['tcp/22=best']", "modes are near-reliable"),
        ("allow = ['tcp/host:22']", "ADDRESS[/BITS]:PORTS"),
        ("side = 'left'", "`air` or `ground`"),
        ("max_flows = 0", "from 1 to 1000"),
    ] {
        let error = read(&format!("[gateway]\n{text}")).unwrap_err().to_string();
        assert!(error.contains(hint), "{text}: {error}");
    }
}

#[test]
fn a_gateway_without_a_radio_goes_by_the_link() {
    let gateway = |text: &str| resolve(&format!("[gateway]\n{text}"), Side::Ground).unwrap().gateway;
    for text in ["", "rules = ['tcp/22=near-reliable']", "max_flows = 9", "side = 'air'"] {
        assert!(gateway(text).is_none(), "{text}: nothing is carried");
    }
    let forwards = "forwards = ['tcp/2222:127.0.0.1:22']";
    assert!(gateway(&format!("{forwards}\nradio = '/dev/ttyUSB0:57600'")).is_none(), "its radio is its own");
    let carried = gateway(forwards).unwrap();
    assert_eq!((carried.forwards.len(), carried.allow), (1, Allow::loopback()));
    let carried = gateway("allow = ['tcp/127.0.0.1:22']").unwrap();
    assert_eq!((carried.forwards.len(), carried.allow.len()), (0, 1));

    // What is given on the command line goes by the link, whatever the file has for `aquila gateway`.
    let mut file = read(&format!("[identity]\npeer = '{PEER}'\n[gateway]\nradio = '/dev/ttyUSB0:57600'")).unwrap();
    let line = "aquila ground --forward tcp/1:127.0.0.1:2 --forward udp/3:127.0.0.1:4";
    let Command::Ground(args) = Cli::parse_from(line.split_whitespace()).command else { panic!("not ground") };
    args.override_file(&mut file);
    assert_eq!(Settings::resolve(file, Side::Ground, &environment()).unwrap().gateway.unwrap().forwards.len(), 2);
}

#[test]
fn the_sample_says_nothing_but_defaults() {
    assert_eq!(read(SAMPLE).unwrap(), File::default());
    let without_default = [
        ("identity", "key"),
        ("identity", "peer"),
        ("link", "connect"),
        ("link", "bind_interface"),
        ("link", "modem"),
        ("link", "bearers"),
        ("link", "radios"),
        ("link", "state"),
        ("gateway", "side"),
        ("gateway", "radio"),
        ("gateway", "forwards"),
        ("gateway", "intercepts"),
        ("gateway", "tun"),
        ("gateway", "rules"),
        ("mule", "store"),
        ("mule", "peers"),
        ("mule", "spool"),
        ("mule", "spool_rules"),
        ("mule", "deliver"),
        ("mule", "quota"),
        ("mule", "announce"),
        ("mule", "look"),
        ("mule", "cast"),
        ("mule", "hear"),
        ("mule", "bundles_node"),
        ("mule", "bundles_listen"),
        ("mule", "bundles_to"),
        ("mule", "bundles_files"),
        ("status", "listen"),
        ("video", "camera"),
        ("video", "encoder"),
        ("video", "encoder_kind"),
        ("video", "sizes"),
    ];
    let defaults = [Side::Air, Side::Ground].map(|side| (side, shown(&resolve("", side).unwrap())));
    for (section, key, line) in sample_keys() {
        let text = format!("[{section}]\n{line}");
        if without_default.contains(&(section, key)) {
            read(&text).unwrap_or_else(|error| panic!("{error}"));
            continue;
        }
        if section == "gateway" {
            assert_eq!(shown_gateway(&text), shown_gateway(""), "not a default: [{section}] {line}");
            continue;
        }
        if section == "mule" {
            assert_eq!(shown_mule(&text), shown_mule("[mule]"), "not a default: [{section}] {line}");
            continue;
        }
        if let Some(controller) = section.strip_prefix("congestion.") {
            // What is said of a controller counts when it is chosen.
            let chosen = format!("[congestion]\ncontroller = '{controller}'\n");
            let [with, without] = [format!("{chosen}{text}"), chosen].map(|text| resolve(&text, Side::Air).unwrap());
            assert_eq!(shown(&with), shown(&without), "not a default: [{section}] {line}");
            continue;
        }
        let is_default = |(side, default): &(Side, String)| resolve(&text, *side).is_ok_and(|s| shown(&s) == *default);
        assert!(defaults.iter().any(is_default), "not a default: [{section}] {line}");
    }
}

#[test]
fn the_sample_has_every_key() {
    /// The names that serde expected where it found another.
    fn expected(text: &str) -> Vec<String> {
        let error = read(text).unwrap_err().to_string();
        let message = error.lines().next().unwrap();
        let (_, names) = message.split_once("expected ").unwrap_or_else(|| panic!("{message}"));
        names.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }
    let sample = sample_keys();
    let sections = expected("[no_such_section]");
    assert_eq!(sections.len(), 11);
    for section in sections {
        for key in expected(&format!("[{section}]\nno_such_key = 1")) {
            let inner = format!("{section}.{key}");
            if sample.iter().any(|(s, ..)| *s == inner) {
                for key in expected(&format!("[{inner}]\nno_such_key = 1")) {
                    let mentioned = sample.iter().any(|(s, k, _)| (*s, *k) == (inner.as_str(), key.as_str()));
                    assert!(mentioned, "[{inner}] {key} is not in the sample");
                }
                continue;
            }
            let mentioned = sample.iter().any(|(s, k, _)| (*s, *k) == (section.as_str(), key.as_str()));
            assert!(mentioned, "[{section}] {key} is not in the sample");
        }
    }
}
