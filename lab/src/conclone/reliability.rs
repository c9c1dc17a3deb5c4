//! Does a packet arrive over one of the links?

use super::Probability;

/// That a packet sent once over each link is lost on all of them: the product of their losses [CONCLONE eq. 1]. Without
/// links it is lost.
pub fn all_lost(losses: impl IntoIterator<Item = Probability>) -> Probability {
    Probability::clamped(losses.into_iter().map(Probability::get).product())
}

/// The same for `links` links that lose alike: f^n [CONCLONE eq. 2].
pub fn all_alike_lost(loss: Probability, links: u32) -> Probability {
    Probability::clamped(loss.get().powf(f64::from(links)))
}

/// What `independent` becomes if a share of the packets is lost on all links at once, whatever each of them does: behind a
/// hill, by one jammer, with one mast. The paper takes that share as 0; it is what more links can not go below.
pub fn with_shared(independent: Probability, shared: Probability) -> Probability {
    Probability::clamped(shared.get() + shared.complement().get() * independent.get())
}
