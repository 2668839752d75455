//! A relay of bytes between a client and the server that can stop passing them on: a partition without a reset.
#![expect(clippy::unwrap_used, reason = "a helper of tests: what fails here fails the test")]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a thread looks at a silent socket before it looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(20);

pub(crate) struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    stalled: AtomicBool,
    over: AtomicBool,
}

impl Proxy {
    pub(crate) fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, state) = (listener.local_addr().unwrap(), Arc::new(State::default()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if shared.over.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(server)) else { continue };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let state = Arc::clone(&shared);
                    std::thread::spawn(move || pass(from, to, &state));
                }
            }
        });
        Self { address, state }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Nothing gets through, and nobody is told.
    pub(crate) fn stall(&self) {
        self.state.stalled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn heal(&self) {
        self.state.stalled.store(false, Ordering::Relaxed);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.address)); // wakes the listener
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, state: &State) {
    from.set_read_timeout(Some(LOOK)).unwrap();
    let mut bytes = [0; 64 << 10];
    while !state.over.load(Ordering::Relaxed) {
        match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => {
                // What a partition swallows never comes, so a connection of before it is of no use after it.
                let swallowed = state.stalled.load(Ordering::Relaxed);
                if swallowed {
                    while state.stalled.load(Ordering::Relaxed) && !state.over.load(Ordering::Relaxed) {
                        std::thread::park_timeout(LOOK);
                    }
                    break;
                }
                if to.write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    drop(to.shutdown(std::net::Shutdown::Both));
    drop(from.shutdown(std::net::Shutdown::Both));
}
