//! Which files fit: sent one after the other, the most urgent first.

use serde::{Deserialize, Serialize};

/// Files of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSet {
    /// What they are called.
    pub name: String,
    /// Size of each, MB (10⁶ bytes).
    pub size_mb: f64,
    /// How many.
    #[serde(default = "one")]
    pub count: u32,
    /// The lowest is sent first; of equal ones the first in the list.
    #[serde(default)]
    pub priority: u32,
}

fn one() -> u32 {
    1
}

/// How many of them will be through.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fit {
    /// Which.
    #[serde(flatten)]
    pub files: FileSet,
    /// Whole ones that are through in nine of ten seeds.
    pub p10_count: u32,
    /// In half of the seeds.
    pub p50_count: u32,
    /// In one of ten.
    pub p90_count: u32,
    /// Share of seeds in which all are through.
    pub all_share: f64,
}

impl FileSet {
    /// What is wrong with its numbers, if something is.
    pub(crate) fn fault(&self) -> Option<String> {
        if !(1e-6..=1e9).contains(&self.size_mb) {
            return Some(format!("size_mb is {}; it must be from 0.000001 to 1,000,000,000", self.size_mb));
        }
        (self.count == 0).then(|| "count is 0".into())
    }

    fn bits_each(&self) -> f64 {
        self.size_mb * 8e6
    }
}

/// With volumes of IP packets, sorted, of which a transfer makes so much of files.
pub fn fit(files: &[FileSet], bits: &[f64], efficiency: f64) -> Vec<Fit> {
    let mut ordered: Vec<&FileSet> = files.iter().collect();
    ordered.sort_by_key(|set| set.priority);
    let mut before = 0.0;
    let mut fits = Vec::new();
    for set in ordered {
        let all = set.bits_each() * f64::from(set.count);
        let through = |share: f64| {
            let left = super::volume::quantile(bits, share) * efficiency - before;
            (left.max(0.0) / set.bits_each()).floor().min(f64::from(set.count)) as u32
        };
        let complete = bits.iter().filter(|volume| **volume * efficiency >= before + all).count();
        fits.push(Fit {
            files: set.clone(),
            p10_count: through(0.1),
            p50_count: through(0.5),
            p90_count: through(0.9),
            all_share: if bits.is_empty() { 0.0 } else { complete as f64 / bits.len() as f64 },
        });
        before += all;
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_urgent_first_and_whole_ones_only() {
        let set = |name: &str, size_mb, count, priority| FileSet { name: name.into(), size_mb, count, priority };
        let files = [set("bulk", 40.0, 14, 5), set("log", 1.0, 10, 0)];
        // 100, 200 and 300 MB, of which 9 of 10 bytes are of files.
        let bits = [8e8, 16e8, 24e8];
        let fits = fit(&files, &bits, 0.9);
        assert_eq!(fits.iter().map(|fit| fit.files.name.as_str()).collect::<Vec<_>>(), ["log", "bulk"]);
        assert_eq!((fits[0].p10_count, fits[0].all_share), (10, 1.0));
        // 108 - 10, 180 - 10, 252 - 10 MB.
        assert_eq!((fits[1].p10_count, fits[1].p50_count, fits[1].p90_count, fits[1].all_share), (2, 4, 6, 0.0));
        assert_eq!(fit(&files, &[], 0.9)[0].p50_count, 0);
    }
}
