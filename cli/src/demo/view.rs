//! The live view.

use std::collections::VecDeque;
use std::io::{self, Stdout};
use std::time::Duration;

use aquila_emu::Profile;
use aquila_lab::demo::{BearerReport, Now};
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::Frame;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, Gauge, GraphType, Paragraph};

use super::table;

/// Seconds that the charts show.
const SPAN_S: f64 = 30.0;
/// Events kept for the list.
const EVENTS: usize = 50;

/// Whether somebody asked for the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Not yet.
    NotYet,
    /// q, Esc or Ctrl-C.
    Asked,
}

/// The terminal while the demo runs; restored when dropped.
pub struct View {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    title: String,
    series: Series,
    events: VecDeque<String>,
}

/// What the charts show, by time.
#[derive(Default)]
struct Series {
    capacity: Vec<(f64, f64)>,
    target: Vec<(f64, f64)>,
    sent: Vec<(f64, f64)>,
    command_up: Vec<(f64, f64)>,
    command_down: Vec<(f64, f64)>,
    picture: Vec<(f64, f64)>,
    last_bytes: Option<(f64, u64)>,
}

impl View {
    /// Takes over the terminal.
    pub fn open(profile: &Profile, bearers: u8) -> io::Result<Self> {
        let terminal = ratatui::try_init()?;
        Ok(Self {
            terminal,
            title: match bearers {
                1 => format!(" Aquila demo: {} ", profile.describe()),
                _ => format!(" Aquila demo, {bearers} bearers: {} ", profile.describe()),
            },
            series: Series::default(),
            events: VecDeque::new(),
        })
    }

    /// Adds a line to the list of events.
    pub fn add_event(&mut self, at: Duration, text: String) {
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(format!("{:6.1} s  {text}", at.as_secs_f64()));
    }

    /// Draws, and looks at the keyboard.
    pub fn draw(&mut self, now: &Now, of: Duration) -> io::Result<Ending> {
        self.series.add(now);
        let (title, series, events) = (&self.title, &self.series, &self.events);
        self.terminal.draw(|frame| layout(frame, title, series, events, now, of))?;
        while event::poll(Duration::ZERO)? {
            if let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
            {
                let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                if control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                    return Ok(Ending::Asked);
                }
            }
        }
        Ok(Ending::NotYet)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

impl Series {
    fn add(&mut self, now: &Now) {
        let at = now.elapsed.as_secs_f64();
        let ms = |value: Duration| value.as_secs_f64() * 1e3;
        let capacity = if now.out { 0.0 } else { now.capacity.map_or(0.0, |capacity| capacity.as_mbps()) };
        self.capacity.push((at, capacity));
        self.target.push((at, now.target.as_mbps()));
        if let Some((since, bytes)) = self.last_bytes.replace((at, now.video_bytes))
            && at > since
        {
            self.sent.push((at, (now.video_bytes - bytes) as f64 * 8e-6 / (at - since)));
        }
        self.command_up.extend(now.commands.0.map(|latency| (at, ms(latency))));
        self.command_down.extend(now.commands.1.map(|latency| (at, ms(latency))));
        self.picture.extend(now.picture.map(|(latency, _)| (at, ms(latency))));
        for series in [
            &mut self.capacity,
            &mut self.target,
            &mut self.sent,
            &mut self.command_up,
            &mut self.command_down,
            &mut self.picture,
        ] {
            series.retain(|(time, _)| *time >= at - SPAN_S);
        }
    }
}

/// A curve of a chart: its name, colour and points.
type Curve<'a> = (&'static str, Color, &'a [(f64, f64)]);

fn layout(frame: &mut Frame, title: &str, series: &Series, events: &VecDeque<String>, now: &Now, of: Duration) {
    // Of several bearers: their lines, two more and a border.
    let bearers_height = if now.bearers.is_empty() { 0 } else { now.bearers.len() as u16 + 4 };
    let [top, each, rates, latencies, bottom, foot] = Layout::vertical([
        Constraint::Length(4),
        Constraint::Length(bearers_height),
        Constraint::Fill(3),
        Constraint::Fill(3),
        Constraint::Fill(2),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    summary(frame, top, title, now);
    if !now.bearers.is_empty() {
        bearers(frame, each, now);
    }
    let rate_sets = [
        ("link can carry", Color::Green, &series.capacity[..]),
        ("encoder asked for", Color::Yellow, &series.target[..]),
        ("video sent", Color::Cyan, &series.sent[..]),
    ];
    chart(frame, rates, " Mbit/s from the aircraft ", now.elapsed, &rate_sets);
    let latency_sets = [
        ("command up", Color::Magenta, &series.command_up[..]),
        ("command down", Color::Red, &series.command_down[..]),
        ("picture", Color::Cyan, &series.picture[..]),
    ];
    chart(frame, latencies, " Latency in ms (commands: over propagation) ", now.elapsed, &latency_sets);
    let fits = usize::from(bottom.height.saturating_sub(2));
    let lines: Vec<_> = events.iter().rev().take(fits).rev().map(|event| Line::raw(event.as_str())).collect();
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" Events ")), bottom);
    let ratio = (now.elapsed.as_secs_f64() / of.as_secs_f64()).clamp(0.0, 1.0);
    let label = format!("{:.0} of {} s; q ends it", now.elapsed.as_secs_f64(), of.as_secs());
    frame.render_widget(Gauge::default().ratio(ratio).label(label).gauge_style(Style::new().fg(Color::Blue)), foot);
}

fn summary(frame: &mut Frame, area: Rect, title: &str, now: &Now) {
    let ms =
        |value: Option<Duration>| value.map_or("   -".into(), |value| format!("{:4.0}", value.as_secs_f64() * 1e3));
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let link = match (now.out, now.capacity) {
        (true, _) => Span::styled("OUT", bold.fg(Color::Red)),
        (_, Some(capacity)) => Span::styled(format!("{:.2} Mbit/s", capacity.as_mbps()), bold.fg(Color::Green)),
        (_, None) => Span::styled("no limit", bold.fg(Color::Green)),
    };
    let quality = now.picture.and_then(|(_, psnr)| psnr).map_or("-".into(), |psnr| format!("{psnr:.1}"));
    let aircraft = now.aircraft.as_ref().map_or_else(String::new, |aircraft| {
        let armed = if aircraft.armed { "armed" } else { "disarmed" };
        format!(
            "aircraft {}, {armed}, {:.0} m up, {:.0} m/s",
            aircraft.mode, aircraft.height_m, aircraft.ground_speed_mps
        )
    });
    let lines = vec![
        Line::from(vec![
            Span::raw("link "),
            link,
            Span::raw(format!(
                "   video {:.2} Mbit/s   picture {} ms old, {quality} dB   command up {} ms, down {} ms",
                now.target.as_mbps(),
                ms(now.picture.map(|(latency, _)| latency)),
                ms(now.commands.0),
                ms(now.commands.1),
            )),
        ]),
        Line::raw(format!(
            "{aircraft}   frames shown {}, lost {}, too old {}   MAVLink on UDP 14550, video on UDP 5600",
            now.ground.video.frames_shown, now.ground.video.frames_lost, now.ground.video.frames_stale,
        )),
    ];
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(title)), area);
}

/// Each bearer, what copies cost, and how the cut goes.
fn bearers(frame: &mut Frame, area: Rect, now: &Now) {
    let line = |bearer: &BearerReport| {
        let color = match (bearer.cut, bearer.state.as_str()) {
            (false, "up") => Color::Green,
            (false, "stalled") => Color::Yellow,
            _ => Color::Red,
        };
        Line::styled(table::bearer(bearer), Style::new().fg(color))
    };
    let mut lines: Vec<_> = now.bearers.iter().map(line).collect();
    lines.extend(now.replication.iter().map(|cost| Line::raw(format!("copies: {}", table::replication(cost)))));
    lines.extend(now.cut.iter().map(|outcome| Line::raw(format!("cut: {}", table::cut(outcome)))));
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" Bearers ")), area);
}

fn chart(frame: &mut Frame, area: Rect, title: &str, elapsed: Duration, sets: &[Curve<'_>]) {
    let end = elapsed.as_secs_f64().max(SPAN_S);
    let top = sets.iter().flat_map(|(_, _, points)| points.iter().map(|(_, value)| *value)).fold(0.1, f64::max) * 1.1;
    let datasets = sets.iter().map(|(name, color, points)| {
        Dataset::default()
            .name(*name)
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(Style::new().fg(*color))
            .data(points)
    });
    let label = |value: f64| if top >= 10.0 { format!("{value:.0}") } else { format!("{value:.1}") };
    let chart = Chart::new(datasets.collect())
        .block(Block::bordered().title(title))
        .x_axis(
            Axis::default()
                .bounds([end - SPAN_S, end])
                .labels([format!("{:.0} s", end - SPAN_S), format!("{end:.0} s")]),
        )
        .y_axis(Axis::default().bounds([0.0, top]).labels([label(0.0), label(top / 2.0), label(top)]))
        .hidden_legend_constraints((Constraint::Ratio(1, 2), Constraint::Ratio(1, 1)));
    frame.render_widget(chart, area);
}
