//! Against libzmq as engines have it: pyzmq, in a process of its own, in the way of vLLM and SGLang.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use kv_router_engines::{DecodeLimits, WireBatch};
use kv_router_zmq::{Endpoint, Publisher, PublisherConfig, ReplayFraming, Source};

use crate::common::{Rank, quick};

/// A Python with pyzmq. `cargo xtask test` makes it.
fn python() -> PathBuf {
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pyzmq/bin/python");
    assert!(
        python.exists(),
        "{} is missing: `cargo xtask prepare` makes it, `cargo xtask test` does so by itself",
        python.display()
    );
    python
}

struct Peer {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
}

impl Peer {
    fn start<'a>(args: impl IntoIterator<Item = &'a str>) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sockets/peer.py");
        let mut child = Command::new(python())
            .arg(script)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { stdin: child.stdin.take(), child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the peer ended: {:?}", self.child.try_wait());
        line.trim_end().to_owned()
    }

    fn publish(&mut self, batches: usize) {
        writeln!(self.stdin.as_mut().unwrap(), "{batches}").unwrap();
    }

    fn end(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Peer {
    /// A test that fails must not leave a process behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What vLLM and SGLang wrote, release by release.
fn payloads(engine: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kv-router-engines/tests/vectors/valid");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with(engine) && name.ends_with(".msgpack")
        })
        .collect();
    files.sort();
    assert!(files.len() >= 20, "{engine}: {}", files.len());
    files
}

/// A publisher of libzmq: half of the batches before we come, half after.
fn publishes(frames: &str, topic: &str, engine: &str) {
    let files = payloads(engine);
    let mut args = vec!["publish", frames, topic];
    args.extend(files.iter().map(|file| file.to_str().unwrap()));
    let mut peer = Peer::start(args);
    let endpoints = peer.line();
    let (live, replay) = endpoints.split_once(' ').unwrap();
    let endpoint = |text| Endpoint::new(text).unwrap();
    let half = files.len() / 2;
    peer.publish(half);

    let source = Source::connect(endpoint(live)).with_replay(endpoint(replay)).with_topic(b"kv@");
    let mut rank = Rank::new(quick(), source);
    rank.until("the first half", |rank| rank.applied.len() == half && rank.is_fresh());
    rank.until("connected", |rank| rank.health().connected == 1);
    peer.publish(files.len() - half);
    rank.until("the second half", |rank| rank.applied.len() == files.len() && rank.is_fresh());
    peer.end();

    let mut batch = WireBatch::new();
    for ((sequence, payload), (expected, file)) in rank.applied.iter().zip((0..).zip(&files)) {
        assert_eq!((*sequence, payload), (expected, &std::fs::read(file).unwrap()));
        assert_eq!(batch.decode(payload, &DecodeLimits::default()), Ok(()), "{}", file.display());
    }
    assert_eq!(rank.health().faults.total() + rank.health().replays.faults.total(), 0);
    rank.until("the end is seen", |rank| rank.health().connected == 0);
}

#[test]
fn an_older_vllm_on_libzmq_is_heard() {
    publishes("3", "kv@10.0.0.1@model", "vllm");
}

#[test]
fn a_newer_vllm_on_libzmq_is_heard() {
    publishes("4", "kv@10.0.0.1:8000@model", "vllm");
}

#[test]
fn sglang_on_libzmq_is_heard() {
    publishes("3", "kv@", "sglang");
    publishes("4", "kv@", "sglang");
}

#[test]
fn a_subscriber_on_libzmq_hears_our_publisher() {
    for framing in [ReplayFraming::WithoutTopic, ReplayFraming::WithTopic] {
        let topic = b"kv@me".to_vec();
        let config =
            PublisherConfig { topic: topic.clone(), framing, buffer_batches: 2, ..Default::default() };
        let publisher = Publisher::start(config).unwrap();
        for payload in [b"a", b"b", b"c"] {
            publisher.publish(payload.to_vec()).unwrap();
        }
        let live = publisher.live_endpoint().as_str();
        let replay = publisher.replay_endpoint().unwrap().as_str();
        let mut peer = Peer::start(["subscribe", live, replay, "2"]);
        let topic = if framing == ReplayFraming::WithTopic { "6b76406d65 " } else { "" };
        // Two batches are kept, so the first is gone.
        assert_eq!(peer.line(), format!("replay - {topic}0000000000000001 62"));
        assert_eq!(peer.line(), format!("replay - {topic}0000000000000002 63"));
        assert_eq!(peer.line(), format!("replay - {topic}ffffffffffffffff -"));
        // A subscription arrives when it arrives: publish until two batches in a row were heard.
        let (heard, lines) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            for _ in 0..2 {
                heard.send(peer.line()).unwrap();
            }
            peer.end();
        });
        let mut seen = Vec::new();
        while seen.len() < 2 {
            let _ = publisher.publish(b"live".to_vec());
            seen.extend(lines.recv_timeout(std::time::Duration::from_millis(1)));
        }
        reader.join().unwrap();
        let number = |line: &str| {
            let [kind, topic, number, payload] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            assert_eq!((kind, topic, payload), ("live", "6b76406d65", "6c697665"));
            u64::from_str_radix(number, 16).unwrap()
        };
        assert_eq!(number(&seen[0]) + 1, number(&seen[1]));
    }
}
