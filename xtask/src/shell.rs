//! Runs programs where everyone can see them: the command line before, the time it took after.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::error::Error;

/// Where programs run.
#[derive(Debug)]
pub(crate) struct Shell {
    root: PathBuf,
    /// Cargo keeps nothing that would make a later build faster.
    builds_once: bool,
}

impl Shell {
    /// Programs run at the root of the checkout, wherever the user stands.
    pub(crate) fn at_workspace_root() -> Self {
        // Cargo sets the variable for `cargo run`; the built-in value serves a binary started by hand.
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        Self {
            root: manifest.parent().map_or_else(|| manifest.clone(), Path::to_path_buf),
            builds_once: false,
        }
    }

    /// Programs run in this folder.
    #[cfg(test)]
    pub(crate) fn at(root: PathBuf) -> Self {
        Self { root, builds_once: false }
    }

    /// The same, with builds that no other will follow: they take a fraction of the disk.
    pub(crate) fn for_one_build(&self) -> Self {
        Self { root: self.root.clone(), builds_once: true }
    }

    /// The root of the checkout.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The cargo that runs us, so that both use one toolchain.
    pub(crate) fn cargo(&self) -> Program {
        let path = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut cargo = Program::new("cargo", &path, &self.root);
        if self.builds_once {
            cargo.command.env("CARGO_INCREMENTAL", "0");
        }
        cargo
    }

    /// A program of the machine.
    pub(crate) fn program(&self, name: &str) -> Program {
        Program::new(name, OsStr::new(name), &self.root)
    }

    /// A program at a place of its own.
    pub(crate) fn program_at(&self, path: &Path) -> Program {
        Program::new(&path.to_string_lossy(), path.as_os_str(), &self.root)
    }

    /// Git, in the checkout. A git hook exports variables that would point it at another one.
    pub(crate) fn git(&self) -> Program {
        let mut git = Program::new("git", OsStr::new("git"), &self.root);
        for name in ["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"] {
            git.command.env_remove(name);
        }
        git
    }
}

/// A program about to run. Its stdin and stderr are ours.
#[derive(Debug)]
pub(crate) struct Program {
    command: Command,
    shown: String,
}

impl Program {
    fn new(name: &str, path: &OsStr, directory: &Path) -> Self {
        let mut command = Command::new(path);
        command.current_dir(directory);
        Self { command, shown: String::from(name) }
    }

    /// Adds arguments.
    pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        for arg in args {
            self.shown.push(' ');
            self.shown.push_str(&arg.as_ref().to_string_lossy());
            self.command.arg(arg);
        }
        self
    }

    /// Sets an environment variable, shown in front of the command line.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.shown = format!("{name}=\"{value}\" {}", self.shown);
        self.command.env(name, value);
        self
    }

    /// Runs the program with our stdout.
    pub(crate) fn run(mut self) -> Result<(), Error> {
        let started = self.announce();
        let status = self.command.status();
        self.conclude(started, status)
    }

    /// Runs the program and copies its stdout to ours, showing each line to `see` on the way.
    pub(crate) fn run_seeing(mut self, mut see: impl FnMut(&str)) -> Result<(), Error> {
        let started = self.announce();
        self.command.stdout(Stdio::piped());
        let status = self.command.spawn().and_then(|mut child| {
            let stdout = child.stdout.take();
            let copied = stdout.map_or(Ok(()), |stdout| copy_lines(stdout, &mut io::stdout(), &mut see));
            // The child is waited for even when our own stdout broke, so that none is left behind.
            let status = child.wait()?;
            copied.map(|()| status)
        });
        self.conclude(started, status)
    }

    /// Runs the program with its stderr in a file, showing each line of it to `see` on the way.
    pub(crate) fn run_logging(mut self, log: &Path, mut see: impl FnMut(&str)) -> Result<(), Error> {
        let mut file = File::create(log).map_err(|source| Error::Write { path: log.to_owned(), source })?;
        let started = self.announce();
        self.command.stderr(Stdio::piped());
        let status = self.command.spawn().and_then(|mut child| {
            let stderr = child.stderr.take();
            let copied = stderr.map_or(Ok(()), |stderr| copy_lines(stderr, &mut file, &mut see));
            let status = child.wait()?;
            copied.map(|()| status)
        });
        self.conclude(started, status)
    }

    /// Runs the program and returns its stdout.
    pub(crate) fn read(mut self) -> Result<Vec<u8>, Error> {
        let started = self.announce();
        match self.command.stderr(Stdio::inherit()).output() {
            Ok(output) => self.conclude(started, Ok(output.status)).map(|()| output.stdout),
            Err(error) => self.conclude(started, Err(error)).map(|()| Vec::new()),
        }
    }

    fn announce(&self) -> Instant {
        eprintln!("$ {}", self.shown);
        now()
    }

    fn conclude(self, started: Instant, status: io::Result<ExitStatus>) -> Result<(), Error> {
        let status = match status {
            Ok(status) => status,
            Err(source) => return Err(Error::Start { command: self.shown, source }),
        };
        eprintln!(
            "  {} after {}",
            if status.success() { "done" } else { "failed" },
            seconds(started.elapsed())
        );
        if status.success() {
            Ok(())
        } else {
            Err(Error::Failed { command: self.shown, code: status.code() })
        }
    }
}

fn copy_lines(from: impl Read, to: &mut impl Write, see: &mut impl FnMut(&str)) -> io::Result<()> {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        see(&String::from_utf8_lossy(&line));
        line.clear();
    }
    to.flush()
}

/// The time, for reports to people only.
#[expect(clippy::disallowed_methods, reason = "a command line tool may read the clock; libraries may not")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// A duration as people read it: `12.3 s`.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell() -> Shell {
        Shell::at_workspace_root()
    }

    #[test]
    fn the_root_holds_the_workspace_manifest() {
        assert!(shell().root().join("xtask/Cargo.toml").is_file());
    }

    #[test]
    fn only_what_is_built_once_is_built_without_help_for_the_next_build() {
        let incremental = |shell: &Shell| {
            let cargo = shell.cargo();
            let set = cargo.command.get_envs().find(|(name, _)| *name == "CARGO_INCREMENTAL");
            set.map(|(_, value)| value.map(OsStr::to_owned))
        };
        assert_eq!(incremental(&shell()), None);
        assert_eq!(incremental(&shell().for_one_build()), Some(Some(OsString::from("0"))));
    }

    #[test]
    fn the_echo_shows_variables_and_arguments() {
        let program = shell().cargo().args(["doc", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(program.shown, "RUSTDOCFLAGS=\"-D warnings\" cargo doc --no-deps");
    }

    #[test]
    fn lines_are_copied_and_seen_in_order_the_unfinished_last_one_too() {
        let (mut copy, mut seen) = (Vec::new(), Vec::new());
        copy_lines(&b"a\n\xff\nb"[..], &mut copy, &mut |line: &str| seen.push(String::from(line))).unwrap();
        assert_eq!(copy, b"a\n\xff\nb", "bytes pass through even where they are no text");
        assert_eq!(seen, ["a\n", "\u{fffd}\n", "b"]);
    }

    #[test]
    fn every_way_of_running_tells_success_from_failure() {
        // Silent either way: the first name is a valid reference, the second is not.
        let [good, bad] =
            ["heads/x", "heads/x..y"].map(|name| move || shell().git().args(["check-ref-format", name]));
        assert!(good().run().is_ok() && good().run_seeing(|_| ()).is_ok() && good().read().is_ok());
        let log = std::env::temp_dir().join(format!("kv-router-xtask-{}.log", std::process::id()));
        assert!(good().run_logging(&log, |_| ()).is_ok());
        assert!(matches!(bad().run_logging(&log, |_| ()), Err(Error::Failed { code: Some(1), .. })));
        std::fs::remove_file(log).unwrap();
        assert!(matches!(bad().run(), Err(Error::Failed { code: Some(1), .. })));
        assert!(matches!(bad().run_seeing(|_| ()), Err(Error::Failed { code: Some(1), .. })));
        assert!(matches!(bad().read(), Err(Error::Failed { code: Some(1), .. })));
    }

    #[test]
    fn git_ignores_what_a_hook_exports() {
        let git = shell().git();
        let removed = git.command.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name);
        assert!(removed.eq(["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"]));
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let program = Program::new("absent", OsStr::new("no-such-program-anywhere"), shell().root());
        assert!(matches!(program.run(), Err(Error::Start { .. })));
    }
}
