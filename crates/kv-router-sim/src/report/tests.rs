//! The three forms of one comparison.

use super::*;
use crate::metrics::Spread;
use crate::time::SimTime;

fn comparison() -> Comparison {
    let report = |policy: &str, hit_blocks, mean| PolicyReport {
        policy: policy.to_owned(),
        outcome: Outcome {
            finished: 12,
            refused: 1,
            resent: 0,
            preemptions: 2,
            hit_blocks,
            prompt_blocks: 90,
            ttft: Spread { mean, p50: 1000.0, p99: 9000.125 },
            queueing: Spread { mean: 10.0, p50: 0.0, p99: 30.0 },
            end_to_end: Spread { mean: 20_000.0, p50: 19_000.0, p99: 60_000.0 },
            decision: Spread { mean: 0.01, p50: 0.0105, p99: 0.0402 },
            imbalance: 1.234_56,
            engines: vec![],
            end: SimTime::from_millis(61_500),
        },
    };
    Comparison {
        setting: "8 engines".to_owned(),
        bound: HitBound { hit_blocks: 45, prompt_blocks: 90 },
        policies: vec![report("kv-aware", 30, 1234.5678), report("least-loaded", 3, 2345.0)],
    }
}

#[test]
fn json_begins_with_the_agreed_keys_in_the_agreed_order() {
    let comparison = comparison();
    let line = json_line(&comparison.policies[0], &comparison.bound);
    let agreed = "{\"policy\":\"kv-aware\",\"requests\":12,\"hit_ratio\":0.3333,\
                  \"ttft_ms\":{\"mean\":1234.568,\"p50\":1000.0,\"p99\":9000.125},\"imbalance\":1.2346,\
                  \"decision_us\":{\"p50\":10.5,\"p99\":40.2},\"hit_bound\":0.5,";
    assert!(line.starts_with(agreed), "{line}");
    assert!(!line.contains('\n'));
    assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok());
}

#[test]
fn the_table_is_aligned_and_names_the_bound() {
    let text = table(&comparison());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "8 engines");
    assert!(
        lines[2].starts_with("policy")
            && lines[2].len() == lines[3].len()
            && lines[3].len() == lines[4].len()
    );
    assert!(lines[3].contains("0.333") && lines[3].contains("1235"));
    assert!(lines[6].ends_with("unlimited shared cache: 0.500"));
}

#[test]
fn the_chart_names_every_policy_and_value_and_stays_inside() {
    let document = svg(&comparison()).unwrap();
    assert!(document.starts_with("<svg") && document.trim_end().ends_with("</svg>"));
    for text in
        ["kv-aware", "least-loaded", "unlimited shared cache 0.500", "0.333", "1.23 s", "9.0 s", "8 engines"]
    {
        assert!(document.contains(text), "{text}");
    }
    let attribute = |name: &str| -> Vec<i32> {
        let before = format!(" {name}=\"");
        let values = document.split(&before).skip(1);
        values.filter_map(|rest| rest.split('"').next()?.parse().ok()).collect()
    };
    let width = attribute("width")[0];
    assert!(attribute("x").into_iter().all(|x| (0..=width).contains(&x)));
    assert!(attribute("y").into_iter().all(|y| (0..=480).contains(&y)));
}

#[test]
fn a_chart_of_nothing_is_still_a_chart() {
    let empty = Comparison { setting: String::new(), bound: HitBound::default(), policies: vec![] };
    assert!(svg(&empty).unwrap().contains("Prefix hit ratio"));
}

#[test]
fn small_multiples_shorten_names_and_keep_every_value() {
    let mut comparison = comparison();
    comparison.policies[1].policy = "kv-aware prefill_load_scale=32".to_owned();
    comparison.policies[1].outcome.ttft.mean = 99_000.0; // far off the scale
    let document = multiples("Scenarios", &[("bursty".to_owned(), comparison.clone())]).unwrap();
    for text in
        ["Scenarios", "bursty", "* prefill_load_scale=32", "kv-aware *", "1.23 s", "99.00 s", "9.00 s"]
    {
        assert!(document.contains(text), "{text}");
    }
    assert!(!document.contains("kv-aware prefill_load_scale=32"));
    assert!(multiples("", &[]).unwrap().starts_with("<svg"));
}
