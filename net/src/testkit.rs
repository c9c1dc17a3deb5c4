//! What a test needs to see what was logged.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// What is logged by this thread, from now until it is dropped.
pub(crate) struct Log {
    lines: Lines,
    _until: DefaultGuard,
    /// As long as there is but one, what another thread is the first to log is taken to be of interest to nobody.
    _second: Dispatch,
}

impl Log {
    pub(crate) fn begin() -> Self {
        let lines = Lines::default();
        Self { lines: lines.clone(), _until: set_default(lines.clone()), _second: Dispatch::new(lines) }
    }

    /// A line for each event: its level and its fields.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.0.lock().unwrap().clone()
    }
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("aquila")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}
