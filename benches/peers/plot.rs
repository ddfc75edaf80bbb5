//! The ratios as bars, in SVG written by hand: CPU time on the left, throughput on the right.
//!
//! The background is left out, and colours follow the reader's light or dark scheme.

use std::fmt::Write;

use crate::load::Measured;
use crate::proxies::Peer;
use crate::table::{Results, Row};
use crate::workloads::Workload;

/// Draws what was measured.
pub(crate) fn draw(results: &Results) -> String {
    let reference = results.reference().name();
    let panels = [
        Panel::new(results, 120.0, "CPU of the proxy per unit", "less", Workload::cost),
        Panel::new(results, 500.0, "Throughput", "more", |workload, measured| {
            Some(workload.rate(measured))
        }),
    ];
    let mut body = String::new();
    let mut y = TOP;
    for workload in results.workloads() {
        let rows: Vec<&Row> = results.of(workload).filter(|row| is_shown(row.peer)).collect();
        let height = rows.len() as f64 * STEP;
        let middle = y + height / 2.0 + 4.0;
        let name = workload.name();
        let _ = writeln!(body, r#"<text x="110" y="{middle}" text-anchor="end">{name}</text>"#);
        for (number, row) in rows.iter().enumerate() {
            for panel in &panels {
                panel.bar(&mut body, results, row, y + number as f64 * STEP);
            }
        }
        y += height + GAP;
    }
    for panel in &panels {
        panel.frame(&mut body, y - GAP / 2.0, reference);
    }
    legend(&mut body, results);
    for line in &results.heading {
        y += 15.0;
        let line = escaped(line);
        let _ = writeln!(body, r#"<text class="small" x="20" y="{y}">{line}</text>"#);
    }
    let height = y + 15.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n\
         <title>TCP proxies side by side, as multiples of {reference}</title>\n\
         <style>{STYLE}</style>\n{body}</svg>\n"
    )
}

/// One figure of every row, on a scale of its own.
struct Panel {
    left: f64,
    title: &'static str,
    better: &'static str,
    figure: fn(Workload, &Measured) -> Option<f64>,
    /// Pixels of a ratio of 1.
    scale: f64,
}

impl Panel {
    fn new(
        results: &Results,
        left: f64,
        title: &'static str,
        better: &'static str,
        figure: fn(Workload, &Measured) -> Option<f64>,
    ) -> Self {
        let mut panel = Self { left, title, better, figure, scale: 1.0 };
        let shown = results.rows.iter().filter(|row| is_shown(row.peer));
        let ratios = shown.filter_map(|row| panel.ratio(results, row));
        panel.scale = SPAN / ratios.fold(1.2, f64::max);
        panel
    }

    fn ratio(&self, results: &Results, row: &Row) -> Option<f64> {
        let figure = |measured: &Measured| (self.figure)(row.workload, measured);
        results.ratio(row, results.reference(), figure)
    }

    fn bar(&self, body: &mut String, results: &Results, row: &Row, y: f64) {
        let Some(ratio) = self.ratio(results, row) else { return };
        let (left, width) = (self.left, ratio * self.scale);
        let (bar, beside, base) = (STEP - 2.0, left + width + 4.0, y + 9.5);
        let class = class(row.peer);
        let _ = writeln!(
            body,
            r#"<rect class="{class}" x="{left}" y="{y}" width="{width:.1}" height="{bar}"/>"#
        );
        let _ =
            writeln!(body, r#"<text class="small" x="{beside:.1}" y="{base}">{ratio:.2}</text>"#);
    }

    fn frame(&self, body: &mut String, bottom: f64, reference: &str) {
        let (left, title, better) = (self.left, self.title, self.better);
        let one = left + self.scale;
        let top = TOP - 6.0;
        let (name, note) = (top - 26.0, top - 11.0);
        let _ = writeln!(body, r#"<text class="title" x="{left}" y="{name}">{title}</text>"#);
        let _ = writeln!(
            body,
            r#"<text class="small" x="{left}" y="{note}">× {reference}; {better} is better</text>"#
        );
        for (class, x) in [("axis", left), ("one", one)] {
            let _ = writeln!(
                body,
                r#"<line class="{class}" x1="{x:.1}" x2="{x:.1}" y1="{top}" y2="{bottom}"/>"#
            );
        }
    }
}

fn legend(body: &mut String, results: &Results) {
    let mut x = 120.0;
    let measured = |peer: &Peer| results.rows.iter().any(|row| row.peer == *peer);
    for peer in Peer::ALL.into_iter().filter(|peer| is_shown(*peer) && measured(peer)) {
        let (class, name, beside) = (class(peer), peer.name(), x + 18.0);
        let _ = writeln!(body, r#"<rect class="{class}" x="{x}" y="16" width="12" height="12"/>"#);
        let _ = writeln!(body, r#"<text x="{beside}" y="26">{name}</text>"#);
        x += 50.0 + 8.0 * name.len() as f64;
    }
}

/// The direct path uses no proxy, and its throughput would dwarf the others.
fn is_shown(peer: Peer) -> bool {
    peer != Peer::Direct
}

fn class(peer: Peer) -> &'static str {
    match peer {
        Peer::Direct => "direct",
        Peer::Haproxy => "haproxy",
        Peer::Nginx => "nginx",
        Peer::Evenkeel => "ours",
        Peer::EvenkeelCopy => "copy",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

const WIDTH: f64 = 880.0;
/// Of the first bar.
const TOP: f64 = 92.0;
/// From bar to bar.
const STEP: f64 = 14.0;
/// Between workloads.
const GAP: f64 = 14.0;
/// Pixels of the longest bar.
const SPAN: f64 = 310.0;
const STYLE: &str = "
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.title { font-weight: 600; }
.small { font-size: 11px; fill: #59636e; }
.axis { stroke: #818b98; }
.one { stroke: #818b98; stroke-dasharray: 3 3; }
.haproxy { fill: #8c959f; }
.nginx { fill: #c08a2b; }
.ours { fill: #0b62c4; }
.copy { fill: #85b7ea; }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc; }
.small { fill: #9198a1; }
.haproxy { fill: #7d8590; }
.nginx { fill: #c99a3f; }
.ours { fill: #4c9bff; }
.copy { fill: #2f5f98; }
}
";
