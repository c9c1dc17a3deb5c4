//! Which object is sent first.

/// An object that the other side wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// What it is called.
    pub handle: u64,
    /// 0 is served first.
    pub priority: u8,
    /// By when it should be delivered, seconds since 1970; 0 if nothing is said.
    pub deadline_s: u64,
    /// Bytes on the way, in all.
    pub total: u64,
    /// Of them, those that are still to be sent.
    pub left: u64,
}

impl Candidate {
    /// So much of it is there that it had better be finished, whatever came since.
    fn is_nearly_done(&self) -> bool {
        10 * (self.total - self.left.min(self.total)) >= 7 * self.total
    }
}

/// Puts objects in the order in which they are sent. Strictly by priority. Within one, those first that can be finished in what is left
/// of the contact, `forecast` bytes: what is nearly done, then by deadline, then as they came, as long as they fit. What does not fit
/// fills the rest, in the same order. Without a forecast everything fits.
pub fn order(candidates: &mut [Candidate], forecast: Option<u64>) {
    let urgency = |candidate: &Candidate| {
        let deadline = candidate.deadline_s.checked_sub(1).unwrap_or(u64::MAX);
        (candidate.priority, !candidate.is_nearly_done(), deadline, candidate.handle)
    };
    candidates.sort_unstable_by_key(urgency);
    let mut room = forecast.unwrap_or(u64::MAX);
    let mut fits = |candidate: &Candidate| {
        let fits = candidate.left <= room;
        room -= if fits { candidate.left } else { 0 };
        fits
    };
    let mut ranked: Vec<(bool, Candidate)> =
        candidates.iter().map(|candidate| (!fits(candidate), *candidate)).collect();
    ranked.sort_by_key(|(misfit, candidate)| (candidate.priority, *misfit));
    candidates.iter_mut().zip(ranked).for_each(|(place, (_, candidate))| *place = candidate);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(of: &[(u8, u64, u64, u64)], forecast: Option<u64>) -> Vec<u64> {
        let made = of.iter().zip(1..).map(|(&(priority, deadline_s, total, left), handle)| Candidate {
            handle,
            priority,
            deadline_s,
            total,
            left,
        });
        let mut made: Vec<_> = made.collect();
        order(&mut made, forecast);
        made.iter().map(|candidate| candidate.handle).collect()
    }

    #[test]
    fn by_priority_then_what_can_be_finished_then_by_deadline() {
        assert_eq!(ordered(&[(3, 0, 9, 9), (0, 0, 9, 9), (3, 0, 9, 9)], None), [2, 1, 3]);
        assert_eq!(ordered(&[(3, 0, 9, 9), (3, 50, 9, 9), (3, 20, 9, 9)], None), [3, 2, 1]);
        // Nearly done before an earlier deadline.
        assert_eq!(ordered(&[(3, 5, 100, 100), (3, 0, 100, 30)], None), [2, 1]);
        assert_eq!(ordered(&[(3, 5, 100, 100), (3, 0, 100, 31)], None), [1, 2]);
        // A contact of 100: the first does not fit, the others do; it takes what is left.
        assert_eq!(
            ordered(&[(3, 5, 400, 400), (3, 6, 60, 60), (3, 0, 40, 40), (3, 0, 10, 10)], Some(100)),
            [2, 3, 1, 4]
        );
        // But never before what is more important.
        assert_eq!(ordered(&[(0, 0, 400, 400), (3, 0, 10, 10)], Some(100)), [1, 2]);
        assert_eq!(ordered(&[(3, 0, 0, 0)], Some(0)), [1]);
    }
}
