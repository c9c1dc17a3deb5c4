//! Runs tests in processes of their own, most of them inside a sandbox.

use std::process::{Command, Output, exit};
use std::time::{Duration, Instant};

use aquila_lab::live::{Entered, Sandbox, World};

const INSIDE: &str = "--inside";
/// Exit code of a test that could not tell.
const INCONCLUSIVE: i32 = 77;
/// Exit code of a sandbox that could not be entered.
const NO_SANDBOX: i32 = 78;
const ATTEMPTS: usize = 3;

pub struct Test {
    name: &'static str,
    run: Run,
}

enum Run {
    /// In a sandbox.
    Inside(fn(&Sandbox)),
    /// In this process.
    Outside(fn()),
    /// In a sandbox, for other tests only.
    Hidden(fn(&Sandbox)),
}

impl Test {
    pub fn inside(name: &'static str, run: fn(&Sandbox)) -> Self {
        Self { name, run: Run::Inside(run) }
    }

    pub fn outside(name: &'static str, run: fn()) -> Self {
        Self { name, run: Run::Outside(run) }
    }

    pub fn hidden(name: &'static str, run: fn(&Sandbox)) -> Self {
        Self { name, run: Run::Hidden(run) }
    }
}

/// As the harness of the standard library, as far as `cargo test` needs it.
pub fn main(tests: &[Test]) {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, name, ..] = &arguments[..]
        && first == INSIDE
    {
        return inside(tests, name);
    }
    let (mut options, mut names) = (Vec::new(), Vec::new());
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        if ["--test-threads", "--color", "--format", "--logfile", "-Z"].contains(&argument.as_str()) {
            // Of no use here, and it has a value.
            arguments.next();
        } else if argument.starts_with('-') {
            options.push(argument);
        } else {
            names.push(argument);
        }
    }
    let shown = tests.iter().filter(|test| !matches!(test.run, Run::Hidden(_)));
    let wanted: Vec<&Test> =
        shown.filter(|test| names.is_empty() || names.iter().any(|name| test.name.contains(name))).collect();
    if options.iter().any(|option| option == "--list") {
        wanted.iter().for_each(|test| println!("{}: test", test.name));
        return;
    }
    if options.iter().any(|option| option == "--ignored") {
        return;
    }
    drive(&wanted);
}

fn inside(tests: &[Test], name: &str) {
    let test = tests.iter().find(|test| test.name == name).expect("a test of that name");
    let sandbox = match Sandbox::enter() {
        Ok(Entered::Inside(sandbox)) => sandbox,
        Ok(Entered::Outside(code)) => exit(code),
        Err(error) => {
            println!("{error}");
            exit(NO_SANDBOX);
        }
    };
    match test.run {
        Run::Inside(run) | Run::Hidden(run) => run(&sandbox),
        Run::Outside(_) => panic!("{name} does not run inside"),
    }
}

fn drive(wanted: &[&Test]) {
    println!("\nrunning {} tests", wanted.len());
    let mut missing = None;
    if !wanted.is_empty() {
        let probe = again("an_empty_world").output().expect("this program runs again");
        if probe.status.code() == Some(NO_SANDBOX) {
            missing = Some(last_line(&probe));
        }
    }
    let (mut passed, mut failed, mut skipped) = (0, Vec::new(), 0);
    for test in wanted {
        let began = Instant::now();
        let outcome = match &missing {
            Some(reason) => Err(reason.clone()),
            None => run(test),
        };
        let took = began.elapsed().as_secs_f64();
        match outcome {
            Ok(true) => {
                passed += 1;
                println!("test {} ... ok ({took:.1} s)", test.name);
            }
            Ok(false) => {
                failed.push(test.name);
                println!("test {} ... FAILED ({took:.1} s)", test.name);
            }
            Err(reason) => {
                skipped += 1;
                println!("test {} ... skipped: {reason}", test.name);
            }
        }
    }
    println!("\n{passed} passed, {} failed, {skipped} skipped", failed.len());
    if !failed.is_empty() {
        println!("failed: {}", failed.join(", "));
        exit(101);
    }
}

/// Whether it passed; the error says why nobody knows.
fn run(test: &Test) -> Result<bool, String> {
    if let Run::Outside(run) = test.run {
        return match std::panic::catch_unwind(run) {
            Ok(()) => Ok(true),
            Err(panic) => match panic.downcast::<Skip>() {
                Ok(skip) => Err(skip.0),
                Err(_) => Ok(false),
            },
        };
    }
    let mut reason = String::new();
    for _ in 0..ATTEMPTS {
        let output = again(test.name).output().expect("this program runs again");
        match output.status.code() {
            Some(0) => {
                print!("{}", String::from_utf8_lossy(&output.stdout));
                return Ok(true);
            }
            Some(INCONCLUSIVE) => reason = last_line(&output),
            _ => {
                print!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
                println!("{}: {}", test.name, output.status);
                return Ok(false);
            }
        }
    }
    Err(reason)
}

/// Why a test outside is skipped: to unwind with.
pub struct Skip(pub String);

/// This program, to run that test inside a sandbox.
pub fn again(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the program's own path"));
    command.args([INSIDE, name]);
    command
}

fn last_line(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().last().unwrap_or("it said nothing").to_owned()
}

/// Ends an attempt of which the times mean nothing, since the machine was too busy.
pub fn expect_punctual(world: &World) {
    let health = world.health().unwrap();
    println!("  {health}");
    if !health.verdict.is_valid() {
        println!("the machine was too busy: {health}");
        exit(INCONCLUSIVE);
    }
}

/// Ends a test that could not tell, to be tried again.
pub fn inconclusive(reason: &str) -> ! {
    println!("{reason}");
    exit(INCONCLUSIVE);
}

/// The same for tests that a single stall decides, however many packets were on time.
pub fn expect_no_stall(world: &World) {
    expect_punctual(world);
    let health = world.health().unwrap();
    if health.late_max > ms(20) {
        println!("the machine stood still for {:?}: {health}", health.late_max);
        exit(INCONCLUSIVE);
    }
}

pub const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
