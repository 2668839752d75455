//! The chart: one panel a question, one bar a policy, drawn to the pixel.

use std::error::Error;
use std::fmt;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Comparison;

const HEIGHT: i32 = 480;
const MARGIN: i32 = 32;
/// Room left of a panel's bars for the numbers of its axis, and between panels.
const AXIS: i32 = 64;
const GAP: i32 = 28;
const BAR_SLOT: i32 = 92;
const MIN_PANEL: i32 = 300;
/// Width of a letter and height of a line under a bar, about.
const LETTER: i32 = 7;
const LINE: i32 = 14;
const TOP: i32 = 132;
const BOTTOM: i32 = HEIGHT - 56;

pub(super) const INK: RGBColor = RGBColor(31, 41, 55);
pub(super) const SOFT: RGBColor = RGBColor(107, 114, 128);
pub(super) const GRID: RGBColor = RGBColor(229, 231, 235);
const BOUND: RGBColor = RGBColor(190, 24, 60);
/// By order of the policies: the first stands out.
pub(super) const BARS: [RGBColor; 4] =
    [RGBColor(29, 97, 190), RGBColor(120, 144, 168), RGBColor(158, 176, 194), RGBColor(192, 204, 216)];

/// The chart could not be drawn.
#[derive(Debug)]
pub struct ChartError {
    pub(super) source: Box<dyn Error + Send + Sync>,
}

impl fmt::Display for ChartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the chart could not be drawn: {}", self.source)
    }
}

impl Error for ChartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.source.as_ref())
    }
}

/// One question, answered for each policy.
struct Panel {
    title: &'static str,
    values: Vec<f64>,
    label: fn(f64) -> String,
    /// A line across the panel, with its name.
    bound: Option<(f64, String)>,
}

/// The comparison as an SVG document: hit ratio beside its bound, mean and 99th percentile of the time to
/// first token.
///
/// # Errors
///
/// [`ChartError`] when the drawing library fails, which it has no reason to.
pub fn svg(comparison: &Comparison) -> Result<String, ChartError> {
    let mut document = String::new();
    draw(comparison, &mut document).map_err(|source| ChartError { source })?;
    Ok(document)
}

fn draw(comparison: &Comparison, document: &mut String) -> Result<(), Box<dyn Error + Send + Sync>> {
    let panels = panels(comparison);
    let names: Vec<&str> = comparison.policies.iter().map(|report| report.policy.as_str()).collect();
    let bars = i32::try_from(names.len()).unwrap_or(i32::MAX / 1024);
    let widest = names.iter().flat_map(|name| label(name)).map(str::len).max().unwrap_or(0);
    let panel_width = MIN_PANEL.max(BAR_SLOT.max(widest as i32 * LETTER + 8) * bars);
    let lines = names.iter().map(|name| label(name).count()).max().unwrap_or(1);
    let height = HEIGHT + (lines as i32 - 1) * LINE;
    let count = panels.len() as i32;
    let width = 2 * MARGIN + count * (AXIS + panel_width) + (count - 1) * GAP;

    let root = SVGBackend::with_string(document, (width as u32, height as u32)).into_drawing_area();
    let canvas = Canvas { root: &root };
    root.fill(&WHITE)?;
    canvas.text("Routing policies on one trace", (MARGIN, 36), 24, &INK, HPos::Left)?;
    let setting: String = comparison.setting.chars().take((width - 2 * MARGIN) as usize / 8).collect();
    canvas.text(&setting, (MARGIN, 62), 14, &SOFT, HPos::Left)?;
    for (index, panel) in panels.iter().enumerate() {
        let left = MARGIN + AXIS + index as i32 * (AXIS + panel_width + GAP);
        canvas.panel(panel, &names, left, left + panel_width)?;
    }
    root.present()?;
    Ok(())
}

fn panels(comparison: &Comparison) -> [Panel; 3] {
    let of = |value: fn(&crate::metrics::Outcome) -> f64| {
        comparison.policies.iter().map(|report| value(&report.outcome)).collect()
    };
    let bound = comparison.bound.ratio();
    [
        Panel {
            title: "Prefix hit ratio",
            values: of(|outcome| outcome.hit_ratio()),
            label: |value| format!("{value:.3}"),
            bound: Some((bound, format!("unlimited shared cache {bound:.3}"))),
        },
        Panel {
            title: "Time to first token, mean",
            values: of(|outcome| outcome.ttft.mean / 1e3),
            label: |value| format!("{value:.2} s"),
            bound: None,
        },
        Panel {
            title: "Time to first token, p99",
            values: of(|outcome| outcome.ttft.p99 / 1e3),
            label: |value| format!("{value:.1} s"),
            bound: None,
        },
    ]
}

pub(super) struct Canvas<'a, 'b> {
    pub(super) root: &'a DrawingArea<SVGBackend<'b>, Shift>,
}

pub(super) type Drawn = Result<(), Box<dyn Error + Send + Sync>>;

impl Canvas<'_, '_> {
    fn panel(&self, panel: &Panel, names: &[&str], left: i32, right: i32) -> Drawn {
        let bound = panel.bound.as_ref().map_or(0.0, |(value, _)| *value);
        let (step, top) = axis(panel.values.iter().copied().fold(bound, f64::max));
        let height = |value: f64| BOTTOM - (f64::from(BOTTOM - TOP) * (value / top)).round() as i32;

        self.text(panel.title, (left, TOP - 28), 16, &INK, HPos::Left)?;
        let is_exact = |digits: &i32| (step * 10f64.powi(*digits)).fract() < 1e-6;
        let decimals = (0..3).find(is_exact).unwrap_or(3) as usize;
        for tick in 0..=(top / step).round() as i32 {
            let value = f64::from(tick) * step;
            let y = height(value);
            self.root.draw(&PathElement::new([(left, y), (right, y)], GRID.stroke_width(1)))?;
            self.text(&format!("{value:.decimals$}"), (left - 8, y + 4), 12, &SOFT, HPos::Right)?;
        }
        let slot = f64::from(right - left) / names.len().max(1) as f64;
        for (index, (&value, name)) in panel.values.iter().zip(names).enumerate() {
            let center = left + (slot * (index as f64 + 0.5)).round() as i32;
            let half = (slot * 0.31).round().min(44.0) as i32;
            let color = BARS[index.min(BARS.len() - 1)];
            let corners = [(center - half, height(value)), (center + half, BOTTOM)];
            self.root.draw(&Rectangle::new(corners, color.filled()))?;
            self.text(&(panel.label)(value), (center, height(value) - 7), 13, &INK, HPos::Center)?;
            for (line, part) in (0..).zip(label(name)) {
                self.text(part, (center, BOTTOM + 22 + line * LINE), 13, &INK, HPos::Center)?;
            }
        }
        self.root.draw(&PathElement::new([(left, BOTTOM), (right, BOTTOM)], SOFT.stroke_width(1)))?;
        if let Some((value, name)) = &panel.bound {
            let y = height(*value);
            for x in (left..right).step_by(10) {
                let dash = [(x, y), ((x + 6).min(right), y)];
                self.root.draw(&PathElement::new(dash, BOUND.stroke_width(2)))?;
            }
            self.text(name, (right, y - 7), 13, &BOUND, HPos::Right)?;
        }
        Ok(())
    }

    /// Text whose baseline is at `at`.
    pub(super) fn text(&self, text: &str, at: (i32, i32), size: i32, color: &RGBColor, align: HPos) -> Drawn {
        let style = ("sans-serif", size).into_font().color(color).pos(Pos::new(align, VPos::Bottom));
        self.root.draw(&Text::new(text.to_owned(), at, style))?;
        Ok(())
    }
}

/// A name in lines: a policy, and each of its settings.
fn label(name: &str) -> impl Iterator<Item = &str> {
    name.split([' ', ','])
}

/// A round step and the end of an axis that shows `max` with some air above it.
fn axis(max: f64) -> (f64, f64) {
    if !(max.is_finite() && max > 0.0) {
        return (0.25, 1.0);
    }
    let wanted = max * 1.12;
    let rough = wanted / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|round| round * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    (step, (wanted / step).ceil() * step)
}
