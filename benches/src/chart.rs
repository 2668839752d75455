//! Pictures of a benchmark, as SVG.

use std::error::Error;

use kv_router_types::KvEvent;
use plotters::prelude::*;

use crate::corpus::{Corpus, Op};
use crate::open_loop::Ladder;

const SIZE: (u32, u32) = (900, 560);
const COLOURS: [RGBColor; 8] = [
    RGBColor(31, 119, 180),
    RGBColor(214, 39, 40),
    RGBColor(44, 160, 44),
    RGBColor(148, 103, 189),
    RGBColor(255, 127, 14),
    RGBColor(23, 190, 207),
    RGBColor(127, 127, 127),
    RGBColor(140, 86, 75),
];

/// Offered against achieved rate for every index, in millions of block operations per second, both axes
/// logarithmic. On the diagonal an index keeps up; where it leaves it is its knee.
///
/// # Errors
///
/// When the drawing fails, which for a picture in memory means a fault of the library.
pub fn ladders(corpus: &str, ladders: &[(String, Ladder)]) -> Result<String, Box<dyn Error>> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let points = || ladders.iter().flat_map(|(_, ladder)| &ladder.points);
        // Whole decades, so that the logarithmic axes have marks.
        let low = points().map(|p| p.achieved.min(p.offered) * 1e-6).fold(f64::MAX, f64::min).log10().floor();
        let high = points().map(|p| p.achieved.max(p.offered) * 1e-6).fold(0.0, f64::max).log10().ceil();
        let (low, high) = (10_f64.powf(low), 10_f64.powf(high));
        let mut chart = ChartBuilder::on(&root)
            .caption(format!("{corpus}: offered and achieved"), ("sans-serif", 22))
            .margin(16)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d((low..high).log_scale(), (low..high).log_scale())?;
        chart
            .configure_mesh()
            .x_desc("offered, M block operations/s")
            .y_desc("achieved, M block operations/s")
            .x_label_formatter(&|value| format!("{value}"))
            .y_label_formatter(&|value| format!("{value}"))
            .draw()?;
        chart.draw_series(LineSeries::new([(low, low), (high, high)], BLACK.mix(0.25)))?;
        for ((name, ladder), colour) in ladders.iter().zip(COLOURS.iter().cycle().copied()) {
            let line = || ladder.points.iter().map(|point| (point.offered * 1e-6, point.achieved * 1e-6));
            chart
                .draw_series(LineSeries::new(line(), colour.stroke_width(2)))?
                .label(format!("{name}, knee {:.1} M", ladder.knee * 1e-6))
                .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 14, y + 4)], colour.filled()));
            chart.draw_series(line().map(|at| Circle::new(at, 3, colour.filled())))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.9))
            .border_style(BLACK.mix(0.3))
            .label_font(("sans-serif", 14))
            .draw()?;
        root.present()?;
    }
    Ok(svg)
}

/// Blocks stored (blue) and removed (red) per worker over virtual time: where the write load of a fleet is.
///
/// # Errors
///
/// When the drawing fails, which for a picture in memory means a fault of the library.
pub fn density(corpus: &Corpus) -> Result<String, Box<dyn Error>> {
    const BINS: usize = 100;
    let span = corpus.ops.last().map_or(1, |(at, _)| at.as_nanos()).max(1);
    let mut stored = vec![[0_u64; BINS]; corpus.workers.len()];
    let mut removed = vec![[0_u64; BINS]; corpus.workers.len()];
    for (at, op) in &corpus.ops {
        let Op::Apply(from, event) = op else { continue };
        let Some(row) = corpus.workers.iter().position(|worker| worker == from) else { continue };
        let bin = (at.as_nanos() as u128 * BINS as u128 / span as u128).min(BINS as u128 - 1) as usize;
        match event {
            KvEvent::Stored { blocks, .. } => stored[row][bin] += blocks.len() as u64,
            KvEvent::Removed { blocks, .. } => removed[row][bin] += blocks.len() as u64,
            KvEvent::Cleared => {}
        }
    }

    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let (upper, lower) = root.split_vertically(SIZE.1 / 2);
        let panels = [(upper, "stored", &stored, COLOURS[0]), (lower, "removed", &removed, COLOURS[1])];
        for (area, what, counts, colour) in panels {
            let most = counts.iter().flatten().copied().max().unwrap_or(0).max(1);
            let seconds = span as f64 / 1e9;
            let mut chart = ChartBuilder::on(&area)
                .caption(
                    format!("{}: blocks {what}, at most {most} in a cell", corpus.name),
                    ("sans-serif", 16),
                )
                .margin(10)
                .x_label_area_size(32)
                .y_label_area_size(48)
                .build_cartesian_2d(0.0..seconds, 0.0..counts.len() as f64)?;
            chart.configure_mesh().disable_mesh().x_desc("seconds").y_desc("worker").draw()?;
            let width = seconds / BINS as f64;
            let cells = counts.iter().enumerate().flat_map(|(row, bins)| {
                bins.iter().enumerate().filter(|(_, count)| **count > 0).map(move |(bin, &count)| {
                    let shade = (count as f64 / most as f64).sqrt();
                    let corner = (bin as f64 * width, row as f64);
                    Rectangle::new([corner, (corner.0 + width, corner.1 + 1.0)], colour.mix(shade).filled())
                })
            });
            chart.draw_series(cells)?;
        }
        root.present()?;
    }
    Ok(svg)
}
