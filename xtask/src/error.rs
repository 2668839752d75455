//! What can go wrong in a command, and the exit code it means.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::flags::UsageError;
use crate::layers::MetadataError;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Error {
    /// The command line makes no sense: exit code 2.
    Usage(UsageError),
    /// A program could not be started, or its output could not be read.
    Start { command: String, source: io::Error },
    /// A program ran and failed: its exit code is passed on. `None`: a signal ended it.
    Failed { command: String, code: Option<i32> },
    /// A Debian package is missing and could not be installed.
    Missing { package: String, source: Box<Error> },
    /// A file of the checkout could not be read.
    Read { path: PathBuf, source: io::Error },
    /// A file below `target` could not be written.
    Write { path: PathBuf, source: io::Error },
    /// `cargo metadata` printed something else than its documented format.
    Metadata(MetadataError),
    /// There is no model, or no planted bug, whose name has this in it.
    NoModel { wanted: String },
    /// Nothing that can be fuzzed is called so.
    NoTarget { wanted: String },
    /// A check printed findings.
    Findings { command: &'static str, count: usize },
}

impl Error {
    /// What the process returns to its caller.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            // A code outside 1..=255 must not wrap around to success.
            Self::Failed { code: Some(code), .. } => match u8::try_from(*code) {
                Ok(code) if code != 0 => ExitCode::from(code),
                _ => ExitCode::FAILURE,
            },
            _ => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(error) => error.fmt(f),
            Self::Start { command, source } => {
                write!(f, "cannot run `{command}`: {source}; is it installed?")
            }
            Self::Failed { command, code: Some(code) } => {
                write!(f, "`{command}` failed with exit code {code}; its output above says why")
            }
            Self::Failed { command, code: None } => write!(f, "`{command}` was ended by a signal"),
            Self::Read { path, source } => write!(f, "cannot read {}: {source}", path.display()),
            Self::Write { path, source } => write!(f, "cannot write {}: {source}", path.display()),
            Self::Missing { package, source } => {
                write!(
                    f,
                    "`{package}` is missing and cannot be installed ({source}): run `apt-get install {package}` as root"
                )
            }
            Self::Metadata(error) => error.fmt(f),
            Self::NoModel { wanted } => write!(f, "no model is named like `{wanted}`: nothing was checked"),
            Self::NoTarget { wanted } => {
                write!(f, "no target is called `{wanted}`: `cargo xtask fuzz --list` lists them")
            }
            Self::Findings { command, count } => {
                let noun = if *count == 1 { "finding" } else { "findings" };
                write!(f, "{command}: {count} {noun}; each line above says what to change")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Start { source, .. } | Self::Read { source, .. } | Self::Write { source, .. } => {
                Some(source)
            }
            Self::Missing { source, .. } => Some(source),
            Self::Usage(_)
            | Self::Metadata(_)
            | Self::Failed { .. }
            | Self::NoModel { .. }
            | Self::NoTarget { .. }
            | Self::Findings { .. } => None,
        }
    }
}

impl From<UsageError> for Error {
    fn from(error: UsageError) -> Self {
        Self::Usage(error)
    }
}

impl From<MetadataError> for Error {
    fn from(error: MetadataError) -> Self {
        Self::Metadata(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(error: Error, code: ExitCode) {
        // ExitCode has no equality; its Debug form shows the number.
        assert_eq!(format!("{:?}", error.exit_code()), format!("{code:?}"), "{error}");
    }

    #[test]
    fn exit_codes_are_honest() {
        let failed = |code| Error::Failed { command: String::from("cargo test"), code };
        check(Error::Usage(UsageError::UnknownCommand("tset".into())), ExitCode::from(2));
        check(Error::Findings { command: "tidy", count: 1 }, ExitCode::FAILURE);
        check(failed(Some(101)), ExitCode::from(101));
        check(failed(None), ExitCode::FAILURE);
        check(failed(Some(0)), ExitCode::FAILURE);
        check(failed(Some(256)), ExitCode::FAILURE); // would be 0 if truncated
        check(failed(Some(-1)), ExitCode::FAILURE);
    }
}
