//! Which messages an endpoint takes or gives.

use crate::mavlink::MessageId;

/// A list of messages to pass or to stop. The default passes everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    allow: Option<Vec<MessageId>>,
    block: Vec<MessageId>,
}

impl Filter {
    /// Passes everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Passes only these, less what is blocked.
    #[must_use]
    pub fn allow(mut self, ids: impl IntoIterator<Item = MessageId>) -> Self {
        self.allow = Some(sorted(ids));
        self
    }

    /// Stops these.
    #[must_use]
    pub fn block(mut self, ids: impl IntoIterator<Item = MessageId>) -> Self {
        self.block = sorted(ids);
        self
    }

    /// Whether messages with this id pass.
    pub fn passes(&self, id: MessageId) -> bool {
        self.allow.as_ref().is_none_or(|ids| ids.binary_search(&id).is_ok()) && self.block.binary_search(&id).is_err()
    }
}

fn sorted(ids: impl IntoIterator<Item = MessageId>) -> Vec<MessageId> {
    let mut ids: Vec<_> = ids.into_iter().collect();
    ids.sort_unstable();
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocking_wins_over_allowing() {
        let [a, b, c] = [3, 1, 2].map(MessageId);
        assert!(Filter::new().passes(a));
        let only = Filter::new().allow([a, b]).block([b]);
        assert!(only.passes(a) && !only.passes(b) && !only.passes(c));
        let not = Filter::new().block([c, a]);
        assert!(!not.passes(a) && not.passes(b) && !not.passes(c));
        assert!(!Filter::new().allow([]).passes(a));
    }
}
