//! What the socket tests do not reach: deadlines, and what a further try proves.

use super::*;
use kv_router_transport::{Backoff, RecoveryId};

const POLICY: ReplayPolicy = ReplayPolicy {
    idle: Duration::from_secs(2),
    total: Duration::from_secs(10),
    tries: 3,
    backoff: Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(4) },
    at_once: 8,
};

#[expect(clippy::disallowed_methods, reason = "an origin for a clock that is moved by hand")]
fn asked(from: u64) -> (Answer, Instant) {
    let now = Instant::now();
    let ask = ReplayRequest { id: RecoveryId::new(1), incarnation: None, from, to: None };
    (Answer::new(ask, POLICY, now), now)
}

fn batch(sequence: u64, payload: &[u8]) -> ReplayMessage {
    ReplayMessage::Batch { sequence, payload: payload.to_vec().into() }
}

#[test]
fn a_further_try_has_to_show_the_last_batch_again() {
    let check = |messages: Vec<ReplayMessage>| {
        let (mut answer, now) = asked(4);
        assert_eq!(answer.start(now), 4);
        assert!(matches!(answer.message(now, batch(4, b"four")), Verdict::Deliver { sequence: 4, .. }));
        assert_eq!(answer.start(now), 4);
        let mut delivered = Vec::new();
        for message in messages {
            match answer.message(now, message) {
                Verdict::Deliver { sequence, .. } => delivered.push(sequence),
                Verdict::Failed(reason) => return (delivered, Some(reason)),
                Verdict::Ignore | Verdict::Ended => {}
                Verdict::DeliverLast { .. } | Verdict::TryAgain => panic!("not asked for"),
            }
        }
        (delivered, None)
    };
    let end = || ReplayMessage::End;
    assert_eq!(check(vec![batch(4, b"four"), batch(5, b"x"), end()]), (vec![5], None));
    assert_eq!(check(vec![batch(3, b"x"), batch(4, b"four"), end()]), (vec![], None));
    assert_eq!(check(vec![batch(4, b"five"), batch(5, b"x")]), (vec![], Some(ReplayFailure::OtherLife)));
    assert_eq!(check(vec![batch(5, b"x"), end()]), (vec![], Some(ReplayFailure::AnchorGone)));
    assert_eq!(check(vec![end()]), (vec![], Some(ReplayFailure::OtherLife)));
}

#[test]
fn waits_end_by_silence_by_tries_and_in_all() {
    let (mut answer, now) = asked(0);
    let mut jitter = Jitter::new(1);
    answer.start(now);
    assert!(!answer.overdue(now + Duration::from_millis(1_999)));
    assert!(answer.overdue(now + POLICY.idle));
    answer.excuse(now + Duration::from_secs(1));
    assert!(!answer.overdue(now + POLICY.idle));
    assert!(answer.overdue(now + POLICY.total));
    assert!(matches!(answer.after_try(now, &mut jitter), Next::Wait(wait) if wait <= POLICY.backoff.first));
    for _ in 1..POLICY.tries {
        answer.start(now);
    }
    assert!(matches!(answer.after_try(now, &mut jitter), Next::Fail(ReplayFailure::Silent)));
    answer.message(now, batch(0, b"x"));
    assert!(matches!(answer.after_try(now, &mut jitter), Next::Fail(ReplayFailure::Stalled)));
    let late = now + POLICY.total - Duration::from_millis(1);
    assert!(matches!(answer.after_try(late, &mut jitter), Next::Fail(ReplayFailure::Deadline)));
}
