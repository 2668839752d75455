//! A NATS server with JetStream, on a loopback port and in a folder of its own.
#![expect(clippy::unwrap_used, reason = "a helper of tests: what fails here fails the test")]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::model::until;

/// Where the server may be. Debian's place is not on everybody's path.
const PROGRAMS: [&str; 2] = ["nats-server", "/usr/sbin/nats-server"];

/// A new one, beside those of other tests.
pub(crate) fn folder(kind: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("{kind}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

pub(crate) struct Server {
    child: Option<Child>,
    port: u16,
    folder: PathBuf,
    arguments: Vec<String>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    pub(crate) fn with(arguments: &[&str]) -> Self {
        let folder = folder("nats");
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let mut server = Self { child: None, port: 0, folder, arguments };
        // Another process may take the port between our look and the server's start: then there is another one.
        for _ in 0..5 {
            server.port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            if server.try_run() {
                return server;
            }
        }
        panic!("nats-server does not start: see its log in {}", server.folder.display());
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    /// Publishes a message in the words of the protocol, as a client other than ours would.
    pub(crate) fn publish(&self, subject: &str, payload: &[u8]) {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let options = "CONNECT {\"verbose\":false,\"pedantic\":false}";
        write!(stream, "{options}\r\nPUB {subject} {}\r\n", payload.len()).unwrap();
        stream.write_all(payload).unwrap();
        write!(stream, "\r\nPING\r\n").unwrap();
        let mut answers = BufReader::new(stream).lines();
        assert!(answers.any(|line| line.unwrap().starts_with("PONG")), "the server took it");
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Starts it again, on the same port and folder.
    pub(crate) fn restart(&mut self) {
        assert!(self.try_run(), "nats-server does not start again: see its log in {}", self.folder.display());
    }

    fn try_run(&mut self) -> bool {
        let log = self.folder.join("log");
        let mut child = PROGRAMS
            .iter()
            .find_map(|program| {
                Command::new(program)
                    .args(["--addr", "127.0.0.1", "--port", &self.port.to_string(), "--jetstream"])
                    .args(["--store_dir", &self.folder.to_string_lossy(), "--log", &log.to_string_lossy()])
                    .args(&self.arguments)
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .ok()
            })
            .expect(
                "nats-server is missing: run `cargo xtask prepare`, or `apt-get install nats-server` as root",
            );
        let address = self.address();
        let up = until(Duration::from_secs(20), || {
            TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
                || child.try_wait().unwrap().is_some()
        });
        if up && child.try_wait().unwrap().is_none() {
            self.child = Some(child);
            return true;
        }
        drop(child.kill());
        drop(child.wait());
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if !std::thread::panicking() {
            drop(std::fs::remove_dir_all(&self.folder));
        }
    }
}
