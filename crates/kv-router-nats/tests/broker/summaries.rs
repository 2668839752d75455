//! Cuckoo summaries of deployment groups, on their way to a router that picks the group: whole ones by the store, what
//! changed by gossip, in pieces that fit a message.
#![expect(clippy::unwrap_used, reason = "a helper of tests: what fails here fails the test")]

use std::time::Duration;

use kv_router_approx::cuckoo::{
    CuckooFeeder, CuckooIndex, CuckooLimits, FeederLimits, SummaryDelta, SummaryEpoch, SummaryPosition,
};
use kv_router_hash::next_sequence_hash;
use kv_router_index::ApplyEvents;
use kv_router_nats::{
    GossipConfig, GossipReceiver, GossipSender, GroupName, Link, SnapshotConfig, SnapshotName, SnapshotStore,
    Topic,
};
use kv_router_types::{
    ExternalSequenceHash, KvEvent, LocalBlockHash, SequenceHash, StoredBlock, Tier, WorkerId, WorkerRank,
};

use crate::model::{PATIENCE, link, until};
use crate::server::Server;

/// What the broker is taken to carry, so that a summary of some thousand blocks does not fit.
const MOST_BYTES: usize = 16 << 10;
/// Bytes of a delta beside its changes, and of one change: docs/wire.md.
const DELTA_BYTES: usize = 34;
const CHANGE_BYTES: usize = 6;

fn gossip() -> GossipConfig {
    let mut config = GossipConfig::default();
    config.most_bytes = MOST_BYTES;
    config
}

/// A deployment group's side: its index, here only the summary of it, and what was told of that.
struct Group {
    name: GroupName,
    feeder: CuckooFeeder,
    told: SummaryPosition,
    sender: GossipSender,
    store: SnapshotStore,
}

impl Group {
    fn new(name: &str, epoch: u64, link: &Link) -> Self {
        let feeder = CuckooFeeder::new(SummaryEpoch::new(epoch), FeederLimits::default());
        let told = feeder.publisher().position();
        let store = SnapshotStore::new(link, SnapshotConfig::default()).unwrap();
        let sender = GossipSender::new(link, gossip()).unwrap();
        Self { name: GroupName::new(name).unwrap(), feeder, told, sender, store }
    }

    /// The group caches blocks `first` to `last` of prompt `prompt`.
    fn store(&mut self, prompt: u64, first: u64, last: u64) {
        let name = |n: u64| ExternalSequenceHash::new(prompt << 32 | n);
        let block = |n| StoredBlock::new(name(n), local(prompt, n));
        let (parent, blocks) = (first.checked_sub(1).map(name), (first..last).map(block).collect());
        let rank = WorkerRank::from(WorkerId::new(1));
        self.feeder.apply(rank, &KvEvent::Stored { tier: Tier::Device, parent, blocks }).unwrap();
    }

    /// What changed since the last time, as messages that fit.
    fn deltas(&mut self) -> Vec<Vec<u8>> {
        let most = (MOST_BYTES - DELTA_BYTES) / CHANGE_BYTES;
        let mut messages = vec![];
        loop {
            let delta = self.feeder.publisher().delta_since(self.told, most).unwrap();
            if delta.is_empty() {
                return messages;
            }
            self.told = delta.to();
            messages.push(delta.to_bytes());
        }
    }

    fn say(&self, message: Vec<u8>) {
        assert!(message.len() <= MOST_BYTES, "{}", message.len());
        self.sender.send(&Topic::Summary(self.name.clone()), message).unwrap();
    }

    fn tell(&mut self) -> usize {
        let messages = self.deltas();
        let count = messages.len();
        messages.into_iter().for_each(|message| self.say(message));
        count
    }

    /// The whole summary, for who comes late or lost something.
    fn keep(&self) {
        self.store.put(&summary(self.name.as_str()), self.feeder.publisher().snapshot()).unwrap();
    }
}

fn summary(group: &str) -> SnapshotName {
    SnapshotName::new(&format!("summary-{group}")).unwrap()
}

fn local(prompt: u64, n: u64) -> LocalBlockHash {
    LocalBlockHash::new(prompt * 1_000_003 + n)
}

/// The router's side.
struct Chooser {
    groups: [&'static str; 2],
    receiver: GossipReceiver,
    store: SnapshotStore,
    index: CuckooIndex<usize>,
    /// Deltas that did not continue what is known.
    gaps: u32,
}

impl Chooser {
    fn new(groups: [&'static str; 2], link: &Link) -> Self {
        Self {
            groups,
            receiver: GossipReceiver::open(link, &Topic::Summaries, gossip()).unwrap(),
            store: SnapshotStore::new(link, SnapshotConfig::default()).unwrap(),
            index: CuckooIndex::new(CuckooLimits::default()),
            gaps: 0,
        }
    }

    fn poll(&mut self) {
        while let Some(heard) = self.receiver.recv(Duration::from_millis(1)).unwrap() {
            let group = heard.group.unwrap();
            let at = self.groups.iter().position(|name| *name == group.as_str()).unwrap();
            let delta = SummaryDelta::from_bytes(&heard.bytes).unwrap();
            if self.index.follow(at, &delta).is_err() {
                self.gaps += 1;
                // One that was written before what was missed does not help either: then the next gap brings another.
                if let Some(bytes) = self.store.get(&summary(group.as_str())).unwrap() {
                    self.index.install(at, &bytes).unwrap();
                    let _continued = self.index.follow(at, &delta);
                }
            }
        }
    }

    /// How many blocks of a prompt each group may hold.
    fn bounds(&self, prompt: u64, blocks: u64) -> [u32; 2] {
        let mut path: Option<SequenceHash> = None;
        let sequence: Vec<_> = (0..blocks)
            .map(|n| {
                let here = next_sequence_hash(path, local(prompt, n));
                path = Some(here);
                here
            })
            .collect();
        let (mut found, mut bounds) = (vec![], [0; 2]);
        self.index.find_sequence_into(&sequence, &mut found);
        found.iter().for_each(|bound| bounds[bound.owner] = bound.blocks_at_most);
        bounds
    }

    #[track_caller]
    fn becomes(&mut self, prompt: u64, blocks: u64, expected: [u32; 2]) {
        let so = until(PATIENCE, || {
            self.poll();
            self.bounds(prompt, blocks) == expected
        });
        assert!(so, "{:?}, not {expected:?}", self.bounds(prompt, blocks));
    }
}

fn groups(server: &Server) -> ([Group; 2], Chooser, [Link; 3]) {
    let links = [0; 3].map(|_| link(&server.url()));
    let groups = [Group::new("west", 1, &links[0]), Group::new("east", 1, &links[1])];
    let chooser = Chooser::new(["west", "east"], &links[2]);
    groups.iter().for_each(Group::keep);
    (groups, chooser, links)
}

#[test]
fn a_router_picks_the_group_by_what_comes_over_the_broker() {
    let server = Server::start();
    let ([mut west, mut east], mut chooser, _links) = groups(&server);
    west.store(1, 0, 10_000);
    west.store(2, 0, 40);
    east.store(2, 0, 90);
    assert!(west.tell() >= 4, "10,000 changes do not fit a message");
    assert_eq!(east.tell(), 1);
    chooser.becomes(1, 10_000, [10_000, 0]);
    chooser.becomes(2, 100, [40, 90]);
    east.store(1, 0, 500);
    east.tell();
    chooser.becomes(1, 10_000, [10_000, 500]);
    assert_eq!(chooser.receiver.dropped(), 0);
}

#[test]
fn a_change_that_was_lost_costs_a_whole_summary_and_one_that_comes_again_nothing() {
    let server = Server::start();
    let ([mut west, _east], mut chooser, links) = groups(&server);
    west.store(1, 0, 30);
    let early = west.deltas();
    early.iter().for_each(|message| west.say(message.clone()));
    chooser.becomes(1, 100, [30, 0]);
    let gaps = chooser.gaps;

    west.store(1, 30, 50);
    let lost = west.deltas();
    west.keep();
    west.store(1, 50, 60);
    west.tell();
    chooser.becomes(1, 100, [60, 0]);
    assert_eq!(chooser.gaps, gaps + 1);
    // Late, twice, and long known.
    lost.into_iter().chain(early).for_each(|message| west.say(message));
    west.store(1, 60, 70);
    west.tell();
    chooser.becomes(1, 100, [70, 0]);

    // A group that starts again says so by its epoch, and forgets.
    let mut east = Group::new("east", 2, &links[1]);
    east.keep();
    east.store(1, 0, 5);
    east.tell();
    chooser.becomes(1, 100, [70, 5]);
    west = Group::new("west", 2, &links[0]);
    west.keep();
    west.store(1, 0, 20);
    west.tell();
    chooser.becomes(1, 100, [20, 5]);
}
