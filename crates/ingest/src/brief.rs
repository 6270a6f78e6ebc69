//! When a client leaves the chunks out of its offers (B1).
//!
//! A segment's fingerprint and length have some 40 bytes, and its chunks some 18,000. If the store
//! knew the last segments of a stream whole, it probably knows the next ones. So the client offers
//! them briefly, and keeps their chunks for the case that the store asks. A wrong guess costs a
//! round trip. After it, a few segments travel with their chunks again.
//!
//! In a series that has a backup, the client guesses so from the second segment of a stream on. A
//! short stream, of which some chunk is mostly new, costs no more round trips than before.
//!
//! A segment with chunks of an earlier backup always travels with its chunks. It is probably new,
//! because somebody changed a file there. And if the store knows it, its decision may depend on the
//! places that the client names.
//!
//! A caller may offer segments without their chunks itself. It then answers the store's questions
//! about them ([`Verdict::Unknown`]), and bounds how many wait.
//!
//! Any number of threads: one offers, and another takes verdicts.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::dedup::StreamIndex;
use crate::message::{Offer, OfferedChild, OfferedPlace, OfferedSegment, Verdict};

/// A segment is offered briefly after so many known ones of its stream, if the caller does not say
/// otherwise.
const STREAK: u32 = 4;
/// At most so many segments wait for verdicts while one of them is brief, ...
const WAITING_MAX: usize = 1024;
/// ... with at most so many chunks, and those of one message and one segment more. The server keeps
/// no more. Of chunks of the usual length, these are those of 512 MiB.
const WAITING_CHUNKS_MAX: usize = 1 << 16;
/// How long one wait lasts, before the caller looks whether the backup still runs.
const WAIT: Duration = Duration::from_millis(200);

/// The offered segments of a backup, as far as they have no verdict.
#[derive(Debug)]
pub struct BriefOffers {
    streak: u32,
    /// Whether the segments of a stream are probably known, until a verdict says otherwise.
    is_hopeful: bool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    streams: Vec<Stream>,
    /// Segments without a verdict, in all streams.
    waiting: usize,
    /// Their chunks.
    chunks: usize,
    /// Those among them for whose chunks the store may ask.
    brief: usize,
}

#[derive(Debug, Default)]
struct Stream {
    /// The last verdicts that said "known", without a break.
    known: u32,
    /// Whether a segment was offered, ...
    has_begun: bool,
    /// ... and whether some verdict said that one was not known.
    has_new: bool,
    /// How many of the first ones without a verdict wait for more of the stream.
    waits: usize,
    /// The segments without a verdict.
    offered: VecDeque<Waiting>,
}

/// A segment without a verdict.
#[derive(Debug)]
struct Waiting {
    /// How many chunks it has.
    chunks: usize,
    /// The chunks, if it was offered briefly and the store may still ask for them.
    kept: Option<Vec<OfferedChild>>,
    /// Whether the caller offered it briefly, and the store may still ask for its chunks.
    is_callers: bool,
}

impl State {
    fn stream(&mut self, stream: StreamIndex) -> &mut Stream {
        let at = usize::from(stream.0);
        if self.streams.len() <= at {
            self.streams.resize_with(at + 1, Stream::default);
        }
        &mut self.streams[at]
    }
}

impl Default for BriefOffers {
    fn default() -> Self {
        Self::after(STREAK)
    }
}

impl BriefOffers {
    /// A segment is offered briefly after so many known ones of its stream. 0: every segment.
    #[must_use]
    pub fn after(streak: u32) -> Self {
        Self {
            streak,
            is_hopeful: false,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Sets whether the series has a backup.
    #[must_use]
    pub fn hopeful(mut self, is_hopeful: bool) -> Self {
        self.is_hopeful = is_hopeful;
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until more segments may be offered. Returns whether they may; if not, the caller looks
    /// whether the backup still runs, and calls again.
    #[must_use]
    pub fn wait(&self) -> bool {
        let mut state = self.state();
        let is_full = |state: &State| {
            let are_many = state.waiting >= WAITING_MAX || state.chunks >= WAITING_CHUNKS_MAX;
            state.brief > 0 && are_many
        };
        if is_full(&state) {
            let waited = self.changed.wait_timeout(state, WAIT);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        !is_full(&state)
    }

    /// The offer to send in place of this one.
    #[must_use]
    pub fn offer(&self, offer: Offer) -> Offer {
        let mut state = self.state();
        let (stream, chunks, kept, offer) = match offer {
            Offer::Segment { stream, segment } if self.is_brief(state.stream(stream), &segment) => {
                let OfferedSegment {
                    fingerprint,
                    len,
                    children,
                } = segment;
                let brief = Offer::Brief {
                    stream,
                    fingerprint,
                    len,
                };
                (stream, children.len(), Some(children), brief)
            }
            Offer::Segment { stream, ref segment } => (stream, segment.children.len(), None, offer),
            Offer::Copy { stream, .. } | Offer::Brief { stream, .. } => (stream, 0, None, offer),
            other => return other,
        };
        state.waiting += 1;
        state.chunks += chunks;
        state.brief += usize::from(kept.is_some());
        let is_callers = kept.is_none() && matches!(offer, Offer::Brief { .. });
        let waiting = Waiting {
            chunks,
            kept,
            is_callers,
        };
        let of_stream = state.stream(stream);
        of_stream.offered.push_back(waiting);
        of_stream.has_begun = true;
        offer
    }

    fn is_brief(&self, stream: &Stream, segment: &OfferedSegment) -> bool {
        let is_stored = |child: &OfferedChild| matches!(child.place, OfferedPlace::Stored(_));
        let hopes = self.is_hopeful && stream.has_begun && !stream.has_new;
        (stream.known >= self.streak || hopes) && !segment.children.iter().any(is_stored)
    }

    /// Notes a verdict. Sends the chunks for which it asks. Only then may more segments be offered:
    /// the store keeps what is offered before the chunks, and bounds it. It asks for no chunks of a
    /// segment that waits for more of the stream.
    ///
    /// # Errors
    /// If the chunks cannot be sent.
    pub fn note<E>(&self, verdict: Verdict, send: impl FnOnce(Offer) -> Result<(), E>) -> Result<Noted, E> {
        let mut state = self.state();
        match &verdict {
            Verdict::Segment { stream, wanted } => {
                let of_stream = state.stream(*stream);
                of_stream.known = if wanted.is_empty() { of_stream.known + 1 } else { 0 };
                of_stream.has_new |= !wanted.is_empty();
                of_stream.waits = of_stream.waits.saturating_sub(1);
                if let Some(waited) = of_stream.offered.pop_front() {
                    state.waiting -= 1;
                    state.chunks -= waited.chunks;
                    state.brief -= usize::from(waited.kept.is_some());
                }
                self.changed.notify_all();
                Ok(Noted::Verdict(verdict))
            }
            Verdict::Waits(stream) => {
                let of_stream = state.stream(*stream);
                let waits = of_stream.offered.get_mut(of_stream.waits);
                let was_brief = waits.is_some_and(|waits| {
                    waits.is_callers = false;
                    waits.kept.take().is_some()
                });
                of_stream.waits += 1;
                state.brief -= usize::from(was_brief);
                self.changed.notify_all();
                Ok(Noted::Verdict(verdict))
            }
            Verdict::Unknown(stream) => {
                let of_stream = state.stream(*stream);
                of_stream.known = 0;
                of_stream.has_new = true;
                let may_be_asked = |one: &&mut Waiting| one.is_callers || one.kept.is_some();
                let Some(asked) = of_stream.offered.iter_mut().find(may_be_asked) else {
                    return Ok(Noted::Unasked);
                };
                asked.is_callers = false;
                let Some(children) = asked.kept.take() else {
                    return Ok(Noted::Verdict(verdict));
                };
                drop(state);
                let stream = *stream;
                send(Offer::Children { stream, children })?;
                self.state().brief -= 1;
                self.changed.notify_all();
                Ok(Noted::Answered)
            }
            Verdict::Flush(_) | Verdict::Done => Ok(Noted::Verdict(verdict)),
        }
    }
}

/// What a verdict leads to.
#[derive(Debug)]
pub enum Noted {
    /// The client's half takes it.
    Verdict(Verdict),
    /// It asked for chunks, and they were sent.
    Answered,
    /// It asks for chunks that were not left out: the server breaks the protocol.
    Unasked,
}

#[cfg(test)]
mod tests {
    use types::Fingerprint;

    use super::*;

    const ONE: StreamIndex = StreamIndex(0);

    fn segment(number: u8) -> Offer {
        Offer::Segment {
            stream: ONE,
            segment: OfferedSegment {
                fingerprint: Fingerprint::from_bytes([number; 32]),
                len: 5,
                children: Vec::new(),
            },
        }
    }

    fn with_a_changed_file() -> Offer {
        let Offer::Segment { stream, mut segment } = segment(9) else {
            unreachable!("it makes a segment")
        };
        let container = types::ContainerId {
            session: types::SessionId::new(1).unwrap(),
            kind: types::ContainerKind::Data,
            sequence: types::SequenceNumber::new(0).unwrap(),
        };
        let slot = types::Slot::new(0).unwrap();
        let at = types::ChunkLocation { container, slot };
        segment.children = [OfferedPlace::Stored(at), OfferedPlace::Client]
            .map(|place| OfferedChild {
                fingerprint: Fingerprint::from_bytes([0; 32]),
                len: 1,
                place,
            })
            .into();
        Offer::Segment { stream, segment }
    }

    fn known() -> Verdict {
        Verdict::Segment {
            stream: ONE,
            wanted: Vec::new(),
        }
    }

    fn is_brief(offer: &Offer) -> bool {
        matches!(offer, Offer::Brief { .. })
    }

    fn note(offers: &BriefOffers, verdict: Verdict) -> Noted {
        let is_sent = |offer| {
            assert!(matches!(offer, Offer::Children { .. }));
            Ok::<_, ()>(())
        };
        offers.note(verdict, is_sent).unwrap()
    }

    fn note_known(offers: &BriefOffers, count: usize) {
        (0..count).for_each(|_| drop(note(offers, known())));
    }

    #[test]
    fn segments_are_brief_after_known_ones_until_one_is_unknown() {
        let offers = BriefOffers::default();
        for number in 0..6 {
            assert!(!is_brief(&offers.offer(segment(number))));
        }
        note_known(&offers, 4);
        assert!(is_brief(&offers.offer(segment(6))));
        assert!(is_brief(&offers.offer(segment(7))));
        // The verdicts of 4 and 5, and then 6 is unknown.
        note_known(&offers, 2);
        assert!(matches!(note(&offers, Verdict::Unknown(ONE)), Noted::Answered));
        assert!(!is_brief(&offers.offer(segment(8))));
        note_known(&offers, 3);
        assert!(matches!(note(&offers, Verdict::Unknown(ONE)), Noted::Unasked));
    }

    #[test]
    fn in_a_series_with_a_backup_the_second_segment_is_brief() {
        let offers = BriefOffers::default().hopeful(true);
        assert!(!is_brief(&offers.offer(segment(0))));
        assert!(is_brief(&offers.offer(segment(1))));
        assert!(is_brief(&offers.offer(segment(2))));
        assert!(!is_brief(&offers.offer(with_a_changed_file())));
        note_known(&offers, 1);
        assert!(matches!(note(&offers, Verdict::Unknown(ONE)), Noted::Answered));
        assert!(!is_brief(&offers.offer(segment(3))));
    }

    #[test]
    fn few_segments_wait_beside_a_brief_one() {
        let offers = BriefOffers::default();
        (0..4).for_each(|number| drop(offers.offer(segment(number))));
        note_known(&offers, 4);
        for number in 0..WAITING_MAX {
            assert!(offers.wait(), "{number}");
            assert!(is_brief(&offers.offer(segment(9))));
        }
        assert!(!offers.wait());
        note_known(&offers, 1);
        assert!(offers.wait());
    }

    /// The store has chunks of a segment that waits, and asks for those of the next one.
    #[test]
    fn a_segment_that_waits_is_not_asked_for() {
        let offers = BriefOffers::after(0);
        let with_chunks = |number, chunks| {
            let Offer::Segment { stream, mut segment } = segment(number) else {
                unreachable!("it makes a segment")
            };
            segment.children = vec![
                OfferedChild {
                    fingerprint: Fingerprint::from_bytes([number; 32]),
                    len: 1,
                    place: OfferedPlace::Client,
                };
                chunks
            ];
            Offer::Segment { stream, segment }
        };
        for (number, chunks) in [(0, WAITING_CHUNKS_MAX), (1, 1), (2, 2)] {
            assert!(is_brief(&offers.offer(with_chunks(number, chunks))));
        }
        assert!(!offers.wait());
        for _ in 0..2 {
            assert!(matches!(note(&offers, Verdict::Waits(ONE)), Noted::Verdict(_)));
        }
        let noted = offers.note(Verdict::Unknown(ONE), |offer| match offer {
            Offer::Children { children, .. } if children.len() == 2 => Ok(()),
            _ => Err("the chunks of another segment"),
        });
        assert!(matches!(noted, Ok(Noted::Answered)), "{noted:?}");
        assert!(offers.wait(), "the store has the chunks of all that wait");
        // After the verdicts, the next one is the first again.
        note_known(&offers, 3);
        drop(offers.offer(with_chunks(3, 1)));
        drop(offers.offer(with_chunks(4, 1)));
        note(&offers, Verdict::Waits(ONE));
        assert!(matches!(note(&offers, Verdict::Unknown(ONE)), Noted::Answered));
        assert!(matches!(note(&offers, Verdict::Unknown(ONE)), Noted::Unasked));
    }

    #[test]
    fn a_segment_with_stored_chunks_travels_with_them() {
        let offers = BriefOffers::after(0).hopeful(true);
        assert!(is_brief(&offers.offer(segment(0))));
        assert!(!is_brief(&offers.offer(with_a_changed_file())));
    }

    /// A copy between stores offers briefly itself, beside segments that are made brief here.
    #[test]
    fn a_caller_answers_for_its_own_brief_segments() {
        let offers = BriefOffers::after(0);
        let own = || Offer::Brief {
            stream: ONE,
            fingerprint: Fingerprint::from_bytes([3; 32]),
            len: 5,
        };
        for offer in [own(), segment(1), own(), own()] {
            assert!(is_brief(&offers.offer(offer)));
        }
        let none = |_| -> Result<(), &str> { Err("nothing is sent for it") };
        let asked = |offers: &BriefOffers| offers.note(Verdict::Unknown(ONE), none);
        assert!(matches!(
            asked(&offers),
            Ok(Noted::Verdict(Verdict::Unknown(ONE)))
        ));
        note_known(&offers, 1);
        // The one of the client's half, whose chunks are here.
        assert!(matches!(note(&offers, Verdict::Unknown(ONE)), Noted::Answered));
        note_known(&offers, 1);
        // One that waits is not asked for.
        note(&offers, Verdict::Waits(ONE));
        assert!(matches!(
            asked(&offers),
            Ok(Noted::Verdict(Verdict::Unknown(ONE)))
        ));
        note_known(&offers, 2);
        assert!(matches!(note(&offers, Verdict::Unknown(ONE)), Noted::Unasked));
    }

    /// The store bounds what it keeps behind a brief segment that it does not know.
    #[test]
    fn more_segments_are_offered_only_after_the_chunks_that_were_asked_for() {
        let offers = BriefOffers::default().hopeful(true);
        assert!(!is_brief(&offers.offer(segment(0))));
        assert!(is_brief(&offers.offer(segment(1))));
        note_known(&offers, 1);
        for _ in 1..WAITING_MAX {
            assert!(offers.wait());
            assert!(!is_brief(&offers.offer(with_a_changed_file())));
        }
        assert!(!offers.wait());
        let failed = offers.note(Verdict::Unknown(ONE), |_| {
            assert!(!offers.wait(), "the chunks are on their way");
            Err("the connection broke")
        });
        assert!(failed.is_err() && !offers.wait());

        let offers = BriefOffers::default().hopeful(true);
        (0..2).for_each(|number| drop(offers.offer(segment(number))));
        (0..WAITING_MAX).for_each(|_| drop(offers.offer(with_a_changed_file())));
        note_known(&offers, 1);
        assert!(!offers.wait());
        assert!(matches!(note(&offers, Verdict::Unknown(ONE)), Noted::Answered));
        assert!(offers.wait());
    }
}
