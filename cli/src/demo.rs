//! `aquila demo`.

mod table;
mod view;

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use aquila_emu::Profile;
use aquila_emu::synth::Model;
use aquila_lab::demo::{Demo, DemoConfig, Happening, Now, Report, SET_UP_TIME};
use aquila_net::node::NodeEvent;
use aquila_proto::{LinkState, Side};

use crate::args::DemoArgs;
use crate::link::termination;
use view::{Ending, View};

/// The display is drawn this often; without one, a line is logged this often.
const REDRAW: Duration = Duration::from_millis(200);
const LOG_EVERY: Duration = Duration::from_secs(2);

/// Flies. The result goes to `out`; an error means that the link did not work.
pub fn run(args: &DemoArgs, out: &mut Vec<u8>) -> anyhow::Result<()> {
    let links = links(args).ok_or_else(|| anyhow!(unknown_profile(&args.profile)))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let report = runtime.block_on(fly(args, links))?;
    if args.json {
        serde_json::to_writer(&mut *out, &report)?;
        out.push(b'\n');
    } else {
        table::write(out, &report)?;
    }
    match report.failures.is_empty() {
        true => Ok(()),
        false => Err(anyhow!("the link did not work: {}", report.failures.join("; "))),
    }
}

/// Names of the profiles and what they stand for.
pub fn list_profiles(out: &mut Vec<u8>) -> io::Result<()> {
    for name in Profile::names() {
        let profile = Profile::by_name(name).expect("names are known");
        writeln!(out, "{name:<10} {}", profile.describe())?;
    }
    writeln!(out, "\nmade up, another flight with each --seed:")?;
    for name in Model::names() {
        let model = Model::by_name(name).expect("names are known");
        writeln!(out, "{name:<10} {}, {} ms one way", model.summary, model.delay.as_millis())?;
    }
    Ok(())
}

/// Whether there is a profile of this name.
pub fn is_profile(name: &str) -> bool {
    Profile::by_name(name).is_some() || Model::by_name(name).is_some()
}

/// What to say to a name that there is not.
pub fn unknown_profile(name: &str) -> String {
    let known: Vec<_> = Profile::names().chain(Model::names()).collect();
    format!("there is no profile '{name}': choose one of {}; --profile list describes them", known.join(", "))
}

/// The profile of each bearer's link.
fn links(args: &DemoArgs) -> Option<Vec<Profile>> {
    (0..args.bearers).map(|number| profile(args, args.seed.wrapping_add(number.into()))).collect()
}

/// A profile with what happens in it, or a made-up flight that is long enough.
fn profile(args: &DemoArgs, seed: u64) -> Option<Profile> {
    let flight = Duration::from_secs(args.seconds.into()) + SET_UP_TIME;
    let made_up = || Some(Profile::made_up(&Model::by_name(&args.profile)?, seed, flight));
    Profile::by_name(&args.profile).or_else(made_up)
}

async fn fly(args: &DemoArgs, links: Vec<Profile>) -> anyhow::Result<Report> {
    let profile = links.first().cloned().context("no link")?;
    let mut config = DemoConfig::new(profile.clone());
    (config.links, config.seed, config.status) = (links, args.seed, args.status);
    config.radio = args.radio;
    config.flight = Duration::from_secs(args.seconds.into());
    let mut demo = Demo::start(config)?;
    let began = Instant::now();
    let ends = began + Duration::from_secs(args.seconds.into());
    let live = !args.headless && !args.json && io::stdout().is_terminal();
    let mut view = if live { Some(View::open(&profile, args.bearers)?) } else { None };
    if view.is_none() {
        eprintln!("link: {}", profile.describe());
        if args.bearers > 1 {
            eprintln!("{} bearers with such a link each; the one that carries video will be cut", args.bearers);
        }
        eprintln!("MAVLink on UDP 14550 and video on UDP 5600 for whoever wants to join in; {} s", args.seconds);
    }
    let mut ticks = tokio::time::interval(REDRAW);
    let mut logged = began;
    let termination = termination(true)?;
    tokio::pin!(termination);
    while Instant::now() < ends {
        tokio::select! {
            _ = ticks.tick() => {}
            () = &mut termination => break,
        }
        let now = demo.now();
        while let Some(event) = demo.poll_event() {
            let text = describe(&event);
            match &mut view {
                Some(view) => view.add_event(now.elapsed, text),
                None => eprintln!("{:6.1} s  {text}", now.elapsed.as_secs_f64()),
            }
        }
        if demo.has_failed() {
            break;
        }
        if let Some(view) = &mut view {
            if view.draw(&now, Duration::from_secs(args.seconds.into()))? == Ending::Asked {
                break;
            }
        } else if logged.elapsed() >= LOG_EVERY {
            logged = Instant::now();
            eprintln!("{}", line(&now));
        }
    }
    drop(view);
    Ok(demo.finish(&profile))
}

fn describe(event: &Happening) -> String {
    match event {
        Happening::Node(side, event) => describe_node(*side, event),
        Happening::Cut(bearer) => format!("demo: {bearer} is cut, in both directions"),
        Happening::Returned(bearer) => format!("demo: {bearer} is there again"),
    }
}

fn describe_node(side: Side, event: &NodeEvent) -> String {
    let side = side.name();
    match event {
        NodeEvent::State(LinkState::Up, silence) if silence.as_millis() > 0 => format!("{side}: link up"),
        NodeEvent::State(state, silence) => {
            format!("{side}: link {} (last word {:.2} s ago)", state.name(), silence.as_secs_f64())
        }
        NodeEvent::Connected(remote, resumed) => {
            let to = remote.map_or_else(|| "by radio".to_owned(), |remote| format!("to {remote}"));
            format!("{side}: connected {to}{}", if *resumed { " by 0-RTT" } else { "" })
        }
        NodeEvent::BearerState(bearer, state, silence) => {
            format!("{side}: {bearer} {} after {} ms of silence", state.name(), silence.as_millis())
        }
        NodeEvent::Rerouted(class, bearer) => format!("{side}: {} goes by {bearer}", class.name()),
        NodeEvent::Disconnected(reason) => format!("{side}: disconnected: {reason}"),
        NodeEvent::PeerMoved(from, to) => format!("{side}: the other side moved from {from} to {to}"),
    }
}

fn line(now: &Now) -> String {
    let ms = |value: Option<Duration>| value.map_or("-".into(), |value| format!("{:.0}", value.as_secs_f64() * 1e3));
    let bearers = now.bearers.iter().map(|bearer| format!("; {}", table::bearer_in_short(bearer)));
    format!(
        "{:6.1} s  link {}, video {:.2} Mbit/s, C2 up {} ms, down {} ms over propagation, picture {} ms old{}",
        now.elapsed.as_secs_f64(),
        match (now.out, now.capacity) {
            (true, _) => "OUT".to_owned(),
            (_, Some(capacity)) => format!("{:.2} Mbit/s", capacity.as_mbps()),
            (_, None) => "without limit".to_owned(),
        },
        now.target.as_mbps(),
        ms(now.commands.0),
        ms(now.commands.1),
        ms(now.picture.map(|(latency, _)| latency)),
        bearers.collect::<String>(),
    )
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::{Cli, Command};

    fn flight(line: &[&str]) -> Option<Vec<Profile>> {
        let parsed = <Cli as clap::Parser>::parse_from([&["aquila", "demo"], line].concat());
        let Command::Demo(args) = parsed.command else { panic!("no demo") };
        links(&args)
    }

    fn names() -> impl Iterator<Item = &'static str> {
        Profile::names().chain(Model::names())
    }

    #[test]
    fn every_profile_is_listed_and_in_the_help() {
        let mut list = Vec::new();
        list_profiles(&mut list).unwrap();
        let list = String::from_utf8(list).unwrap();
        let mut command = Cli::command();
        let help = command.find_subcommand_mut("demo").unwrap().render_long_help().to_string();
        for name in names() {
            assert!(list.lines().any(|line| line.split(' ').next() == Some(name)), "{name} in {list}");
            assert!(help.contains(name) && unknown_profile("x").contains(name), "{name}");
        }
        assert_eq!(names().filter(|name| !is_profile(name)).count(), 0);
        assert_eq!(Profile::names().filter(|name| Model::by_name(name).is_some()).count(), 0, "one name, two links");
    }

    #[test]
    fn a_seed_makes_a_flight_that_is_long_enough() {
        let seeded = |seed| flight(&["--profile", "uav", "--seconds", "3600", "--seed", seed]).unwrap().remove(0);
        assert!(seeded("1").cycle > Duration::from_secs(3600));
        assert_ne!(seeded("1").steps, seeded("2").steps);
        assert_eq!(flight(&[]).unwrap(), [Profile::by_name("handover").unwrap()]);
        assert_eq!(flight(&["--profile", "nonsense"]), None);
    }

    #[test]
    fn each_bearer_has_a_link_of_its_own() {
        let made_up = flight(&["--profile", "uav", "--seed", "7", "--bearers", "3"]).unwrap();
        assert_eq!(made_up[0], flight(&["--profile", "uav", "--seed", "7"]).unwrap()[0]);
        assert_eq!(made_up[1], flight(&["--profile", "uav", "--seed", "8"]).unwrap()[0]);
        assert_eq!(made_up.len(), 3);
        assert_eq!(flight(&["--bearers", "4"]).unwrap().len(), 4);
    }
}
