//! The stream of one engine, delivered by a network without manners.

use kv_router::{
    Clock, EngineFrame, EngineKind, EngineStream, EngineStreamConfig, FrameReport, Incarnation, ReplayFault,
    ReplayRequest, Router, StreamFreshness, WorkerId, WorkerRank,
};
use kv_router_engines::{
    BatchEncoder, DecodeLimits, EventForm, Ingest, IngestConfig, RemoveFields, StoreFields, WireBatch,
    WireHash, WireTokens,
};
use kv_router_index::ApplyEvents;
use kv_router_index::oracle::Oracle;
use kv_router_transport::{DumpReader, DumpRecord, Watermark};

use super::feed::ended;
use super::fleet::{BLOCK, Hours, blocks, held, router};
use crate::input::{Choices, framed};
use crate::seeds;

/// Live frames that wait for an answer at most: as many again while it is found out whose life they are of.
const HELD: usize = 6;

/// Frames, answers, deadlines and restarts in any order. The numbers of a frame are what the input says; so is its
/// payload, or else it is what the engine wrote under that number in that life, and then the router must hold what the
/// engine does whenever it says that it is fresh.
pub(super) fn frames(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let kind = choices.below(8);
    let honest = kind & 1 == 0;
    let mut play = Play::new(kind, honest);
    for step in 1_u32.. {
        if choices.is_over() {
            break;
        }
        play.step(&mut choices);
        // Comparing costs as much as hundreds of steps, and a state that has gone wrong mostly stays so.
        if honest && step.is_multiple_of(8) {
            play.is_what_the_engine_holds();
        }
    }
    if honest {
        play.is_what_the_engine_holds();
    }
    play.end();
}

struct Play {
    router: Router,
    time: Hours,
    stream: EngineStream,
    honest: bool,
    has_source: bool,
    /// What is asked, or was.
    asked: Vec<ReplayRequest>,
    fed: u64,
}

fn rank() -> WorkerRank {
    WorkerId::new(1).into()
}

impl Play {
    fn new(kind: u8, honest: bool) -> Self {
        let (router, time) = router(&[1], |_| ());
        let engine = if kind & 2 == 0 { EngineKind::Vllm } else { EngineKind::Sglang };
        let mut config = EngineStreamConfig::new(rank(), engine);
        config.feed.held = HELD;
        let has_source = kind & 4 == 0;
        if !has_source {
            config = config.without_replay();
        }
        // Only numbered lives can be told apart whatever comes: an engine that is new may have got as far as the old one.
        if honest {
            config = config.with_incarnations();
        }
        let stream = match router.engine_stream(config) {
            Ok(stream) => stream,
            Err(error) => panic!("{error}"),
        };
        Self { router, time, stream, honest, has_source, asked: Vec::new(), fed: 0 }
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        let now = self.time.now();
        let report = match choices.below(16) {
            0..=6 => {
                let (life, sequence) = self.number(choices);
                let payload = self.payload(choices, life, sequence);
                self.fed += 1;
                let frame = EngineFrame { incarnation: Incarnation::new(life), sequence, payload: &payload };
                let report = self.stream.frame(frame, now);
                let is_unreadable = report.as_ref().is_ok_and(|report| report.fault.is_some());
                // Taken for lost where it can be asked for again: its number is of no use.
                self.fed -= u64::from(self.has_source && is_unreadable);
                report
            }
            7..=9 => {
                let Some(asked) = self.pick(choices) else { return };
                let incarnation = asked.incarnation.unwrap_or(Incarnation::new(0));
                let near = asked.from.saturating_add(u64::from(choices.below(12))).saturating_sub(1);
                let sequence = if self.honest { near } else { near ^ choices.number() };
                let payload = self.payload(choices, incarnation.get(), sequence);
                self.fed += 1;
                self.stream.replayed(asked.id, EngineFrame { incarnation, sequence, payload: &payload }, now)
            }
            10 => {
                // An answer as it should be, or the beginning of one.
                let Some(asked) = self.pick(choices) else { return };
                let most = u64::from(choices.below(8));
                let to = asked.to.unwrap_or(u64::MAX).min(asked.from.saturating_add(most));
                for sequence in asked.from..to.saturating_add(1) {
                    let incarnation = asked.incarnation.unwrap_or(Incarnation::new(0));
                    let payload = self.payload(choices, incarnation.get(), sequence);
                    self.fed += 1;
                    let frame = EngineFrame { incarnation, sequence, payload: &payload };
                    let report = self.stream.replayed(asked.id, frame, now);
                    self.heard(report);
                }
                self.stream.replay_ended(asked.id, now)
            }
            11 => {
                let Some(asked) = self.pick(choices) else { return };
                match choices.below(3) {
                    0 => self.stream.replay_ended(asked.id, now),
                    1 => self.stream.replay_failed(asked.id, ReplayFault::OtherLife, now),
                    _ => self.stream.replay_failed(asked.id, ReplayFault::Unanswered, now),
                }
            }
            12 => {
                self.time.advance(u64::from(choices.byte()) * 100);
                self.stream.tick(self.time.now())
            }
            13 => match choices.below(2) {
                0 => self.stream.catch_up(now),
                _ => self.stream.connected(now),
            },
            14 => self.stream.resync(now),
            _ => self.stream.forget(now),
        };
        self.heard(report);
    }

    fn pick(&self, choices: &mut Choices<'_>) -> Option<ReplayRequest> {
        let back = usize::from(choices.below(3));
        self.asked.iter().rev().nth(back).or(self.asked.last()).copied()
    }

    /// A life and a number in it. An honest engine does not come far, so that what it holds can be told.
    fn number(&self, choices: &mut Choices<'_>) -> (u64, u64) {
        match self.honest {
            true => (u64::from(choices.below(3)), u64::from(choices.below(24))),
            false => (choices.number(), choices.number()),
        }
    }

    fn payload(&self, choices: &mut Choices<'_>, life: u64, sequence: u64) -> Vec<u8> {
        match self.honest {
            true => written(life, sequence),
            false => choices.bytes().to_vec(),
        }
    }

    fn heard(&mut self, report: Result<FrameReport, kv_router::EngineStreamError>) {
        let report = match report {
            Ok(report) => report,
            Err(error) => panic!("nobody left: {error}"),
        };
        if let Some(ask) = report.ask {
            assert!(ask.to.is_none_or(|to| to >= ask.from), "{ask:?}");
            assert!(self.stream.wants_replay(ask.id), "it asks and does not want to know");
            self.asked.push(ask);
        }
        let streams = self.router.streams();
        let status = streams.iter().find(|status| status.worker == rank());
        let Some(status) = status else { panic!("the rank is gone") };
        // A cold rank whose lives nobody numbers has one too: it asks now and then whether it can be healed.
        assert!(
            self.stream.next_deadline().is_some() || status.freshness != StreamFreshness::Recovering,
            "a wait without an end: {status:?}"
        );
        let ended = ended(status.stream, status.lives.unwrap_or_default());
        // A frame that waits is counted when its wait ends; one of a life before the worker's is not counted here.
        assert!(
            ended <= self.fed && self.fed - ended <= 2 * HELD as u64,
            "{ended} of {}: {status:?}",
            self.fed
        );
    }

    /// Up to which batch the router says that it knows all; `None` where it does not say so.
    fn watermark(&self) -> Option<Watermark> {
        let mut snapshot = Vec::new();
        if let Err(error) = self.router.snapshot(&mut snapshot) {
            panic!("{error}");
        }
        let records = DumpReader::new(&snapshot[..]).into_iter().flatten();
        records.flatten().find_map(|record| match record {
            DumpRecord::Watermark { from, watermark } if from == rank() => Some(watermark),
            _ => None,
        })
    }

    fn is_what_the_engine_holds(&self) {
        let Some(watermark) = self.watermark() else { return };
        let config = IngestConfig::new(self.router.scheme());
        let (mut ingest, mut index) = (Ingest::new(config), Oracle::new());
        let (mut batch, mut events) = (WireBatch::new(), Vec::new());
        for sequence in 0..=watermark.sequence {
            let payload = written(watermark.incarnation.get(), sequence);
            assert_eq!(batch.decode(&payload, &DecodeLimits::default()), Ok(()));
            ingest.apply(&batch, &mut events);
        }
        for event in &events {
            if let Err(error) = index.apply(rank(), event) {
                panic!("{error}");
            }
        }
        assert_eq!(held(&self.router), blocks(&index), "up to {watermark:?}");
    }

    fn end(mut self) {
        let report = self.stream.forget(self.time.now());
        self.heard(report);
        assert_eq!(held(&self.router), [], "what is forgotten is still there");
        assert_eq!(self.router.stats().index.names, 0);
    }
}

/// What the engine wrote under this number in this life: a chain that grows, loses blocks, and begins anew.
fn written(life: u64, sequence: u64) -> Vec<u8> {
    let mut encoder = BatchEncoder::new(EventForm::Map);
    let name = |sequence: u64| WireHash::Unsigned(100 + sequence);
    if sequence % 9 == 8 {
        encoder.cleared();
    }
    let tokens: Vec<u32> = (0..BLOCK).map(|at| at + BLOCK * (sequence + 1_000 * life) as u32).collect();
    let hashes = [name(sequence)];
    encoder.stored(&StoreFields {
        hashes: &hashes,
        parent: (!matches!(sequence % 9, 0 | 8)).then(|| name(sequence - 1)),
        tokens: WireTokens::Flat(&tokens),
        block_size: Some(u64::from(BLOCK)),
        medium: Some("GPU"),
        ..StoreFields::default()
    });
    if sequence % 4 == 3 {
        encoder.removed(&RemoveFields { hashes: &[name(sequence - 2)], medium: Some("GPU"), group: None });
    }
    let mut payload = Vec::new();
    encoder.finish(sequence as f64, None, &mut payload);
    payload
}

pub(super) fn frames_seeds() -> Vec<Vec<u8>> {
    let vectors = seeds::vectors("valid");
    let frame = |life: u8, sequence: u8| vec![0, life, sequence];
    let sent = |kind: u8, steps: &[Vec<u8>]| [&[kind][..], &steps.concat()].concat();
    let hostile = |count: usize| -> Vec<Vec<u8>> {
        let picked = vectors.iter().step_by(7).take(count).enumerate();
        picked.map(|(at, vector)| [frame(0, at as u8), framed(vector)].concat()).collect()
    };
    vec![
        sent(
            0,
            &[
                frame(0, 0),
                frame(0, 1),
                frame(0, 4),
                vec![10, 0, 7],
                frame(0, 5),
                frame(1, 2),
                vec![10, 0, 7],
            ],
        ),
        sent(2, &[frame(0, 3), vec![10, 0, 7], vec![13, 12, 255], frame(0, 4), vec![14, 10, 0, 7], vec![15]]),
        sent(4, &[frame(0, 0), frame(0, 2), frame(0, 8), frame(0, 9), vec![12, 9]]),
        sent(1, &hostile(8)),
        sent(3, &hostile(5)),
    ]
}
