//! The pieces that a [`Path`](crate::Path) is made of, one behaviour each.

mod bottleneck;
mod delay;
mod loss;

pub(crate) use bottleneck::{Bottleneck, Served};
pub(crate) use delay::DelayLine;
pub(crate) use loss::Loss;
