//! The bugs that the models must catch.

mod paged;

/// One bug: `find`, which occurs once in `file`, becomes `replace`, and `model` must fail.
#[derive(Debug)]
pub(super) struct Mutation {
    pub(super) name: &'static str,
    pub(super) file: &'static str,
    pub(super) find: &'static str,
    pub(super) replace: &'static str,
    pub(super) model: &'static str,
}

const NODE: &str = "crates/kv-router-index/src/concurrent_radix/node.rs";
const FIND: &str = "crates/kv-router-index/src/concurrent_radix/find.rs";
const TREE: &str = "crates/kv-router-index/src/concurrent_radix/tree.rs";
const STAMPS: &str = "crates/kv-router-index/src/concurrent_radix/stamps.rs";
const ROSTER: &str = "crates/kv-router-index/src/concurrent_radix/roster.rs";
const BELL: &str = "crates/kv-router/src/admit/bell.rs";
const SLOT: &str = "crates/kv-router/src/admit/slot.rs";
const ROUTES: &str = "crates/kv-router-index/src/pool/routes.rs";

/// All of them.
pub(super) fn all() -> impl Iterator<Item = &'static Mutation> {
    MUTATIONS.iter().chain(paged::MUTATIONS)
}

const MUTATIONS: &[Mutation] = &[
    Mutation {
        name: "drop the parent guard early",
        file: NODE,
        find: "                let newly = node.hold(slot, tier);",
        replace: "                drop(above);\n                let newly = node.hold(slot, tier);",
        model: "store_and_remove_on_one_chain",
    },
    Mutation {
        name: "free a node without looking again whether it is needed",
        file: NODE,
        find: "if state.is_dead() || state.is_needed() {",
        replace: "if state.is_dead() {",
        model: "freeing_and_store_through",
    },
    Mutation {
        name: "skip the dead-node re-check",
        file: NODE,
        find: "if state.is_dead() || state.is_needed() {",
        replace: "if state.is_needed() {",
        model: "removal_beside_store_and_removal",
    },
    Mutation {
        name: "make a child without looking again",
        file: NODE,
        find: "before the lock was ours.\n        if let Some(child) = above.child(local) {",
        replace: "before the lock was ours.\n        if let Some(child) = above.child(local).filter(|_| false) {",
        model: "two_stores_of_one_chain",
    },
    Mutation {
        name: "validate stamps never",
        file: FIND,
        find: "if roster.stamp(slot) == Some(stamp) {",
        replace: "if true {",
        model: "remove_then_store_below_and_lookup",
    },
    Mutation {
        name: "take a rank in the middle of an event for quiet",
        file: FIND,
        find: "} else if is_changing(stamp) {",
        replace: "} else if false && is_changing(stamp) {",
        model: "store_and_lookup",
    },
    Mutation {
        name: "walk without the lock that stops the rank",
        file: FIND,
        find: "        let names = rank.names.read();\n        if names.retired {\n            return;\n        }\n",
        replace: "",
        model: "two_stores_and_lookup",
    },
    Mutation {
        name: "do not mark the beginning of an event",
        file: STAMPS,
        find: "stamp.store(before + 1, Ordering::Relaxed);",
        replace: "",
        model: "store_and_lookup",
    },
    Mutation {
        name: "start stamps again when everybody has left",
        file: ROSTER,
        find: "floor: (highest | 1) + 1,",
        replace: "floor: highest & 0,",
        model: "slot_used_again_and_lookup",
    },
    Mutation {
        name: "store into a rank that has retired",
        file: TREE,
        find: "            if names.retired {",
        replace: "            if false && names.retired {",
        model: "clear_and_store_of_one_rank",
    },
    Mutation {
        name: "forget a worker without looking again for messages",
        file: ROUTES,
        find: "self.pending.load(Ordering::Acquire) == 0 && ",
        replace: "",
        model: "pool_keeps_order_when_a_worker_returns",
    },
    Mutation {
        name: "overhear a ring beside the work",
        file: BELL,
        find: "self.0.swap(AGAIN, Ordering::AcqRel) != IDLE",
        replace: "self.0.swap(BUSY, Ordering::AcqRel) != IDLE",
        model: "bell_answers_every_ring",
    },
    Mutation {
        name: "let two answer at a time",
        file: BELL,
        find: "if self.0.swap(AGAIN, Ordering::AcqRel) != IDLE {",
        replace: "if self.0.swap(AGAIN, Ordering::AcqRel) == 9 {",
        model: "nobody_waits_beside_room",
    },
    Mutation {
        name: "do not wake the task",
        file: SLOT,
        find: "let waker = state.waker.take();",
        replace: "let waker: Option<Waker> = None;",
        model: "slot_filled_beside_a_poll",
    },
    Mutation {
        name: "do not look again after copying the waker",
        file: SLOT,
        find: "        if let Some(value) = state.value.take() {\n            drop(state); // before the waker",
        replace: "        if let Some(value) = None {\n            drop(state);",
        model: "slot_filled_beside_a_poll",
    },
    Mutation {
        name: "do not wake the thread",
        file: SLOT,
        find: "        self.filled.notify_all();",
        replace: "",
        model: "slot_filled_beside_a_wait",
    },
];
