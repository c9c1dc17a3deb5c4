//! GStreamer's encoders by the names of their factories: which property has the rate, in which unit, and what else to set.

use aquila_proto::Bitrate;

/// What a property counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bits a second.
    Bps,
    /// Thousands of them.
    Kbps,
}

/// One encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoder {
    /// Name of the factory.
    pub factory: &'static str,
    /// It makes H.265, else H.264.
    pub is_h265: bool,
    /// Property that has the rate, and its unit.
    pub rate: (&'static str, Unit),
    /// The property is a structure of V4L2 controls, in which this one has the rate.
    pub control: Option<&'static str>,
    /// Set before the start, unless the pipeline's own text does.
    pub preset: &'static [(&'static str, &'static str)],
    /// A change of rate begins with a recovery point, so that changes are few.
    pub rekeys_on_change: bool,
}

const fn h264(factory: &'static str, property: &'static str, unit: Unit) -> Encoder {
    Encoder { factory, is_h265: false, rate: (property, unit), control: None, preset: &[], rekeys_on_change: false }
}

const fn h265(factory: &'static str, property: &'static str, unit: Unit) -> Encoder {
    Encoder { is_h265: true, ..h264(factory, property, unit) }
}

/// All that are known. Of these x264enc was tried; the others are by their documentation.
pub const ENCODERS: [Encoder; 16] = [
    Encoder {
        // The default buffer of 600 ms makes three to four times the rate for five frames after a step down.
        preset: &[
            ("tune", "zerolatency"),
            ("speed-preset", "superfast"),
            ("vbv-buf-capacity", "200"),
            ("key-int-max", "300"),
        ],
        ..h264("x264enc", "bitrate", Unit::Kbps)
    },
    Encoder {
        preset: &[("tune", "zerolatency"), ("speed-preset", "ultrafast"), ("key-int-max", "300")],
        rekeys_on_change: true,
        ..h265("x265enc", "bitrate", Unit::Kbps)
    },
    Encoder { preset: &[("rate-control", "bitrate")], ..h264("openh264enc", "bitrate", Unit::Bps) },
    Encoder { control: Some("video_bitrate"), ..h264("v4l2h264enc", "extra-controls", Unit::Bps) },
    Encoder { control: Some("video_bitrate"), ..h265("v4l2h265enc", "extra-controls", Unit::Bps) },
    h264("mpph264enc", "bps", Unit::Bps),
    h265("mpph265enc", "bps", Unit::Bps),
    h264("nvv4l2h264enc", "bitrate", Unit::Bps),
    h265("nvv4l2h265enc", "bitrate", Unit::Bps),
    h264("omxh264enc", "target-bitrate", Unit::Bps),
    h264("nvh264enc", "bitrate", Unit::Kbps),
    h265("nvh265enc", "bitrate", Unit::Kbps),
    h264("vah264enc", "bitrate", Unit::Kbps),
    h265("vah265enc", "bitrate", Unit::Kbps),
    h264("vaapih264enc", "bitrate", Unit::Kbps),
    h265("vaapih265enc", "bitrate", Unit::Kbps),
];

impl Encoder {
    /// The one of that factory.
    pub fn of(factory: &str) -> Option<&'static Self> {
        ENCODERS.iter().find(|encoder| encoder.factory == factory)
    }

    /// What its property is set to for a rate.
    pub fn value(&self, rate: Bitrate) -> String {
        let number = match self.rate.1 {
            Unit::Bps => rate.0,
            Unit::Kbps => (rate.0 / 1000).max(1),
        };
        match self.control {
            Some(control) => format!("controls,{control}=(int){number}"),
            None => number.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_in_each_unit() {
        let value = |factory: &str| Encoder::of(factory).unwrap().value(Bitrate(1_450_700));
        assert_eq!(value("x264enc"), "1450");
        assert_eq!(value("mpph264enc"), "1450700");
        assert_eq!(value("v4l2h264enc"), "controls,video_bitrate=(int)1450700");
        assert!(Encoder::of("jpegenc").is_none());
    }
}
