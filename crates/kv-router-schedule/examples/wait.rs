//! Requests that wait for room, and a session that stays: `cargo run -p kv-router-schedule --example wait`.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;
use std::time::{Duration, Instant};

use kv_router_schedule::{
    Pass, Queue, QueueConfig, QueueOrder, SessionConfig, SessionId, SessionTable, Waiting,
};
use kv_router_types::{WorkerId, WorkerRank};

#[expect(clippy::disallowed_methods, reason = "a program reads the clock, the library does not")]
fn clock() -> Instant {
    Instant::now()
}

fn main() -> Result<(), Box<dyn Error>> {
    let start = clock();
    let mut queue = Queue::new(QueueConfig { order: QueueOrder::Wspt, ..QueueConfig::default() })?;
    let ask = |class, uncached_tokens, priority| Waiting { class, uncached_tokens, priority, deadline: None };
    queue.push("a long document", ask(None, 60_000, 0), start)?;
    queue.push("a chat, pinned to worker 7", ask(Some(WorkerId::new(7)), 40, 0), start)?;
    queue.push("a chat", ask(None, 300, 0), start)?;
    queue.push("an urgent document", ask(None, 60_000, 900), start)?;

    for (later, what) in [(1, "after a second"), (40, "after 40 seconds")] {
        let now = start + Duration::from_secs(later);
        println!("{what}, worker 7 is busy and another has room for one:");
        let mut pass = Pass::new();
        while let Some((key, request)) = queue.next(&mut pass, now) {
            let request = *request;
            if request.contains("worker 7") {
                println!("  {request}: has to wait");
                queue.block(&mut pass, key);
            } else {
                queue.take(key);
                println!("  {request}: goes");
                break;
            }
        }
    }
    println!("{:?}", queue.stats());

    let mut sessions = SessionTable::new(SessionConfig::default(), 1)?;
    let (conversation, worker) = (SessionId::new(42), WorkerRank::from(WorkerId::new(3)));
    println!("tell the other routers: {:?}", sessions.bind(conversation, worker, start));
    println!("its next request is looked at on {:?} first", sessions.get(conversation, start));
    sessions.unbind_worker(worker.worker);
    println!("worker 3 is gone: {:?}", sessions.get(conversation, start));
    Ok(())
}
