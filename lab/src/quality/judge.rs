//! How good is what is seen: it is decoded, and each picture filmed is compared with the one that is seen in its place.

use std::ops::Range;

use serde::Serialize;
use thiserror::Error;

use super::codec::{CodecError, Engine, Unit};
use super::content::{Content, Store, StoreError};
use super::scale::scaled;
use super::ssim::ssim_luma;
use super::vmaf::{Judging, Vmaf, VmafError};
use crate::camera::{Yuv, psnr_luma_db};

/// Equal pictures have no finite PSNR; they count as this.
const MOST_PSNR_DB: f64 = 100.0;

/// Means over pictures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quality {
    /// Of luma, dB; the mean of the pictures' own values.
    pub psnr_db: f64,
    /// Of luma, up to 1.
    pub ssim: f64,
    /// 0 to 100, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vmaf: Option<f64>,
}

impl Quality {
    /// Each figure as a share of another's.
    pub fn over(&self, other: &Self) -> Self {
        Self {
            psnr_db: self.psnr_db / other.psnr_db,
            ssim: self.ssim / other.ssim,
            vmaf: self.vmaf.zip(other.vmaf).map(|(a, b)| a / b),
        }
    }

    /// Means of several; VMAF only if all have it. `None` of none.
    pub fn mean(of: &[Self]) -> Option<Self> {
        let mean = |figure: fn(&Self) -> f64| of.iter().map(figure).sum::<f64>() / of.len() as f64;
        let vmaf = of.iter().map(|one| one.vmaf).sum::<Option<f64>>();
        (!of.is_empty()).then(|| Self {
            psnr_db: mean(|one| one.psnr_db),
            ssim: mean(|one| one.ssim),
            vmaf: vmaf.map(|sum| sum / of.len() as f64),
        })
    }
}

/// Why quality was not measured.
#[derive(Debug, Error)]
pub enum JudgeError {
    /// Pictures as filmed are not to be had.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The decoder failed.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// VMAF failed.
    #[error(transparent)]
    Vmaf(#[from] VmafError),
}

/// What is judged, and by what.
#[derive(Clone)]
pub struct Setting<'a> {
    /// The pictures as filmed.
    pub store: &'a Store,
    /// Who encodes and decodes.
    pub engine: Engine,
    /// The pictures that count.
    pub range: Range<u32>,
    /// VMAF, if it is wanted and there.
    pub vmaf: Option<&'a Vmaf>,
    /// Is told the number of each picture that is done.
    pub progress: &'a dyn Fn(u32),
}

/// Judges several ways of seeing the same stream at once: `views` say, each, for every picture filmed which one is seen (see
/// [`shown`](super::shown())). `decodable` are the numbers of those that are, in order, each with its bytes. Where nothing is seen yet, a
/// grey picture is.
///
/// # Errors
/// [`JudgeError`].
pub fn judge(
    setting: &Setting<'_>,
    decodable: &[(u32, &Unit)],
    views: &[Vec<Option<u32>>],
) -> Result<Vec<Quality>, JudgeError> {
    let Setting { store, engine, range, vmaf, progress } = setting.clone();
    // Equal views are judged once.
    let mut distinct: Vec<Sequence<'_>> = Vec::new();
    let mut which = Vec::new();
    for view in views {
        let known = distinct.iter().position(|sequence| sequence.view == view);
        which.push(known.unwrap_or(distinct.len()));
        if known.is_none() {
            let judging = vmaf.map(|vmaf| vmaf.begin(store.size(), Content::RATE)).transpose();
            distinct.push(Sequence {
                view,
                next: range.start,
                range: range.clone(),
                psnr: 0.0,
                ssim: 0.0,
                vmaf: judging.map_err(VmafError::from)?,
            });
        }
    }
    let (width, height) = store.size();
    let mut grey = Yuv::new(width, height);
    grey.planes_mut().0.fill(128);
    let mut latest = (None, grey);
    engine.decode(decodable, |number, picture| -> Result<(), JudgeError> {
        for sequence in &mut distinct {
            // What is seen before this picture is known now.
            sequence.show(store, latest.0, &latest.1)?;
        }
        progress(number);
        latest = (Some(number), scaled(&picture, width, height));
        Ok(())
    })?;
    for sequence in &mut distinct {
        sequence.show(store, latest.0, &latest.1)?;
    }
    let qualities = distinct.into_iter().map(Sequence::finish).collect::<Result<Vec<_>, _>>()?;
    Ok(which.into_iter().map(|number| qualities[number]).collect())
}

impl std::fmt::Debug for Setting<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setting").field("engine", &self.engine).field("range", &self.range).finish_non_exhaustive()
    }
}

/// One way of seeing, as it is judged.
struct Sequence<'a> {
    view: &'a Vec<Option<u32>>,
    next: u32,
    range: Range<u32>,
    psnr: f64,
    ssim: f64,
    vmaf: Option<Judging>,
}

impl Sequence<'_> {
    /// Compares all pictures that are next and in whose place number `number` is seen. It does not come again.
    fn show(&mut self, store: &Store, number: Option<u32>, seen: &Yuv) -> Result<(), JudgeError> {
        while self.next < self.range.end && self.view[self.next as usize] == number {
            let filmed = store.picture(self.next)?;
            self.psnr += psnr_luma_db(&filmed, seen).unwrap_or(0.0).min(MOST_PSNR_DB);
            self.ssim += ssim_luma(&filmed, seen).unwrap_or(0.0);
            if let Some(vmaf) = &mut self.vmaf {
                vmaf.push(&filmed, seen)?;
            }
            self.next += 1;
        }
        Ok(())
    }

    fn finish(self) -> Result<Quality, JudgeError> {
        debug_assert_eq!(self.next, self.range.end, "every picture that is seen is decoded");
        let count = self.range.len().max(1) as f64;
        let vmaf = self.vmaf.map(Judging::finish).transpose()?;
        Ok(Quality { psnr_db: self.psnr / count, ssim: self.ssim / count, vmaf })
    }
}
