//! The command line: every command, its flags, and the help that lists them.

use std::ffi::OsString;
use std::fmt;

use lexopt::{Arg, Parser, ValueExt};

/// What `cargo xtask help` prints.
pub(crate) const HELP: &str = "\
The project's own commands: cargo xtask <command>

  help               this list
  prepare            what a build and the tests need beside Rust, installed if it is missing: a C++ compiler for
                     libzmq, a Python with pyzmq in target/ for the interop tests, nats-server, Debian's
                     package of the broker, and openssl for its tests; test and ci do it first
  test [-- ARGS...]  all tests and doctests of the workspace; ARGS go to the test programs
                     (PROPTEST_CASES=N in the environment sets the cases per property)
  demo [ARGS...]     the demonstration fleet; ARGS go to it, `demo --help` lists them
  bench [--peers] [ARGS...]
                     the benchmarks; ARGS go to them, `bench --help` lists them; --peers: our indexes beside the
                     published ones instead, `bench --peers --help` lists its flags
  soak [ARGS...]     long runs of every index against the oracle, and its memory; `soak --help` lists the flags
  chaos [--nats] [ARGS...]
                     mock engines that fail on real sockets, and routers that must come out right; `chaos --help`
                     lists the flags; --nats: whole routers over a NATS server instead, each fault by itself with the
                     time to exact, then all at random; `chaos --nats --help` lists its flags
  loom [--mutate] [MODEL]
                     every interleaving of a few operations on the concurrent types; MODEL: part of a name;
                     --mutate plants known bugs into a copy instead: each must make its model fail
  fuzz [--list] [--seconds N] [--jobs N] [TARGET...]
                     hostile bytes against every decoder, guided by coverage: each TARGET, or all of them, for N
                     seconds (600), two of them at a time; --jobs: how many at a time; --list: what there is
  layers             dependency edges and licences against the table in xtask/src/layers.rs
  tidy [--verbose]   house rules that the compiler does not check; --verbose lists large files
  ci                 fmt, tidy, layers, prepare, clippy, doc, loom, test: stops at the first failure
";

/// One command with its flags.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Prepare(Prepare),
    Test(Test),
    Demo(Demo),
    Bench(Bench),
    Soak(Soak),
    Chaos(Chaos),
    Layers(Layers),
    Loom(Loom),
    Fuzz(Fuzz),
    Tidy(Tidy),
    Ci(Ci),
}

/// `prepare`
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Prepare;

/// `test [-- ARGS...]`
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Test {
    /// Passed to every test program, for example a filter.
    pub(crate) args: Vec<OsString>,
}

/// `demo [ARGS...]`
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Demo {
    /// Passed to the demonstration.
    pub(crate) args: Vec<OsString>,
}

/// `bench [--peers] [ARGS...]`
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bench {
    /// Which benchmark.
    pub(crate) against: Against,
    /// Passed to the benchmark program.
    pub(crate) args: Vec<OsString>,
}

/// `soak [ARGS...]`
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Soak {
    /// Passed to the long runs.
    pub(crate) args: Vec<OsString>,
}

/// `chaos [--nats] [ARGS...]`
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chaos {
    /// What is between engines and routers.
    pub(crate) over: Over,
    /// Passed to the run.
    pub(crate) args: Vec<OsString>,
}

/// What is between the engines and the routers of `chaos`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// ZeroMQ, from each engine to each router.
    Sockets,
    /// A NATS server.
    Nats,
}

/// What `bench` puts beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Against {
    /// The indexes of this workspace.
    Family,
    /// Our indexes and the published ones, from a workspace of their own.
    Peers,
}

/// `layers`
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Layers;

/// `loom [--mutate] [MODEL]`
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Loom {
    /// Whether bugs are planted, which the models must catch.
    pub(crate) mutate: bool,
    /// Part of the names of the models to run; all when `None`.
    pub(crate) model: Option<String>,
}

/// `fuzz [--list] [--seconds N] [--jobs N] [TARGET...]`
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fuzz {
    /// What to do with the targets.
    pub(crate) task: FuzzTask,
    /// Time for each, in seconds.
    pub(crate) seconds: u32,
    /// How many at a time.
    pub(crate) jobs: usize,
    /// Their names; all when there is none.
    pub(crate) targets: Vec<String>,
}

impl Default for Fuzz {
    fn default() -> Self {
        Self { task: FuzzTask::Run, seconds: 600, jobs: 2, targets: Vec::new() }
    }
}

/// What `fuzz` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FuzzTask {
    /// Runs them.
    Run,
    /// Prints their names.
    List,
}

/// `tidy [--verbose]`
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tidy {
    /// Whether files above the soft size limit are listed.
    pub(crate) verbose: bool,
}

/// `ci`
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ci;

/// Why a command line was refused.
#[derive(Debug)]
pub(crate) enum UsageError {
    /// No command has this name.
    UnknownCommand(OsString),
    /// `test` got this argument in front of `--`.
    BeforeDashes(OsString),
    /// A flag or an argument that the command does not take.
    Argument(lexopt::Error),
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownCommand(name) => {
                write!(f, "unknown command `{}`: `cargo xtask help` lists the commands", name.display())
            }
            Self::BeforeDashes(argument) => {
                let argument = argument.display();
                write!(f, "write `cargo xtask test -- {argument}` to pass `{argument}` to the test programs")
            }
            Self::Argument(error) => {
                write!(f, "{error}: `cargo xtask help` lists the commands and their flags")
            }
        }
    }
}

impl std::error::Error for UsageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Argument(error) => Some(error),
            Self::UnknownCommand(_) | Self::BeforeDashes(_) => None,
        }
    }
}

impl From<lexopt::Error> for UsageError {
    fn from(error: lexopt::Error) -> Self {
        Self::Argument(error)
    }
}

/// Reads a command line without the program's own name. An empty one asks for help.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, UsageError> {
    let mut parser = Parser::from_args(args);
    let name = match parser.next()? {
        None | Some(Arg::Long("help") | Arg::Short('h')) => return Ok(Command::Help),
        Some(Arg::Value(name)) => name,
        Some(other) => return Err(other.unexpected().into()),
    };
    match name.to_str() {
        Some("help") => without_flags(parser, Command::Help),
        Some("prepare") => without_flags(parser, Command::Prepare(Prepare)),
        Some("test") => test(parser),
        Some("demo") => Ok(Command::Demo(Demo { args: rest(parser)? })),
        Some("bench") => bench(parser),
        Some("soak") => Ok(Command::Soak(Soak { args: rest(parser)? })),
        Some("chaos") => chaos(parser),
        Some("loom") => loom(parser),
        Some("fuzz") => fuzz(parser),
        Some("layers") => without_flags(parser, Command::Layers(Layers)),
        Some("tidy") => tidy(parser),
        Some("ci") => without_flags(parser, Command::Ci(Ci)),
        _ => Err(UsageError::UnknownCommand(name)),
    }
}

fn without_flags(mut parser: Parser, command: Command) -> Result<Command, UsageError> {
    match parser.next()? {
        None => Ok(command),
        Some(Arg::Long("help") | Arg::Short('h')) => Ok(Command::Help),
        Some(other) => Err(other.unexpected().into()),
    }
}

fn tidy(mut parser: Parser) -> Result<Command, UsageError> {
    let mut flags = Tidy::default();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("verbose") => flags.verbose = true,
            Arg::Long("help") | Arg::Short('h') => return Ok(Command::Help),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Command::Tidy(flags))
}

fn bench(parser: Parser) -> Result<Command, UsageError> {
    let (given, args) = flag_and_rest(parser, "--peers")?;
    let against = if given { Against::Peers } else { Against::Family };
    Ok(Command::Bench(Bench { against, args }))
}

fn chaos(parser: Parser) -> Result<Command, UsageError> {
    let (given, args) = flag_and_rest(parser, "--nats")?;
    let over = if given { Over::Nats } else { Over::Sockets };
    Ok(Command::Chaos(Chaos { over, args }))
}

/// One flag is ours, wherever it stands; everything else belongs to the program.
fn flag_and_rest(parser: Parser, flag: &str) -> Result<(bool, Vec<OsString>), UsageError> {
    let mut args = rest(parser)?;
    let given = args.len();
    args.retain(|arg| arg != flag);
    Ok((args.len() < given, args))
}

fn loom(mut parser: Parser) -> Result<Command, UsageError> {
    let mut flags = Loom::default();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("mutate") => flags.mutate = true,
            Arg::Long("help") | Arg::Short('h') => return Ok(Command::Help),
            Arg::Value(model) if flags.model.is_none() => flags.model = Some(model.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Command::Loom(flags))
}

fn fuzz(mut parser: Parser) -> Result<Command, UsageError> {
    let mut flags = Fuzz::default();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("list") => flags.task = FuzzTask::List,
            Arg::Long("seconds") => flags.seconds = parser.value()?.parse()?,
            Arg::Long("jobs") => flags.jobs = parser.value()?.parse::<usize>()?.max(1),
            Arg::Long("help") | Arg::Short('h') => return Ok(Command::Help),
            Arg::Value(target) => flags.targets.push(target.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Command::Fuzz(flags))
}

fn test(mut parser: Parser) -> Result<Command, UsageError> {
    let mut raw = parser.raw_args()?;
    match raw.next() {
        None => Ok(Command::Test(Test::default())),
        Some(dashes) if dashes == "--" => Ok(Command::Test(Test { args: raw.collect() })),
        Some(help) if help == "--help" || help == "-h" => Ok(Command::Help),
        Some(other) => Err(UsageError::BeforeDashes(other)),
    }
}

/// Everything that is left, uninterpreted; a leading `--` is dropped, because cargo users type it by habit.
fn rest(mut parser: Parser) -> Result<Vec<OsString>, UsageError> {
    let mut args: Vec<OsString> = parser.raw_args()?.collect();
    if args.first().is_some_and(|first| first == "--") {
        args.remove(0);
    }
    Ok(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Command, UsageError> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[track_caller]
    fn check(line: &str, expected: &Command) {
        assert_eq!(&parse_line(line).unwrap(), expected);
    }

    #[track_caller]
    fn refused(line: &str, advice: &str) {
        let message = parse_line(line).unwrap_err().to_string();
        assert!(message.contains(advice), "{message}");
    }

    fn args(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn no_command_and_every_spelling_of_help_ask_for_help() {
        for line in ["", "help", "--help", "-h", "ci --help", "tidy -h", "layers --help", "test --help"] {
            check(line, &Command::Help);
        }
    }

    #[test]
    fn commands_with_their_flags() {
        check("prepare", &Command::Prepare(Prepare));
        check("ci", &Command::Ci(Ci));
        check("layers", &Command::Layers(Layers));
        check("loom", &Command::Loom(Loom::default()));
        let model = Some(String::from("store"));
        check("loom store", &Command::Loom(Loom { mutate: false, model: model.clone() }));
        check("loom --mutate store", &Command::Loom(Loom { mutate: true, model }));
        check("fuzz", &Command::Fuzz(Fuzz::default()));
        let targets = vec![String::from("dump"), String::from("restore")];
        let flags = Fuzz { seconds: 9, jobs: 1, targets, ..Fuzz::default() };
        check("fuzz --seconds 9 dump --jobs 0 restore", &Command::Fuzz(flags));
        check("fuzz --list", &Command::Fuzz(Fuzz { task: FuzzTask::List, ..Fuzz::default() }));
        check("tidy", &Command::Tidy(Tidy { verbose: false }));
        check("tidy --verbose", &Command::Tidy(Tidy { verbose: true }));
        check("test", &Command::Test(Test { args: args(&[]) }));
        check("test -- radix --nocapture", &Command::Test(Test { args: args(&["radix", "--nocapture"]) }));
    }

    #[test]
    fn programs_get_everything_passed_on() {
        check("demo --json --help", &Command::Demo(Demo { args: args(&["--json", "--help"]) }));
        check("demo -- --json", &Command::Demo(Demo { args: args(&["--json"]) }));
        let against = Against::Family;
        check("bench --quick -- x", &Command::Bench(Bench { against, args: args(&["--quick", "--", "x"]) }));
        let over = Over::Sockets;
        check("chaos --seconds 5", &Command::Chaos(Chaos { over, args: args(&["--seconds", "5"]) }));
        let over = Over::Nats;
        check("chaos --seconds 5 --nats", &Command::Chaos(Chaos { over, args: args(&["--seconds", "5"]) }));
        check("soak --seconds 5", &Command::Soak(Soak { args: args(&["--seconds", "5"]) }));
    }

    #[test]
    fn bench_takes_its_own_flag_out_and_passes_the_rest_on() {
        let against = Against::Peers;
        let peers = |words| Command::Bench(Bench { against, args: args(words) });
        check("bench --peers", &peers(&[]));
        check("bench -- --peers --quick", &peers(&["--quick"]));
        check("bench --peers --only churn --json x", &peers(&["--only", "churn", "--json", "x"]));
        check("bench --peers --help", &peers(&["--help"]));
        check("bench --quick --peers", &peers(&["--quick"]));
    }

    #[test]
    fn refusals_say_what_to_do() {
        refused("tset", "unknown command `tset`: `cargo xtask help`");
        refused("--frobnicate", "`cargo xtask help` lists");
        refused("tidy --verbos", "`cargo xtask help` lists");
        refused("tidy --verbose=yes", "`cargo xtask help` lists");
        refused("loom store remove", "`cargo xtask help` lists");
        refused("fuzz --seconds soon", "`cargo xtask help` lists");
        refused("ci now", "`cargo xtask help` lists");
        refused("test radix", "write `cargo xtask test -- radix`");
    }

    #[test]
    fn help_lists_every_command() {
        for command in [
            "help", "prepare", "test", "demo", "bench", "soak", "chaos", "loom", "fuzz", "layers", "tidy",
            "ci",
        ] {
            assert!(HELP.lines().any(|line| line.starts_with(&format!("  {command} "))), "{command}");
        }
    }
}
