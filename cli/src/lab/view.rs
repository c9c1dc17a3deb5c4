//! A live run as it goes on: how the links are used and what arrives.

use std::io::{self, Stdout};
use std::time::Duration;

use aquila_lab::record::LinkSample;
use aquila_lab::run_live::{FlowNow, Now};
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::Frame;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::widgets::{Axis, Block, Chart, Dataset, Gauge, GraphType, Row, Table};

/// Seconds that the chart shows.
const SPAN_S: f64 = 30.0;
/// Tenths of a second are the emulator's rows.
const ROWS_PER_S: f64 = 10.0;
const ARROWS: [&str; 2] = ["up", "down"];
const COLOURS: [Color; 6] = [Color::Cyan, Color::Magenta, Color::Yellow, Color::Green, Color::Blue, Color::Red];

/// The terminal while a run goes on; restored when dropped.
#[derive(Debug)]
pub struct View {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    title: String,
    lasts: Duration,
    /// What each direction of each link delivered, Mbit/s over seconds.
    delivered: Vec<Vec<(f64, f64)>>,
}

impl View {
    /// Takes over the terminal.
    pub fn open(title: String, lasts: Duration) -> io::Result<Self> {
        Ok(Self { terminal: ratatui::try_init()?, title, lasts, delivered: Vec::new() })
    }

    /// Draws, and looks at the keyboard: whether somebody asked for the end.
    pub fn draw(&mut self, now: &Now) -> io::Result<bool> {
        self.delivered.resize(now.links.len(), Vec::new());
        for (line, (.., sample)) in self.delivered.iter_mut().zip(&now.links) {
            line.extend(sample.map(|sample| (sample.at_s, mbps(&sample))));
            line.retain(|(at, _)| *at >= now.elapsed.as_secs_f64() - SPAN_S);
        }
        let (title, lasts, delivered) = (&self.title, self.lasts, &self.delivered);
        self.terminal.draw(|frame| layout(frame, title, lasts, delivered, now))?;
        while event::poll(Duration::ZERO)? {
            if let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
            {
                let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                if control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn mbps(sample: &LinkSample) -> f64 {
    sample.delivered as f64 * 8.0 * ROWS_PER_S / 1e6
}

fn layout(frame: &mut Frame, title: &str, lasts: Duration, delivered: &[Vec<(f64, f64)>], now: &Now) {
    let links = now.links.len() as u16 + 3;
    let flows = now.flows.len() as u16 + 3;
    let rows = [Constraint::Length(3), Constraint::Min(6), Constraint::Length(links), Constraint::Length(flows)];
    let [progress, chart, link_table, flow_table] = Layout::vertical(rows).areas(frame.area());
    let share = (now.elapsed.as_secs_f64() / lasts.as_secs_f64().max(1e-9)).clamp(0.0, 1.0);
    let label = format!("{:.0} of {:.0} s   q ends it", now.elapsed.as_secs_f64(), lasts.as_secs_f64());
    let gauge = Gauge::default().block(Block::bordered().title(format!(" {title} "))).ratio(share).label(label);
    frame.render_widget(gauge, progress);
    draw_chart(frame, chart, delivered, now);
    draw_links(frame, link_table, now);
    draw_flows(frame, flow_table, &now.flows, now.elapsed);
}

fn draw_chart(frame: &mut Frame, area: Rect, delivered: &[Vec<(f64, f64)>], now: &Now) {
    let name = |number: usize| {
        let (link, direction, _) = &now.links[number];
        format!("{link} {}", ARROWS[*direction])
    };
    let most = delivered.iter().flatten().map(|(_, rate)| *rate).fold(1.0, f64::max);
    let end = now.elapsed.as_secs_f64().max(SPAN_S);
    let sets = delivered.iter().enumerate().map(|(number, points)| {
        Dataset::default()
            .name(name(number))
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(Style::default().fg(COLOURS[number % COLOURS.len()]))
            .data(points)
    });
    let chart = Chart::new(sets.collect())
        .block(Block::bordered().title(" delivered, Mbit/s "))
        .x_axis(Axis::default().bounds([end - SPAN_S, end]))
        .y_axis(Axis::default().bounds([0.0, most * 1.1]).labels(["0".to_owned(), format!("{most:.1}")]));
    frame.render_widget(chart, area);
}

fn draw_links(frame: &mut Frame, area: Rect, now: &Now) {
    let head = ["link", "", "delivered Mbit/s", "queue ms", "lost kB/s", ""];
    let rows = now.links.iter().map(|(link, direction, sample)| {
        let sample = sample.unwrap_or_default();
        let lost = (sample.lost + sample.dropped + sample.outage) as f64 * ROWS_PER_S / 1e3;
        Row::new([
            link.clone(),
            ARROWS[*direction].to_owned(),
            format!("{:.2}", mbps(&sample)),
            format!("{:.1}", sample.queue_ms),
            format!("{lost:.1}"),
            if sample.is_out { "out".to_owned() } else { String::new() },
        ])
    });
    frame.render_widget(table(rows.collect(), head, " links "), area);
}

fn draw_flows(frame: &mut Frame, area: Rect, flows: &[FlowNow], elapsed: Duration) {
    let head = ["flow", "", "arrived", "of", "Mbit/s", "newest ms"];
    let rows = flows.iter().map(|flow| {
        let rate = flow.bytes as f64 * 8.0 / 1e6 / elapsed.as_secs_f64().max(1e-3);
        Row::new([
            flow.name.clone(),
            ARROWS[flow.direction].to_owned(),
            flow.arrived.to_string(),
            flow.sent.to_string(),
            format!("{rate:.3}"),
            flow.latency.map_or("-".to_owned(), |latency| format!("{:.1}", latency.as_secs_f64() * 1e3)),
        ])
    });
    frame.render_widget(table(rows.collect(), head, " flows, since the start "), area);
}

fn table<'a>(rows: Vec<Row<'a>>, head: [&'a str; 6], title: &'a str) -> Table<'a> {
    let widths = [16, 5, 17, 10, 10, 10].map(Constraint::Length);
    let bold = Style::default().add_modifier(Modifier::BOLD);
    Table::new(rows, widths).header(Row::new(head).style(bold)).block(Block::bordered().title(title))
}
