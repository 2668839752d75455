//! Small multiples: several comparisons under each other, mean and 99th percentile of the time to first token side by
//! side, one bar a policy.

use std::error::Error;

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::chart::{BARS, Canvas, Drawn, GRID, INK, SOFT};
use super::{ChartError, Comparison, PolicyReport};

const MARGIN: i32 = 24;
const TOP: i32 = 64;
const NAMES: i32 = 150;
const PANEL: i32 = 260;
/// Room for the number at the end of a bar.
const VALUE: i32 = 70;
const BAR: i32 = 15;
const HEAD: i32 = 26;
const GAP: i32 = 14;

/// A bar this many times the shortest one leaves the panel: below it, differences can be seen.
const MOST_TIMES: f64 = 5.0;

/// The comparisons as an SVG document, each under its name. Settings of a policy are named once, beside the name of the
/// comparison.
///
/// # Errors
///
/// [`ChartError`] when the drawing library fails, which it has no reason to.
pub fn multiples(title: &str, comparisons: &[(String, Comparison)]) -> Result<String, ChartError> {
    let mut document = String::new();
    draw(title, comparisons, &mut document).map_err(|source| ChartError { source })?;
    Ok(document)
}

fn draw(
    title: &str,
    comparisons: &[(String, Comparison)],
    document: &mut String,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let rows = |comparison: &Comparison| HEAD + comparison.policies.len() as i32 * BAR + GAP;
    let width = 2 * MARGIN + NAMES + 2 * (PANEL + VALUE);
    let height = TOP + comparisons.iter().map(|(_, comparison)| rows(comparison)).sum::<i32>() + MARGIN;
    let root = SVGBackend::with_string(document, (width as u32, height as u32)).into_drawing_area();
    let canvas = Canvas { root: &root };
    root.fill(&WHITE)?;
    canvas.text(title, (MARGIN, 32), 20, &INK, HPos::Left)?;
    let columns = [
        ("mean", MARGIN + NAMES, (|report| report.outcome.ttft.mean) as fn(&PolicyReport) -> f64),
        ("p99", MARGIN + NAMES + PANEL + VALUE, |report| report.outcome.ttft.p99),
    ];
    for (name, left, _) in columns {
        canvas.text(&format!("time to first token, {name}"), (left, 56), 13, &SOFT, HPos::Left)?;
    }
    let mut top = TOP;
    for (name, comparison) in comparisons {
        head(&canvas, name, comparison, top)?;
        for (_, left, value) in columns {
            panel(&canvas, comparison, value, (left, top + HEAD))?;
        }
        top += rows(comparison);
    }
    root.present()?;
    Ok(())
}

/// The name of a comparison, the settings tried in it, and the names of its policies.
fn head(canvas: &Canvas<'_, '_>, name: &str, comparison: &Comparison, top: i32) -> Drawn {
    let line = [(MARGIN, top + 2), (MARGIN + NAMES + 2 * (PANEL + VALUE), top + 2)];
    canvas.root.draw(&PathElement::new(line, GRID.stroke_width(1)))?;
    canvas.text(name, (MARGIN, top + 19), 14, &INK, HPos::Left)?;
    let settings = comparison.policies.iter().find_map(|report| split(&report.policy).1);
    if let Some(settings) = settings {
        let left = MARGIN + NAMES;
        canvas.text(&format!("* {settings}"), (left, top + 19), 12, &SOFT, HPos::Left)?;
    }
    for (index, report) in (0..).zip(&comparison.policies) {
        let at = (MARGIN + NAMES - 8, top + HEAD + index * BAR + 12);
        let (policy, settings) = split(&report.policy);
        let star = if settings.is_some() { " *" } else { "" };
        canvas.text(&format!("{policy}{star}"), at, 12, &INK, HPos::Right)?;
    }
    Ok(())
}

fn panel(
    canvas: &Canvas<'_, '_>,
    comparison: &Comparison,
    value: fn(&PolicyReport) -> f64,
    (left, top): (i32, i32),
) -> Drawn {
    let values: Vec<f64> = comparison.policies.iter().map(value).collect();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max).min(least * MOST_TIMES).max(f64::MIN_POSITIVE);
    for (index, (value, report)) in (0..).zip(values.iter().zip(&comparison.policies)) {
        let length = (f64::from(PANEL) * (value / most).min(1.0)).round() as i32;
        let y = top + index * BAR;
        let color = if report.policy.starts_with("kv-aware") { BARS[0] } else { BARS[1] };
        canvas.root.draw(&Rectangle::new([(left, y + 2), (left + length, y + BAR - 2)], color.filled()))?;
        let is_cut = *value > most;
        let label = format!("{}{:.2} s", if is_cut { "> " } else { "" }, value / 1e3);
        canvas.text(&label, (left + length + 5, y + 12), 12, &INK, HPos::Left)?;
    }
    Ok(())
}

/// A policy, and the settings that it was given.
fn split(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once(' ') {
        Some((policy, settings)) if settings.contains('=') => (policy, Some(settings)),
        _ => (name, None),
    }
}
