//! A picture of the ratios, as SVG.

use std::error::Error;

use plotters::prelude::*;

use crate::report::{ConcurrentRatios, Ratios};

const ROW_HEIGHT: u32 = 22;
const WIDTH: u32 = 960;
const COLOURS: [RGBColor; 4] =
    [RGBColor(31, 119, 180), RGBColor(44, 160, 44), RGBColor(255, 127, 14), RGBColor(127, 127, 127)];

/// How many times better than the best peer on each measure, one row a corpus and size, on a logarithmic axis: right of
/// the line we win, left of it we lose.
///
/// # Errors
///
/// When the drawing fails, which for a picture in memory means a fault of the library.
pub fn ratios(results: &[(String, u32, Ratios, Option<ConcurrentRatios>)]) -> Result<String, Box<dyn Error>> {
    const MEASURES: [&str; 4] = ["block operations", "lookup p50", "lookup p99", "bytes"];
    let gains = |ratios: &Ratios| {
        [ratios.block_ops, 1.0 / ratios.lookup_p50, 1.0 / ratios.lookup_p99, 1.0 / ratios.bytes]
    };
    let all = || results.iter().flat_map(|(_, _, ratios, _)| gains(ratios));
    let low = all().fold(0.5, f64::min).log2().floor().exp2();
    let high = all().fold(2.0, f64::max).log2().ceil().exp2();
    let rows = results.len();
    let mut svg = String::new();
    {
        let size = (WIDTH, rows as u32 * ROW_HEIGHT + 130);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption("times better than the best peer on each measure", ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(170)
            .build_cartesian_2d((low..high).log_scale(), 0.0..rows as f64)?;
        let label = |row: &f64| {
            // The top row is the first result.
            let at = rows as f64 - 0.5 - row;
            let found = (at.fract() == 0.0 && at >= 0.0).then(|| results.get(at as usize)).flatten();
            found.map(|(corpus, workers, ..)| format!("{corpus}, {workers}")).unwrap_or_default()
        };
        chart
            .configure_mesh()
            .disable_y_mesh()
            .x_desc("left of 1 we lose, right of it we win")
            .x_label_formatter(&|value| format!("{value}"))
            .y_labels(0)
            .draw()?;
        for row in 0..rows {
            let middle = row as f64 + 0.5;
            let style = ("sans-serif", 13).into_font().color(&BLACK);
            let (x, y) = chart.backend_coord(&(low, middle));
            root.draw(&Text::new(label(&middle), (x - 160, y - 6), style))?;
        }
        chart.draw_series(LineSeries::new([(1.0, 0.0), (1.0, rows as f64)], BLACK.stroke_width(2)))?;
        for (at, (name, colour)) in MEASURES.into_iter().zip(COLOURS).enumerate() {
            let dots = results.iter().enumerate().map(|(row, (_, _, ratios, _))| {
                // Four dots a row, one below the other, so that none hides another.
                let y = (rows - row) as f64 - 0.2 - 0.2 * at as f64;
                Circle::new((gains(ratios)[at], y), 4, colour.filled())
            });
            chart
                .draw_series(dots)?
                .label(name)
                .legend(move |(x, y)| Circle::new((x + 7, y), 4, colour.filled()));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.9))
            .border_style(BLACK.mix(0.3))
            .label_font(("sans-serif", 13))
            .draw()?;
        root.present()?;
    }
    Ok(svg)
}
