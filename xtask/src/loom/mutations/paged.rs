//! The bugs of the pages.

use super::Mutation;

const HOLDERS: &str = "crates/kv-router-index/src/paged/holders.rs";
const PAGE: &str = "crates/kv-router-index/src/paged/page.rs";
const PAGES: &str = "crates/kv-router-index/src/paged/pages.rs";
const LOCALS: &str = "crates/kv-router-index/src/paged/locals.rs";
const RANKS: &str = "crates/kv-router-index/src/paged/ranks.rs";
const LINES: &str = "crates/kv-router-index/src/paged/lines.rs";
const EDGES: &str = "crates/kv-router-index/src/paged/edges.rs";
const TIERS: &str = "crates/kv-router-index/src/paged/tiers.rs";
const SHARED: &str = "crates/kv-router-index/src/paged/shared.rs";
const SLOTS: &str = "crates/kv-router-index/src/paged/slots.rs";
const FIND: &str = "crates/kv-router-index/src/paged/find.rs";

pub(super) const MUTATIONS: &[Mutation] = &[
    Mutation {
        name: "do not say that a rank shrank",
        file: HOLDERS,
        find: "if entry.reach() < before.reach() || entry.tiers() != before.tiers() {",
        replace: "if entry.tiers() != before.tiers() {",
        model: "paged_hole_then_store_below",
    },
    Mutation {
        name: "say that a rank shrinks before it does",
        file: HOLDERS,
        find: "self.set_holding(lines, index, Holding::One(entry));\n        if entry.reach() < before.reach() || entry.tiers() != before.tiers() {\n            self.bump();\n        }",
        replace: "if entry.reach() < before.reach() || entry.tiers() != before.tiers() {\n            self.bump();\n        }\n        self.set_holding(lines, index, Holding::One(entry));",
        model: "paged_hole_then_store_below",
    },
    Mutation {
        name: "do not say that tiers changed",
        file: HOLDERS,
        find: " || entry.tiers() != before.tiers() {",
        replace: " {",
        model: "paged_tier_record_used_again",
    },
    Mutation {
        name: "do not say that a rank left",
        file: HOLDERS,
        find: "self.set_holders(holders.with_count(count));\n        self.bump();",
        replace: "self.set_holders(holders.with_count(count));",
        model: "paged_slot_used_again",
    },
    Mutation {
        name: "do not say that the list of holders moved",
        file: HOLDERS,
        find: "self.set_holders(new);\n        self.bump();",
        replace: "self.set_holders(new);",
        model: "paged_list_used_again",
    },
    Mutation {
        name: "leave a crew without saying so before",
        file: HOLDERS,
        find: "one may be out of date.\n        self.bump();\n",
        replace: "one may be out of date.\n",
        model: "paged_leave_crew",
    },
    Mutation {
        name: "join a crew without saying so before the old place is left",
        file: HOLDERS,
        find: "one may be out of date.\n        self.bump();\n",
        replace: "one may be out of date.\n",
        model: "paged_join_crew",
    },
    Mutation {
        name: "leave a crew without saying so after",
        file: HOLDERS,
        find: "self.take_out(lines, old, entry.slot());\n        }\n        self.bump();\n",
        replace: "self.take_out(lines, old, entry.slot());\n        }\n",
        model: "paged_leave_crew_then_store_below",
    },
    Mutation {
        name: "count a rank twice that is on its way from word to word",
        file: RANKS,
        find: "            *gone &= !here;\n",
        replace: "",
        model: "paged_leave_crew",
    },
    Mutation {
        name: "do not say that a slot stands for nobody",
        file: SLOTS,
        find: "            info.rank.store(0, Ordering::Release);\n            self.changes.fetch_add(1, Ordering::Release);\n",
        replace: "            info.rank.store(0, Ordering::Release);\n",
        model: "paged_clear_and_ask_again",
    },
    Mutation {
        name: "do not say that the end was cut off",
        file: PAGES,
        find: "page.set_shape(shape.with_len(end));\n        page.bump();",
        replace: "page.set_shape(shape.with_len(end));",
        model: "paged_end_written_anew",
    },
    Mutation {
        name: "append without a fence",
        file: LOCALS,
        find: "        fence(Ordering::Release);\n",
        replace: "",
        model: "paged_end_written_anew_by_another",
    },
    Mutation {
        name: "do not say that the content moved",
        file: PAGES,
        find: "page.set_content(page.content().with_extent(new));\n        page.bump();",
        replace: "page.set_content(page.content().with_extent(new));",
        model: "paged_lines_used_again",
    },
    Mutation {
        name: "give memory away before the word is swung",
        file: PAGES,
        find: "page.set_content(page.content().with_extent(new));\n        page.bump();\n        self.lines.free(old);",
        replace: "self.lines.free(old);\n        page.set_content(page.content().with_extent(new));\n        page.bump();",
        model: "paged_lines_used_again",
    },
    Mutation {
        name: "use memory again without a fence",
        file: LINES,
        find: "fence(Ordering::Release);\n        Extent { line, class }",
        replace: "Extent { line, class }",
        model: "paged_lines_copied_into",
    },
    Mutation {
        name: "make a page below the root without looking again",
        file: PAGES,
        find: "if parent.is_none() && self.child(at, offset, first).is_some() {",
        replace: "if false && self.child(at, offset, first).is_some() {",
        model: "paged_two_make_one_root",
    },
    Mutation {
        name: "enter a page that died in the meantime",
        file: PAGES,
        find: "if page.is_alive() && page.shape().hangs_at(at, offset)",
        replace: "if page.shape().hangs_at(at, offset)",
        model: "paged_free_and_enter",
    },
    Mutation {
        name: "free a page below the root without looking again",
        file: PAGES,
        find: "locked.shape().parent() == ROOT && is_abandoned(&locked)",
        replace: "locked.shape().parent() == ROOT",
        model: "paged_free_and_enter",
    },
    Mutation {
        name: "free a page below another without looking again",
        file: PAGES,
        find: "            if !is_abandoned(&locked) {",
        replace: "            if false && !is_abandoned(&locked) {",
        model: "paged_free_and_attach",
    },
    Mutation {
        name: "free a page that is free",
        file: PAGES,
        find: "if !header.state().is_alive() || header.shape()",
        replace: "if header.shape()",
        model: "paged_free_beside_store_and_remove",
    },
    Mutation {
        name: "swing to a table that is not filled",
        file: EDGES,
        find: "        let larger = allocated(&edges.tables[size + 1][segment], size + 1);\n",
        replace: "        let larger = allocated(&edges.tables[size + 1][segment], size + 1);\n        edges.current[segment].store(size as u64 + 1, Ordering::Release);\n",
        model: "paged_growth_and_lookup",
    },
    Mutation {
        name: "use a tier record again without a fence",
        file: TIERS,
        find: "        fence(Ordering::Release);\n",
        replace: "",
        model: "paged_tier_record_used_again",
    },
    Mutation {
        name: "give a slot away with pages that name it",
        file: SHARED,
        find: "self.slots.retire(slot);\n        let mut graves",
        replace: "self.slots.recycle(slot);\n        let mut graves",
        model: "paged_slot_kept_while_pages_name_it",
    },
    Mutation {
        name: "report a rank that was cleared",
        file: SLOTS,
        find: "(rank & ALIVE != 0).then(",
        replace: "(rank & ALIVE < 2).then(",
        model: "paged_clear_and_store_again",
    },
    Mutation {
        name: "never look whether a page changed",
        file: FIND,
        find: "pages.headers.at(step.page).state() == step.state)",
        replace: "pages.headers.at(step.page).state().is_alive() || true)",
        model: "paged_hole_then_store_below",
    },
    Mutation {
        name: "look at the versions without a fence",
        file: FIND,
        find: "        fence(Ordering::Acquire);\n        scratch.path",
        replace: "        scratch.path",
        model: "paged_slot_used_again",
    },
    Mutation {
        name: "go to the next page without a fence",
        file: FIND,
        find: "            fence(Ordering::Acquire);\n            let sets",
        replace: "            let sets",
        model: "paged_new_child_then_refill",
    },
    Mutation {
        name: "look at slots without a fence",
        file: FIND,
        find: "            fence(Ordering::Acquire);\n            let sets",
        replace: "            let sets",
        model: "paged_clear_and_store_again",
    },
    Mutation {
        name: "take a page that grew for one that ends",
        file: FIND,
        find: "if deepest > shape.len() {",
        replace: "if false && deepest > shape.len() {",
        model: "paged_store_behind_hole_then_refill",
    },
    Mutation {
        name: "bring a page back under its old version",
        file: PAGE,
        find: "self.state |= ALIVE;\n        self.bump();",
        replace: "self.state |= ALIVE;\n        self.publish();",
        model: "paged_page_used_again_below",
    },
    Mutation {
        name: "wait until an empty page is freed",
        file: FIND,
        find: "if shape.len() == 0 {",
        replace: "if false && shape.len() == 0 {",
        model: "paged_page_used_again",
    },
];
