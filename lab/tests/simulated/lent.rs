//! QUIC's own controllers as contenders: what they are compared by is to be theirs, not an artefact of how they are borrowed.

use std::path::Path;

use aquila_lab::metrics::Metrics;
use aquila_lab::{judge, plan};

/// BBR is told round trips as QUIC measures them. With acknowledgements that come every 100 ms it showed 2 % of its frames.
#[test]
fn bbr_shows_pictures_over_a_steady_link() {
    let plan = aquila_lab::scenarios::text("s2").unwrap().replace("lasts = \"60 s\"", "lasts = \"40 s\"");
    let (head, rest) = plan.split_once("[[contender]]").unwrap();
    let (_, traffic) = rest.split_once("[[traffic]]").unwrap();
    let (traffic, _) = traffic.split_once("[[check]]").unwrap();
    let contender = "[[contender]]\nname = \"bbr\"\nkind = \"aquila\"\ncontroller = \"bbr\"\n";
    let text = format!("{head}{contender}\n[[traffic]]{traffic}");
    let variants = plan::parse(Path::new("s2.toml"), &text.replace("repeats = 5", "repeats = 1")).unwrap();
    let judged = judge::run(variants, None, &|_, _| ()).unwrap();
    let metrics = Metrics::of(&judged.variants[0].plan, &judged.variants[0].runs);
    let shown = metrics.get("bbr.video.up.shown_share").unwrap();
    assert!(shown > 0.9, "{shown}");
}
