//! A plan in virtual time: contenders without a clock of their own, over the emulator, as fast as the processor goes.

mod aquila;
pub mod camera;
mod clock;
mod company;
mod contender;
mod datagrams;
mod doubled;
mod modems;
pub mod oracle;
pub mod tcp;
mod world;

pub(crate) use datagrams::{ACK_BYTES, COMMAND_BYTES, PARAMETER_BYTES};

use aquila_emu::Direction;

use crate::channels::ChannelError;
use crate::plan::{ContenderKind, ContenderPlan, Plan};
use crate::record::Run;
use aquila::Aquila;
use camera::FrameEncoder;
use company::{Company, Party};
use contender::Contender;
use oracle::Truth;
use tcp::Tcp;
use world::World;

/// Why a plan cannot be run in virtual time.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A link cannot be made.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// A contender cannot be set up.
    #[error("contender {name}: {message}")]
    Contender {
        /// Which.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// A trace could not be played to the end.
    #[error("link {link}: {message}")]
    Fault {
        /// Which.
        link: String,
        /// What happened.
        message: String,
    },
}

/// Whether there is a model of a contender in virtual time, and if not, why.
///
/// # Errors
/// The reason.
pub fn is_possible(contender: &ContenderPlan) -> Result<(), &'static str> {
    match contender.kind {
        ContenderKind::Mptcp | ContenderKind::MptcpBbr | ContenderKind::TcpBbr => {
            Err("there is no model of it in virtual time; it runs live")
        }
        ContenderKind::Programs => Err("programs run live only"),
        _ => Ok(()),
    }
}

/// Runs a contender once. The same plan, contender and seed give the same run, to the nanosecond.
///
/// # Errors
/// [`RunError`], before anything is simulated, but for traces that change meanwhile.
pub fn run(plan: &Plan, contender: &ContenderPlan, seed: u64) -> Result<Run, RunError> {
    run_with(plan, contender, seed, None)
}

/// The same with another camera at the first node, in place of its first one.
///
/// # Errors
/// As [`run`].
pub fn run_filmed<'a>(
    plan: &'a Plan,
    contender: &ContenderPlan,
    seed: u64,
    camera: Box<dyn FrameEncoder + 'a>,
) -> Result<Run, RunError> {
    run_with(plan, contender, seed, Some(camera))
}

fn run_with<'a>(
    plan: &'a Plan,
    contender: &ContenderPlan,
    seed: u64,
    camera: Option<Box<dyn FrameEncoder + 'a>>,
) -> Result<Run, RunError> {
    let start = origin();
    let wrong = |message: String| RunError::Contender { name: contender.name().to_owned(), message };
    let truth = contender.oracle().map(|_| Truth::of(plan, seed, start)).transpose()?;
    let mut world = World::new(plan, contender, seed, start, truth.clone())?;
    let encoder = camera.as_ref().and_then(|camera| camera.kind());
    if let Some(camera) = camera {
        world.film_with(camera);
    }
    let made: Box<dyn Contender> = match contender.kind {
        ContenderKind::Aquila => Box::new(Aquila::new(contender, plan, truth, seed, start, encoder).map_err(wrong)?),
        ContenderKind::Udp => Box::new(datagrams::Datagrams::new(contender, plan.links.len())),
        ContenderKind::Tcp | ContenderKind::TcpReno | ContenderKind::Tls if contender.duplicate => {
            // Connections of one program differ in their timers only, which the seed decides.
            let over = |link: u64| Box::new(Tcp::new(contender, seed ^ (link << 32), start)) as Box<dyn Contender>;
            Box::new(doubled::Doubled::new((0..plan.links.len() as u64).map(over).collect()))
        }
        ContenderKind::Tcp | ContenderKind::TcpReno | ContenderKind::Tls => Box::new(Tcp::new(contender, seed, start)),
        ContenderKind::Mptcp | ContenderKind::MptcpBbr | ContenderKind::TcpBbr | ContenderKind::Programs => {
            return Err(wrong(is_possible(contender).err().unwrap_or_default().to_owned()));
        }
    };
    if contender.beside.is_empty() {
        return world.run(made, contender.name());
    }
    let mut parties =
        vec![Party { name: contender.name().to_owned(), contender: made, begins: start, is_there: false }];
    for (number, beside) in (1..).zip(&contender.beside) {
        let beside = beside.get_ref();
        let (of_kind, name, begins) = (beside.contender(), beside.name().to_owned(), start + beside.at.get());
        let seed = seed ^ crate::fnv::of(&name);
        let contender: Box<dyn Contender> = if beside.is_session() {
            Box::new(Aquila::new(&of_kind, plan, None, seed, begins, None).map_err(wrong)?.at_ports(number))
        } else {
            let from = beside.from.as_ref().and_then(|from| plan.nodes.iter().position(|node| node == from));
            Box::new(Tcp::new(&of_kind, seed, begins).transferring(from.unwrap_or_default()))
        };
        parties.push(Party { name, contender, begins, is_there: false });
    }
    let company = Company::new(parties, world.parties());
    world.run(Box::new(company), contender.name())
}

/// Any instant will do: only differences to it count. In the future, so that traces may have begun before it.
pub(crate) fn origin() -> std::time::Instant {
    std::time::Instant::now() + std::time::Duration::from_secs(86_400)
}

/// The direction of what a node sends.
fn direction_from(node: usize) -> Direction {
    if node == 0 { Direction::Up } else { Direction::Down }
}

#[cfg(test)]
mod tests;
