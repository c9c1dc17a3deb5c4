//! GStreamer's encoders by the names of their factories: which property has the rate, in which unit, and what else to set.

use aquila_proto::Bitrate;

use crate::encoder::{EncoderKind, Sizes};

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
    /// What its pictures are to be like, unless the pipeline's own text says that.
    pub caps: Option<&'static str>,
    /// So many milliseconds of the rate are its buffer, which is said in `option-string`, anew with each rate.
    pub buffer_ms: Option<u64>,
    /// A change of rate begins with a recovery point, so that changes are few.
    pub rekeys_on_change: bool,
    /// Property, and its value, by which it refreshes its picture bit by bit where it is asked for a recovery point; `None` if it makes an
    /// IDR picture in any case.
    pub refresh: Option<(&'static str, &'static str)>,
}

const fn h264(factory: &'static str, property: &'static str, unit: Unit) -> Encoder {
    let rate = (property, unit);
    Encoder {
        factory,
        is_h265: false,
        rate,
        control: None,
        preset: &[],
        caps: None,
        buffer_ms: None,
        rekeys_on_change: false,
        refresh: None,
    }
}

const fn h265(factory: &'static str, property: &'static str, unit: Unit) -> Encoder {
    Encoder { is_h265: true, ..h264(factory, property, unit) }
}

/// All that are known. The tests of `pipeline` run x264enc, x265enc and openh264enc; the others are by their documentation.
pub const ENCODERS: [Encoder; 16] = [
    // Recovery points are asked for after losses and for viewers that come late: few others are needed.
    Encoder {
        // The default buffer of 600 ms makes three to four times the rate for five frames after a step down.
        preset: &[
            ("tune", "zerolatency"),
            ("speed-preset", "superfast"),
            ("vbv-buf-capacity", "200"),
            ("key-int-max", "300"),
        ],
        // Of those that are known it alone begins when it is asked. Others that refresh do so all the time, at a period of their own.
        refresh: Some(("intra-refresh", "true")),
        ..h264("x264enc", "bitrate", Unit::Kbps)
    },
    Encoder {
        // The quality bench, which has the time, runs superfast: at 1 Mbit/s 0.813 SSIM in place of 0.807, for 36 % more of the
        // processor, 33 ms of it for a picture of 720p on a server. That is no time between two pictures on a computer that flies.
        preset: &[("tune", "zerolatency"), ("speed-preset", "ultrafast"), ("key-int-max", "300")],
        // As in the bench. After a fall from 3000 to 500 kbit/s the first five pictures of the tests' pattern make 1.5 times the rate,
        // without it 4.7 times.
        buffer_ms: Some(200),
        rekeys_on_change: true,
        ..h265("x265enc", "bitrate", Unit::Kbps)
    },
    Encoder {
        // Unless it may leave pictures out it does not come down from 3000 to 500 kbit/s: of the tests' pattern it goes on to make
        // 14 times that, of a calm one two to three times.
        preset: &[
            ("rate-control", "bitrate"),
            ("enable-frame-skip", "true"),
            ("gop-size", "300"),
            ("scene-change-detection", "false"),
        ],
        ..h264("openh264enc", "bitrate", Unit::Bps)
    },
    Encoder {
        control: Some("video_bitrate"),
        // Else GStreamer asks for level 1, which has pictures of 128x96 at most: on a Raspberry Pi 4 nothing comes (raspberrypi/linux#3974). That
        // one's is for up to 1920x1080 at 30 a second.
        caps: Some("video/x-h264,level=(string)4"),
        ..h264("v4l2h264enc", "extra-controls", Unit::Bps)
    },
    Encoder { control: Some("video_bitrate"), ..h265("v4l2h265enc", "extra-controls", Unit::Bps) },
    h264("mpph264enc", "bps", Unit::Bps),
    h265("mpph265enc", "bps", Unit::Bps),
    h264("nvv4l2h264enc", "bitrate", Unit::Bps),
    h265("nvv4l2h265enc", "bitrate", Unit::Bps),
    h264("omxh264enc", "target-bitrate", Unit::Bps),
    // Their own default may be a constant quality, which minds no rate.
    Encoder { preset: &[("rc-mode", "cbr")], ..h264("nvh264enc", "bitrate", Unit::Kbps) },
    Encoder { preset: &[("rc-mode", "cbr")], ..h265("nvh265enc", "bitrate", Unit::Kbps) },
    // Told another rate it forgets all pictures that the next could refer to (by GStreamer's source, `gst_va_base_enc_drain`; not tried).
    Encoder { rekeys_on_change: true, ..h264("vah264enc", "bitrate", Unit::Kbps) },
    Encoder { rekeys_on_change: true, ..h265("vah265enc", "bitrate", Unit::Kbps) },
    // Their own default is a constant quality, which minds no rate.
    Encoder { preset: &[("rate-control", "cbr")], ..h264("vaapih264enc", "bitrate", Unit::Kbps) },
    Encoder { preset: &[("rate-control", "cbr")], ..h265("vaapih265enc", "bitrate", Unit::Kbps) },
];

impl Encoder {
    /// The one of that factory.
    pub fn of(factory: &str) -> Option<&'static Self> {
        ENCODERS.iter().find(|encoder| encoder.factory == factory)
    }

    /// The one that a pipeline's text ends with, by name.
    pub fn in_text(pipeline: &str) -> Option<&'static Self> {
        words(pipeline).find_map(Self::of)
    }

    /// Those to try, the best first: such as need no processor before those that do, since what has a small one (a Raspberry Pi) cannot
    /// run x265 as fast as it films; and among either H.265 first, if it may be used.
    pub fn by_preference(h265: bool) -> impl Iterator<Item = &'static Self> {
        let group = move |is_software, is_h265: bool| {
            let is_it = move |known: &&Self| known.is_h265 == is_h265 && known.is_software() == is_software;
            ENCODERS.iter().filter(is_it).filter(move |_| h265 || !is_h265)
        };
        let of = move |is_software| group(is_software, true).chain(group(is_software, false));
        of(false).chain(of(true))
    }

    fn is_software(&self) -> bool {
        ["x264enc", "x265enc", "openh264enc"].contains(&self.factory)
    }

    /// How it follows a change of rate.
    pub fn kind(&self) -> EncoderKind {
        match self.factory {
            "x264enc" => EncoderKind::X264,
            "x265enc" => EncoderKind::X265,
            "openh264enc" => EncoderKind::OpenH264,
            _ if self.rekeys_on_change => EncoderKind::Rekeying,
            _ => EncoderKind::Unknown,
        }
    }

    /// What its property is set to for a rate.
    pub fn value(&self, rate: Bitrate) -> String {
        let number = match self.rate.1 {
            Unit::Bps => rate.0,
            Unit::Kbps => kbps(rate),
        };
        match self.control {
            Some(control) => format!("controls,{control}=(int){number}"),
            None => number.to_string(),
        }
    }

    /// What its `option-string` is set to for a rate, where the text of the pipeline says `own` there; `None` if it stays so, as where
    /// that has a buffer of its own.
    pub fn options(&self, own: &str, rate: Bitrate) -> Option<String> {
        let buffer_ms = self.buffer_ms.filter(|_| !own.contains("vbv-"))?;
        let (own, kbps) = (own.trim_end_matches(':'), kbps(rate));
        let colon = if own.is_empty() { "" } else { ":" };
        Some(format!("{own}{colon}vbv-maxrate={kbps}:vbv-bufsize={}", (kbps * buffer_ms / 1000).max(1)))
    }
}

fn kbps(rate: Bitrate) -> u64 {
    (rate.0 / 1000).max(1)
}

/// A buffer of x264's that holds as much as this is a long one: its own is 600 ms.
const LONG_BUFFER_MS: u32 = 400;

/// In a pipeline's text, in the place of an encoder: the best one that there is.
pub const ANY: &str = "encoder";

/// The words of a pipeline's text.
pub(super) fn words(pipeline: &str) -> impl Iterator<Item = &str> {
    pipeline.split(|c: char| c.is_whitespace() || c == '!').filter(|word| !word.is_empty())
}

/// A camera in this process, as it is configured.
#[derive(Debug, Clone)]
pub struct CameraSetup {
    /// Text of a pipeline whose last element is an encoder, or the word `encoder`.
    pub pipeline: String,
    /// Sizes that its pictures may have.
    pub sizes: Sizes,
    /// The viewers can show H.265.
    pub h265: bool,
    /// What a recovery point is where the encoder has a choice: its picture refreshed bit by bit, in place of an IDR picture.
    pub intra_refresh: bool,
}

impl CameraSetup {
    /// How its encoder follows. Of one that is still open in the text that is not known: see `chosen`.
    pub fn kind(&self) -> EncoderKind {
        match Encoder::in_text(&self.pipeline).map_or(EncoderKind::Unknown, Encoder::kind) {
            EncoderKind::X264 if self.buffer_ms().is_some_and(|ms| ms >= LONG_BUFFER_MS) => EncoderKind::X264LongBuffer,
            kind => kind,
        }
    }

    /// Of x264enc, if the text says so.
    fn buffer_ms(&self) -> Option<u32> {
        words(&self.pipeline).find_map(|word| word.strip_prefix("vbv-buf-capacity=")?.parse().ok())
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

    #[test]
    fn a_buffer_follows_the_rate_unless_the_user_has_another() {
        let options = |factory: &str, own: &str, kbps| Encoder::of(factory).unwrap().options(own, Bitrate::kbps(kbps));
        assert_eq!(options("x265enc", "", 3000).as_deref(), Some("vbv-maxrate=3000:vbv-bufsize=600"));
        for own in ["pools=none", "pools=none:"] {
            assert_eq!(options("x265enc", own, 500).as_deref(), Some("pools=none:vbv-maxrate=500:vbv-bufsize=100"));
        }
        assert_eq!(options("x265enc", "", 1).as_deref(), Some("vbv-maxrate=1:vbv-bufsize=1"));
        assert_eq!(options("x265enc", "vbv-maxrate=900:vbv-bufsize=90", 500), None);
        assert_eq!(options("x264enc", "", 500), None, "it has a property for that");
    }

    #[test]
    fn hardware_comes_before_what_needs_the_processor_and_then_h265_where_it_may() {
        let names = |h265| Encoder::by_preference(h265).map(|known| known.factory).collect::<Vec<_>>();
        let all = names(true);
        assert_eq!(all.len(), ENCODERS.len());
        let place = |factory: &str| all.iter().position(|name| *name == factory).unwrap();
        let order = ["vaapih265enc", "v4l2h264enc", "vaapih264enc", "x265enc", "x264enc", "openh264enc"].map(place);
        assert!(order.is_sorted(), "{all:?}");
        let known = names(false);
        let place = |factory: &str| known.iter().position(|name| *name == factory).unwrap();
        assert!(["v4l2h264enc", "vaapih264enc", "x264enc", "openh264enc"].map(place).is_sorted(), "{known:?}");
        assert!(names(false).iter().all(|name| Encoder::of(name).is_some_and(|known| !known.is_h265)));
    }

    #[test]
    fn the_kind_is_that_of_the_encoder_in_the_text() {
        let kind = |text: &str| {
            CameraSetup { pipeline: text.to_owned(), sizes: Sizes::Same, h265: false, intra_refresh: false }.kind()
        };
        assert_eq!(kind("v4l2src ! videoconvert!x264enc bitrate=3"), EncoderKind::X264);
        assert_eq!(kind("v4l2src ! x264enc vbv-buf-capacity=200"), EncoderKind::X264);
        assert_eq!(kind("v4l2src ! x264enc vbv-buf-capacity=600"), EncoderKind::X264LongBuffer);
        assert_eq!(kind("v4l2src ! vapostproc ! vah264enc"), EncoderKind::Rekeying);
        assert_eq!([kind("v4l2src ! v4l2h264enc"), kind("v4l2src ! encoder")], [EncoderKind::Unknown; 2]);
    }
}
