//! Reading a plan, and refusing what makes no sense.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::time::Duration;

use aquila_emu::synth::Model;
use aquila_proto::cc::CongestionConfig;
use toml::Table;

use super::{
    ActionKind, ActionPlan, CheckPlan, CommandTraffic, ContenderKind, ContenderPlan, LinkPlan, Pace, PathPlan, Plan,
    Time, TrafficKind, TrafficPlan, Variant,
};
use crate::run::oracle::Oracle;

/// Why a plan cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// It cannot be read.
    #[error("cannot read the plan {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// Something in it is wrong.
    #[error("{}:{line}: {message}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What, and what would be right.
        message: String,
    },
    /// A variant of it is wrong.
    #[error("{}, with {variant}: {message}", path.display())]
    Variant {
        /// The file.
        path: PathBuf,
        /// Which.
        variant: String,
        /// What.
        message: String,
    },
}

/// Largest plan file, bytes.
const MAX_FILE: u64 = 1 << 20;
/// Variants of one plan, and repeats.
const MAX_VARIANTS: usize = 1_000;
const MAX_REPEATS: u32 = 10_000;
/// Times between grants, and between packets where they are thinned out.
const GRANTS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(10);
/// Others on the links of a contender.
const MAX_COMPANY: usize = 16;
/// Copies of a message on a link.
const MAX_COPIES: u32 = 16;
/// What an encoder takes for a picture.
const ENCODING: Duration = Duration::from_secs(1);
/// Longest name of a network interface (IFNAMSIZ less its end).
const MAX_NAME: usize = 15;

/// Reads the plan at `path`; gives all its variants.
///
/// # Errors
/// [`PlanError`], before anything starts.
pub fn load(path: &Path) -> Result<Vec<(Variant, Plan)>, PlanError> {
    let read = |path: &Path| {
        let size = std::fs::metadata(path)?.len();
        if size > MAX_FILE {
            return Err(std::io::Error::other(format!("{size} bytes are too many for a plan")));
        }
        std::fs::read_to_string(path)
    };
    let text = read(path).map_err(|error| PlanError::Read { path: path.to_owned(), error })?;
    parse(path, &text)
}

/// As [`load`], of a text that stands for the file at `path`.
///
/// # Errors
/// [`PlanError`].
pub fn parse(path: &Path, text: &str) -> Result<Vec<(Variant, Plan)>, PlanError> {
    let wrong = |span: Option<Range<usize>>, message: String| {
        let start = span.map_or(0, |span| span.start.min(text.len()));
        let line = text[..text.floor_char_boundary(start)].matches('\n').count() + 1;
        PlanError::Wrong { path: path.to_owned(), line, message }
    };
    let plan: Plan = toml::from_str(text).map_err(|error| wrong(error.span(), error.message().to_owned()))?;
    check(&plan).map_err(|(span, message)| wrong(span, message))?;
    let table: Table = toml::from_str(text).map_err(|error| wrong(error.span(), error.message().to_owned()))?;
    let variants = Variant::all(&plan.sweeps);
    if variants.is_empty() || variants.len() > MAX_VARIANTS {
        return Err(wrong(
            None,
            format!("the sweeps make {} variants: from 1 to {MAX_VARIANTS} can be run", variants.len()),
        ));
    }
    let never = |check: &&toml::Spanned<CheckPlan>| {
        let when = check.get_ref().when.as_ref();
        when.is_some_and(|when| !variants.iter().any(|variant| variant.has(when)))
    };
    if let Some(check) = plan.checks.iter().find(never) {
        let when = check.get_ref().when.as_deref().unwrap_or_default();
        return Err(wrong(Some(check.span()), format!("when: no variant has '{when}'")));
    }
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let with = |variant: Variant| {
        let in_variant =
            |message: String| PlanError::Variant { path: path.to_owned(), variant: variant.describe(), message };
        let mut table = table.clone();
        variant.apply(&mut table).map_err(in_variant)?;
        // By way of text: places in a file cannot be had from a table.
        let text = toml::to_string(&table).map_err(|error| in_variant(error.to_string()))?;
        let mut plan: Plan = toml::from_str(&text).map_err(|error| in_variant(error.message().to_owned()))?;
        check(&plan).map_err(|(_, message)| in_variant(message))?;
        plan.folder.clone_from(&folder);
        Ok((variant, plan))
    };
    match plan.sweeps.is_empty() {
        true => Ok(vec![(Variant::default(), Plan { folder: folder.clone(), ..plan })]),
        false => variants.into_iter().map(with).collect(),
    }
}

type Wrong = (Option<Range<usize>>, String);

fn check(plan: &Plan) -> Result<(), Wrong> {
    let lasts = plan.duration();
    require(lasts > Duration::ZERO, None, || "lasts: a run needs some time".into())?;
    let judged = lasts.checked_sub(plan.warm_up.get() + plan.cool_down.get()).is_some_and(|time| !time.is_zero());
    require(judged, None, || {
        "warm_up and cool_down (1 s if nothing is said) leave nothing of the run to judge".into()
    })?;
    require((1..=MAX_REPEATS).contains(&plan.repeats), None, || format!("repeats: from 1 to {MAX_REPEATS}"))?;
    require(plan.nodes[0] != plan.nodes[1], None, || "nodes: the two need different names".into())?;
    for name in &plan.nodes {
        require(is_name(name), None, || format!("nodes: '{name}' is not a name: letters, digits, - and _"))?;
    }
    if let Some(clocks) = &plan.clocks {
        let unknown = clocks.get_ref().keys().find(|node| !plan.nodes.contains(node));
        require(unknown.is_none(), Some(clocks.span()), || {
            format!("clocks: there is no node '{}'", unknown.map_or("", String::as_str))
        })?;
    }
    require(!plan.links.is_empty(), None, || "there is no [[link]]".into())?;
    let mut names = BTreeSet::new();
    for link in &plan.links {
        check_link(link.get_ref()).map_err(|message| (Some(link.span()), message))?;
        let name = &link.get_ref().name;
        require(names.insert(name.get_ref().as_str()), Some(name.span()), || {
            format!("two links are called {}", name.get_ref())
        })?;
    }
    require(!plan.contenders.is_empty(), None, || "there is no [[contender]]".into())?;
    let mut names = BTreeSet::new();
    for contender in &plan.contenders {
        let name = contender.get_ref().name();
        let distinct = is_name(name) && names.insert(name);
        require(distinct, Some(contender.span()), || {
            format!("contenders need different names without dots: '{name}'")
        })?;
        if let (Err(unknown), Some(at)) = (contender.get_ref().congestion(), &contender.get_ref().controller) {
            let known = [&CongestionConfig::NAMES[..], &Oracle::NAMES[..]].concat().join(", ");
            require(false, Some(at.span()), || format!("'{unknown}' is no controller; there are {known}"))?;
        }
        let knows_all = contender.get_ref().oracle().is_some();
        require(!(knows_all && plan.clocks.is_some()), Some(contender.span()), || {
            "clocks: who knows the link goes by the true time".into()
        })?;
        let mtu = contender.get_ref().mtu;
        require((1200..=9000).contains(&mtu), Some(contender.span()), || format!("mtu {mtu}: from 1200 to 9000"))?;
        check_copies(contender.get_ref()).map_err(|message| (Some(contender.span()), message))?;
    }
    for contender in &plan.contenders {
        check_company(plan, contender.get_ref())?;
    }
    let mut names = BTreeSet::new();
    for traffic in &plan.traffic {
        check_traffic(plan, traffic.get_ref()).map_err(|message| (Some(traffic.span()), message))?;
        let name = traffic.get_ref().name();
        let distinct = is_name(name) && names.insert(name);
        require(distinct, Some(traffic.span()), || format!("traffic needs different names without dots: '{name}'"))?;
    }
    for traffic in &plan.traffic {
        let data = traffic.get_ref().data().map(|data| data.0).unwrap_or_default();
        require(!names.contains(data.as_str()), Some(traffic.span()), || {
            format!("'{data}' is what goes with the commands: other traffic needs another name")
        })?;
    }
    for action in &plan.actions {
        check_action(plan, action.get_ref()).map_err(|message| (Some(action.span()), message))?;
    }
    let stages = [(&plan.set_ups, false), (&plan.processes, true), (&plan.tear_downs, false)];
    for (program, is_process) in stages.iter().flat_map(|(programs, stage)| programs.iter().map(|p| (p, *stage))) {
        let fault = program.get_ref().fault(plan, is_process);
        require(fault.is_none(), Some(program.span()), || fault.unwrap_or_default())?;
    }
    for check in &plan.checks {
        let bounds = check.get_ref();
        let some = bounds.max.is_some() || bounds.min.is_some();
        require(some, Some(check.span()), || format!("the check '{}' has neither max nor min", bounds.name))?;
    }
    Ok(())
}

fn require(holds: bool, span: Option<Range<usize>>, message: impl FnOnce() -> String) -> Result<(), Wrong> {
    if holds { Ok(()) } else { Err((span, message())) }
}

fn check_link(link: &LinkPlan) -> Result<(), String> {
    let name = link.name.get_ref();
    if !is_name(name) || name.len() > MAX_NAME || name == "lo" {
        return Err(format!("'{name}' cannot be the name of a link: up to {MAX_NAME} letters, digits, - and _"));
    }
    if link.both.is_some() && (link.up.is_some() || link.down.is_some()) {
        return Err(format!("link {name}: both, or up and down"));
    }
    if !(576..=9_100).contains(&link.mtu) {
        return Err(format!("link {name}: mtu {} is not from 576 to 9100", link.mtu));
    }
    for (direction, path) in ["up", "down"].into_iter().zip(link.paths()) {
        check_path(&path).map_err(|message| format!("link {name}, {direction}: {message}"))?;
    }
    Ok(())
}

fn check_path(path: &PathPlan) -> Result<(), String> {
    let kinds = [path.rate.is_some(), path.trace.is_some(), path.synth.is_some()];
    if kinds.into_iter().filter(|kind| *kind).count() > 1 {
        return Err("one of rate, trace and synth".into());
    }
    if (path.trace_from.is_some() || path.ccq.is_some()) && path.trace.is_none() && path.synth.is_none() {
        return Err("trace_from and ccq are for a trace".into());
    }
    if let Some(synth) = &path.synth
        && (Model::by_name(&synth.model).is_none() || synth.length.get() < Duration::from_secs(1))
    {
        let known: Vec<_> = Model::names().collect();
        return Err(format!("synth: a model of {}, and a length of a second or more", known.join(", ")));
    }
    if let Some(queue) = &path.queue {
        queue.bound()?;
        if queue.codel && queue.mark_after.is_some() {
            return Err("queue: codel, or mark_after".into());
        }
    }
    if path.grants.is_some_and(|grants| !grants.get().is_zero() && !GRANTS.contains(&grants.get())) {
        return Err("grants: from 1 ms to 10 s, or 0 s for none".into());
    }
    if path.thinned.is_some_and(|every| !every.get().is_zero() && !GRANTS.contains(&every.get())) {
        return Err("thinned: from 1 ms to 10 s, or 0 s for not at all".into());
    }
    if let Some(handovers) = path.handovers
        && !(0.0..=600.0).contains(&handovers.per_minute)
    {
        return Err(format!("handovers: {} a minute are not from 0 to 600", handovers.per_minute));
    }
    Ok(())
}

/// Copies, retries and giving up.
fn check_copies(contender: &ContenderPlan) -> Result<(), String> {
    let kind = contender.kind;
    let is_udp = kind == ContenderKind::Udp;
    let can_double = matches!(
        kind,
        ContenderKind::Udp | ContenderKind::Tcp | ContenderKind::TcpReno | ContenderKind::TcpBbr | ContenderKind::Tls
    );
    if contender.duplicate && !can_double {
        return Err(format!("duplicate: for udp, tcp, tcp-reno, tcp-bbr and tls, not for {}", kind.name()));
    }
    if !is_udp && (contender.copies != 1 || contender.retry.is_some()) {
        return Err(format!("copies and retry are for udp, not for {}", kind.name()));
    }
    if !(1..=MAX_COPIES).contains(&contender.copies) {
        return Err(format!("copies: from 1 to {MAX_COPIES}"));
    }
    if contender.retry.is_some_and(|retry| retry.get() < Duration::from_millis(1)) {
        return Err("retry: at least 1 ms".into());
    }
    if contender.give_up.is_some_and(|give_up| give_up.get() < Duration::from_millis(1)) {
        return Err("give_up: at least 1 ms".into());
    }
    if contender.bulk && kind != ContenderKind::Aquila {
        return Err(format!("bulk: for aquila, not for {}", kind.name()));
    }
    if contender.duplicate && !contender.beside.is_empty() {
        return Err("beside: not together with duplicate".into());
    }
    Ok(())
}

fn check_company(plan: &Plan, contender: &ContenderPlan) -> Result<(), Wrong> {
    let mut names = BTreeSet::from([contender.name()]);
    for company in &contender.beside {
        let (span, company) = (Some(company.span()), company.get_ref());
        let name = company.name();
        let is_known = matches!(company.kind, ContenderKind::Aquila | ContenderKind::Tcp | ContenderKind::TcpReno);
        require(is_known, span.clone(), || "beside: aquila, tcp or tcp-reno".into())?;
        let alone = contender.oracle().is_some() || crate::run::is_possible(contender).is_err();
        require(!alone, span.clone(), || format!("beside: {} is alone on the link", contender.name()))?;
        require(is_name(name) && names.insert(name), span.clone(), || {
            format!("beside: company needs names without dots, different from each other and the contender's: '{name}'")
        })?;
        require(contender.beside.len() <= MAX_COMPANY, span.clone(), || format!("beside: up to {MAX_COMPANY}"))?;
        require(company.at.get() < plan.duration(), span.clone(), || "beside: the run is over by then".into())?;
        let from = company.from.as_ref();
        require(from.is_none_or(|from| plan.nodes.contains(from)), span.clone(), || {
            format!("beside: there is no node '{}'", from.map_or("", String::as_str))
        })?;
        require(from.is_none() || !company.is_session(), span.clone(), || {
            "beside: from is for a transfer; a session sends what the plan's traffic says".into()
        })?;
        let same = plan
            .traffic()
            .into_iter()
            .find(|own| plan.traffic().iter().any(|of| company.flow(of.name()) == own.name()));
        require(same.is_none(), span, || {
            format!("beside: '{}' would be a flow of two", same.map_or("", |traffic| traffic.name()))
        })?;
    }
    Ok(())
}

fn check_traffic(plan: &Plan, traffic: &TrafficPlan) -> Result<(), String> {
    let from = traffic.from.get_ref();
    if from != "both" && !plan.nodes.contains(from) {
        return Err(format!("from: there is no node '{from}'"));
    }
    if let Some(link) = &traffic.link {
        if plan.link_number(link.get_ref()).is_none() {
            return Err(format!("link: there is no link '{}'", link.get_ref()));
        }
        if traffic.datagrams.is_none() {
            return Err("link: is for datagrams; the contender decides where the rest goes".into());
        }
    }
    let positive = |time: Time, what: &str| match time.get() >= Duration::from_micros(10) {
        true => Ok(()),
        false => Err(format!("{what}: at least 10 us")),
    };
    let kind = traffic.kind()?;
    let in_a_loop = |commands: &CommandTraffic| matches!(commands.pace(), Ok(Pace::After { .. }));
    if !traffic.expected.is_empty() && !matches!(&kind, TrafficKind::Commands(commands) if in_a_loop(commands)) {
        return Err("expected: is for commands that wait for each other".into());
    }
    for (name, time) in &traffic.expected {
        positive(*time, &format!("expected: {name}"))?;
    }
    match kind {
        TrafficKind::Commands(commands) => commands.check(),
        TrafficKind::Parameters(every) => positive(every.every, "every"),
        TrafficKind::Video(video) => {
            let are_usable = (1..=1_000).contains(&video.frames_per_second)
                && (crate::frames::RTP_MIN..=9_000).contains(&video.packet.bytes());
            match video.encoding {
                _ if !are_usable => Err("video: from 1 to 1000 frames a second, packets from 20 to 9000 bytes".into()),
                Some(time) if time.get() > ENCODING => Err("video: encoding: 1 s at most".into()),
                _ => Ok(()),
            }
        }
        TrafficKind::Datagrams(datagrams) => {
            match (crate::frames::RTP_MIN..=65_000).contains(&datagrams.packet.bytes()) {
                true if datagrams.rate.bps() > 0 => Ok(()),
                _ => Err("datagrams: a rate, and packets from 20 to 65000 bytes".into()),
            }
        }
    }
}

fn check_action(plan: &Plan, action: &ActionPlan) -> Result<(), String> {
    if let Some(link) = &action.link {
        let known = plan.links.iter().any(|known| known.get_ref().name.get_ref() == link.get_ref());
        if !known {
            return Err(format!("there is no link '{}'", link.get_ref()));
        }
    }
    if action.every.is_some_and(|every| every.get() < Duration::from_millis(1)) {
        return Err("every: at least 1 ms".into());
    }
    if let Some(change) = &action.change
        && change.both.is_some()
        && (change.up.is_some() || change.down.is_some())
    {
        return Err("change: both, or up and down".into());
    }
    if let ActionKind::Outage(outage) = action.kind()?
        && action.every.is_some_and(|every| every <= outage.lasts)
    {
        return Err("the next outage begins before this one has ended".into());
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}
