//! Whether a picture should be encoded, asked of the node's loop from the thread that encodes.

use std::sync::mpsc as reply;
use std::time::{Duration, Instant};

use aquila_proto::{FrameBitrate, FrameTurn, Session};
use tokio::sync::mpsc;

use crate::video::Flow;

/// A loop that does not answer within this has other worries. A third of a frame at 30 a second.
const PATIENCE: Duration = Duration::from_millis(10);
/// Encoders that ask at the same time.
const WAITING: usize = 16;

/// Asks a running node before each frame; for an encoder in this process, on a thread of its own.
#[derive(Debug, Clone)]
pub struct FrameGate {
    questions: mpsc::Sender<Question>,
    flow: Flow,
}

/// A picture is there.
#[derive(Debug)]
pub(super) struct Question {
    /// Of this camera.
    flow: Flow,
    /// It has been there for so long.
    waited: Duration,
    asked: Instant,
    answer: reply::SyncSender<FrameTurn>,
}

impl FrameGate {
    pub(super) fn new() -> (Self, mpsc::Receiver<Question>) {
        let (questions, asked) = mpsc::channel(WAITING);
        (Self { questions, flow: Flow::default() }, asked)
    }

    /// The same for a camera of this number.
    pub(super) fn of(&self, flow: Flow) -> Self {
        Self { questions: self.questions.clone(), flow }
    }

    /// One that is answered by a function, for trials of encoders.
    #[cfg(all(test, feature = "gstreamer"))]
    pub(crate) fn answering(mut answer: impl FnMut() -> Option<aquila_proto::Bitrate> + Send + 'static) -> Self {
        let (gate, mut asked) = Self::new();
        std::thread::spawn(move || {
            while let Some(question) = asked.blocking_recv() {
                let _ = question
                    .answer
                    .try_send(answer().map(FrameBitrate::both).map_or(FrameTurn::LeaveOut, FrameTurn::Encode));
            }
        });
        gate
    }

    /// A picture is there to be encoded: the rate to encode it for, or `None` if it should be left out; see
    /// [`Session::next_frame`]. Blocks while the picture has to wait for its turn, which is for less than the time from one to the next, and
    /// for at most 10 ms if there is no answer. A node that does not answer by then, or has ended, could not send the frame either.
    pub fn next_frame(&self) -> Option<FrameBitrate> {
        let since = Instant::now();
        loop {
            match self.ask(since.elapsed())? {
                FrameTurn::Encode(rate) => return Some(rate),
                FrameTurn::Wait(time) => std::thread::sleep(time),
                FrameTurn::LeaveOut => return None,
            }
        }
    }

    fn ask(&self, waited: Duration) -> Option<FrameTurn> {
        let (answer, answered) = reply::sync_channel(1);
        let question = Question { flow: self.flow, waited, asked: Instant::now(), answer };
        self.questions.try_send(question).ok()?;
        answered.recv_timeout(PATIENCE).ok()
    }
}

impl Question {
    pub(super) fn answer(self, session: &mut Session) {
        let now = Instant::now();
        if now.saturating_duration_since(self.asked) >= PATIENCE {
            return; // Nobody waits for the answer, and no picture will be made for it.
        }
        // There is room for the one answer.
        let _ = self.answer.try_send(session.next_frame(now, self.flow.number().into(), self.waited));
    }
}

#[cfg(test)]
mod tests {
    use aquila_proto::Bitrate;

    use super::*;

    const RATE: FrameBitrate = FrameBitrate { asked: Bitrate(7), lasting: Bitrate(5) };

    #[test]
    fn a_node_that_does_not_answer_holds_nobody_up() {
        let (gate, asked) = FrameGate::new();
        let began = Instant::now();
        assert_eq!(gate.next_frame(), None);
        assert!(began.elapsed() >= PATIENCE);
        for _ in 0..2 * WAITING {
            assert_eq!(gate.next_frame(), None, "no more questions than there is room for");
        }
        drop(asked);
        assert_eq!(gate.next_frame(), None);
    }

    #[test]
    fn the_answer_is_for_the_one_who_asked() {
        let (gate, mut asked) = FrameGate::new();
        let node = std::thread::spawn(move || {
            asked.blocking_recv().unwrap().answer.try_send(FrameTurn::Encode(RATE)).unwrap();
        });
        assert_eq!(gate.next_frame(), Some(RATE));
        node.join().unwrap();
    }

    #[test]
    fn a_picture_waits_for_its_turn_and_tells_for_how_long_it_has() {
        let (gate, mut asked) = FrameGate::new();
        let wait = Duration::from_millis(3);
        let node = std::thread::spawn(move || {
            for turn in [FrameTurn::Encode(RATE), FrameTurn::LeaveOut] {
                let first = asked.blocking_recv().unwrap();
                first.answer.try_send(FrameTurn::Wait(wait)).unwrap();
                let again = asked.blocking_recv().unwrap();
                assert!(again.waited >= first.waited + wait, "{:?} after {:?}", again.waited, first.waited);
                again.answer.try_send(turn).unwrap();
            }
        });
        assert_eq!(gate.next_frame(), Some(RATE));
        assert_eq!(gate.next_frame(), None);
        node.join().unwrap();
    }
}
