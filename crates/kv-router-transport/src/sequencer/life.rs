//! Where a batch belongs: to the present life, to a newer one, or to one that is over.

use super::{Action, ForgetReason, Numbered, Phase, SkipReason, Standing, StreamSequencer};

pub(super) enum Place {
    Stale,
    Starts(ForgetReason),
    Continues,
}

impl<P> StreamSequencer<P> {
    pub(super) fn place(&self, batch: &Numbered<P>) -> Place {
        if let Some(life) = self.life {
            if batch.incarnation < life {
                return Place::Stale;
            }
            if batch.incarnation > life {
                return Place::Starts(ForgetReason::NewIncarnation);
            }
        }
        match self.phase {
            Phase::Retired => Place::Stale,
            _ if !self.contact => Place::Starts(ForgetReason::FirstContact),
            _ => Place::Continues,
        }
    }

    pub(super) fn begin_life(&mut self, first: &Numbered<P>, reason: ForgetReason, out: &mut Vec<Action<P>>) {
        let had_contact = self.contact;
        self.abandon_below(u64::MAX, out);
        self.forget(reason, out);
        self.leave_life();
        self.counters.new_lives += u64::from(self.life.is_some_and(|life| life != first.incarnation));
        self.life = Some(first.incarnation);
        self.contact = true;
        self.whole = true;
        self.next = self.config.first_sequence.min(first.sequence);
        // A catch-up that was asked for before there was contact to any life goes on: it asked for this one.
        if had_contact || !matches!(self.standing(), Standing::Recovering) {
            self.phase = Phase::Live;
        }
    }

    /// Drops what is known of the life, but not which life it is.
    pub(super) fn leave_life(&mut self) {
        self.contact = false;
        self.next = self.config.first_sequence;
        self.known = None;
        self.newest_live = None;
        self.snapshot_tried = false;
    }

    pub(crate) fn skip(&mut self, sequence: u64, reason: SkipReason, out: &mut Vec<Action<P>>) {
        let counter = match reason {
            SkipReason::Duplicate => &mut self.counters.duplicates,
            SkipReason::Stale => &mut self.counters.stale,
            SkipReason::Abandoned => &mut self.counters.abandoned,
            SkipReason::Unasked => &mut self.counters.unasked,
            SkipReason::Reserved => &mut self.counters.reserved,
        };
        *counter += 1;
        out.push(Action::Skip { sequence, reason });
    }
}
