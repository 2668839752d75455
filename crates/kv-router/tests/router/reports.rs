//! What is said of a frame is said of that frame.

use kv_router::{EngineKind, EngineStreamConfig, ForgetReason};

use crate::support::{Fleet, rank};
use crate::wire::{MockEngine, OURS, Say};

#[test]
fn others_that_are_given_up_do_not_make_a_frame_a_skipped_one() {
    let fleet = Fleet::new(1);
    let mut config = EngineStreamConfig::new(rank(0), EngineKind::Vllm);
    config.feed.held = 2;
    let mut stream = fleet.router.engine_stream(config).unwrap();
    let mut engine = MockEngine::new(rank(0), OURS);
    for conversation in [0, 2, 4, 0, 2, 4] {
        engine.say(&[Say::Store { conversation, from: 0, until: 4, host: false }]);
    }
    for sequence in [0, 2, 3] {
        let report = stream.frame(engine.frame(sequence), fleet.now()).unwrap();
        assert_eq!(report.batch.skipped, None);
    }
    // One more than may wait: those before it are given up, and it is applied.
    let report = stream.frame(engine.frame(5), fleet.now()).unwrap();
    assert_eq!(report.batch.forgot, Some(ForgetReason::HeldOverflow));
    assert_eq!((report.batch.events.applied.stored, report.batch.skipped), (4, None));
    assert_eq!(fleet.router.streams()[0].stream.abandoned, 2);
}
