//! The receiving half of a session (RFC 9174 §5.2).

use std::collections::VecDeque;
use std::time::Instant;

use super::codec::{END, Extension, Message, Refusal, START, TRANSFER_LENGTH};
use super::session::{Event, Fault};
use super::{SessionConfig, TransferId};

/// Answers that wait to be written. More stop the reading.
const MAX_ANSWERS: usize = 1024;

/// What came of transfers, and what is answered.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    current: Option<Current>,
    /// Whole, and the caller has not said what becomes of them.
    undecided: usize,
    /// In the order in which the segments came; behind one that is held, all wait.
    answers: VecDeque<Answer>,
}

#[derive(Debug)]
struct Current {
    id: TransferId,
    /// What its sender said, of that many bytes at least.
    length: Option<u64>,
    bytes: Vec<u8>,
    refused: bool,
    /// Flags of the segment that is coming, and what of its data is to come.
    flags: u8,
    left: u64,
    /// Bytes since `mark`.
    step: u64,
    mark: Instant,
}

#[derive(Debug)]
enum Answer {
    Ready(Message),
    Held(TransferId, Message),
}

impl Incoming {
    /// Nothing is under way, and all answers are out.
    pub fn is_quiet(&self) -> bool {
        self.coming().is_none() && self.undecided == 0 && self.answers.is_empty()
    }

    /// There is room for more.
    pub fn has_room(&self, config: &SessionConfig) -> bool {
        self.undecided < config.undecided && self.answers.len() < MAX_ANSWERS
    }

    /// Bytes of the bundle that is coming.
    pub fn buffered(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| current.bytes.len() as u64)
    }

    /// Since when it has not come on.
    pub fn waiting_since(&self) -> Option<Instant> {
        self.coming().map(|current| current.mark)
    }

    /// The time begins anew: it was us who did not read.
    pub fn on_resumed(&mut self, now: Instant) {
        if let Some(current) = &mut self.current {
            current.mark = now;
        }
    }

    /// A segment's head. `ending`: nothing new is taken.
    pub fn on_segment(
        &mut self,
        now: Instant,
        config: &SessionConfig,
        ending: bool,
        segment: Segment,
    ) -> Result<Option<Event>, Fault> {
        if segment.len > config.segment {
            return Err(Fault::SegmentLength);
        }
        let flags = if segment.start { START } else { 0 } | if segment.end { END } else { 0 };
        if !segment.start {
            let Some(current) = self.current.as_mut().filter(|current| current.id == segment.id) else {
                return Err(Fault::NoTransfer);
            };
            (current.flags, current.left) = (flags, segment.len);
            return self.on_data(now, config, &[]);
        }
        if self.current.as_ref().is_some_and(|current| !current.refused) {
            return Err(Fault::Interleaved);
        }
        if self.is_undecided(segment.id) {
            return Err(Fault::SameTransfer);
        }
        let (length, refusal) = length_of(&segment.extensions);
        self.current = Some(Current {
            id: segment.id,
            length,
            bytes: Vec::new(),
            refused: false,
            flags,
            left: segment.len,
            step: 0,
            mark: now,
        });
        let refusal = match refusal {
            None if ending => Some(Refusal::SessionTerminating),
            None if length.is_some_and(|length| length > config.transfer) => Some(Refusal::NotAcceptable),
            refusal => refusal,
        };
        let refused = refusal.is_some();
        if let Some(reason) = refusal {
            self.refuse(segment.id, reason);
        }
        let whole = self.on_data(now, config, &[])?;
        Ok(if refused { None } else { whole.or(Some(Event::Begun { id: segment.id, length })) })
    }

    /// Data of that segment.
    pub fn on_data(&mut self, now: Instant, config: &SessionConfig, data: &[u8]) -> Result<Option<Event>, Fault> {
        let Some(current) = &mut self.current else { return Ok(None) };
        let len = data.len() as u64;
        current.left = current.left.saturating_sub(len);
        current.step += len;
        if current.step >= SessionConfig::STEP {
            (current.step, current.mark) = (0, now);
        }
        let id = current.id;
        let end = current.flags & END != 0;
        let total = current.bytes.len() as u64 + len;
        let mut refuse = None;
        if !current.refused {
            if total > current.length.unwrap_or(config.transfer).min(config.transfer) {
                refuse = Some(Refusal::NotAcceptable);
            } else {
                current.bytes.extend_from_slice(data);
            }
        }
        let done = current.left == 0;
        if done && end && !current.refused && current.length.is_some_and(|length| length != total) {
            refuse = Some(Refusal::NotAcceptable);
        }
        let flags = current.flags;
        if let Some(reason) = refuse {
            self.refuse(id, reason);
        }
        let refused = self.current.as_ref().is_none_or(|current| current.refused);
        match (done, end) {
            (false, _) => Ok(None),
            (true, false) => {
                if !refused {
                    self.answers.push_back(Answer::Ready(Message::Ack { flags, id, len: total }));
                }
                Ok(None)
            }
            (true, true) => {
                let bundle = self.current.take().map(|current| current.bytes).unwrap_or_default();
                if refused {
                    return Ok(None);
                }
                self.undecided += 1;
                self.answers.push_back(Answer::Held(id, Message::Ack { flags, id, len: total }));
                Ok(Some(Event::Received { id, bundle }))
            }
        }
    }

    /// The caller has it for good. False if there is no such transfer.
    pub fn accept(&mut self, id: TransferId) -> bool {
        self.decide(id, None)
    }

    /// It is not wanted. False if there is no such transfer.
    pub fn refuse(&mut self, id: TransferId, reason: Refusal) -> bool {
        match &mut self.current {
            Some(current) if current.id == id => {
                if !current.refused {
                    current.refused = true;
                    current.bytes = Vec::new();
                    self.answers.push_back(Answer::Ready(Message::Refuse { reason, id }));
                }
                true
            }
            _ => self.decide(id, Some(reason)),
        }
    }

    /// The next answer that may be written.
    pub fn next_answer(&mut self) -> Option<Message> {
        match self.answers.front()? {
            Answer::Held(..) => None,
            Answer::Ready(_) => match self.answers.pop_front() {
                Some(Answer::Ready(message)) => Some(message),
                _ => None,
            },
        }
    }

    /// What more is expected of. Of a refused transfer nothing is but the rest of a segment.
    fn coming(&self) -> Option<&Current> {
        self.current.as_ref().filter(|current| !current.refused || current.left > 0)
    }

    fn decide(&mut self, id: TransferId, refusal: Option<Refusal>) -> bool {
        let held = |answer: &&mut Answer| matches!(answer, Answer::Held(held, _) if *held == id);
        let Some(answer) = self.answers.iter_mut().find(held) else { return false };
        if let Answer::Held(_, ack) = answer {
            let message = refusal.map_or_else(|| ack.clone(), |reason| Message::Refuse { reason, id });
            *answer = Answer::Ready(message);
            self.undecided -= 1;
        }
        true
    }

    fn is_undecided(&self, id: TransferId) -> bool {
        self.answers.iter().any(|answer| matches!(answer, Answer::Held(held, _) if *held == id))
    }
}

/// A segment's head.
#[derive(Debug)]
pub(super) struct Segment {
    pub start: bool,
    pub end: bool,
    pub id: TransferId,
    pub extensions: Vec<Extension>,
    pub len: u64,
}

/// The length that a transfer says it has, and what is wrong with its extensions (RFC 9174 §5.2.5).
///
/// An item of eight bytes only is that length: dtn7 uses the same number for the bundle's name, as text.
fn length_of(extensions: &[Extension]) -> (Option<u64>, Option<Refusal>) {
    let mut length = None;
    for extension in extensions {
        let value: Option<[u8; 8]> = extension.value.as_ref().try_into().ok();
        match (extension.kind, value) {
            (TRANSFER_LENGTH, Some(_)) if length.is_some() => return (None, Some(Refusal::ExtensionFailure)),
            (TRANSFER_LENGTH, Some(value)) => length = Some(u64::from_be_bytes(value)),
            _ if extension.critical => return (None, Some(Refusal::ExtensionFailure)),
            _ => {}
        }
    }
    (length, None)
}
