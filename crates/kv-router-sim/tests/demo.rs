//! The program from outside.
#![expect(clippy::unwrap_used, reason = "helpers of tests may fail the test")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use kv_router_sim::scenario::Scenario;

/// A folder of the test's own, emptied first.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn demo(name: &str, arguments: &[&str]) -> (Output, PathBuf) {
    let folder = folder(name);
    let trace: String = (0..40)
        .map(|i| {
            let (at, ids) = (i * 500, [i % 4, 100 + i % 4, 1_000 + i]);
            format!(
                "{{\"timestamp\":{at},\"input_length\":1300,\"output_length\":20,\"hash_ids\":{ids:?}}}\n"
            )
        })
        .collect();
    fs::write(folder.join("trace.jsonl"), trace).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kv-router-demo"));
    (command.current_dir(&folder).args(arguments).output().unwrap(), folder)
}

#[track_caller]
fn refused(name: &str, arguments: &[&str], says: &str) {
    let (output, _) = demo(name, arguments);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(stderr.contains(says), "{stderr}");
}

#[test]
fn json_is_one_line_a_policy_and_the_chart_is_written() {
    let arguments = [
        "--trace",
        "trace.jsonl",
        "--engines",
        "2",
        "--json",
        "--policy",
        "random",
        "--policy",
        "round-robin",
    ];
    let (output, folder) = demo("json", &arguments);
    assert!(output.status.success());
    let stdout = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 2);
    for (line, policy) in lines.iter().zip(["round-robin", "random"]) {
        assert!(
            line.starts_with(&format!("{{\"policy\":\"{policy}\",\"requests\":40,\"hit_ratio\":0.")),
            "{line}"
        );
    }
    assert!(fs::read_to_string(folder.join("out/demo.svg")).unwrap().contains("round-robin"));
}

#[test]
fn the_table_has_every_policy() {
    let (output, folder) = demo("table", &["--trace", "trace.jsonl", "--chart", "chart.svg"]);
    assert!(output.status.success());
    let stdout = String::from_utf8(output.stdout).unwrap();
    for policy in kv_router_sim::policy::POLICIES {
        assert!(stdout.contains(&format!("\n{}", policy.name)), "{stdout}");
    }
    assert!(folder.join("chart.svg").exists());
}

#[test]
fn bad_values_say_what_to_do() {
    refused("engines", &["--engines", "0"], "1..=4096");
    refused("block", &["--block-size", "24"], "use 16, 32, 64, 128, 256 or 512");
    refused("policy", &["--policy", "best"], "least-loaded");
    refused("utilisation", &["--utilisation", "0"], "0.7 is busy and stable");
    refused("missing", &["--trace", "none.jsonl"], "cannot read none.jsonl");
    fs::write(folder("bad").join("bad.jsonl"), "{}").unwrap();
    refused("bad-line", &["--trace", "../bad/bad.jsonl"], "trace line 1: no `timestamp`");
}

#[test]
fn a_scenario_brings_its_own_fleet_and_its_yardstick() {
    let (output, folder) = demo("scenario", &["--scenario", "hot-prefix", "--requests", "60", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let names =
        ["kv-aware\"", "kv-aware defaults\"", "least-loaded\"", "round-robin\"", "random\"", "best-prefix\""];
    assert_eq!(text.lines().count(), names.len());
    for (line, name) in text.lines().zip(names) {
        assert!(line.starts_with(&format!("{{\"policy\":\"{name}")), "{line}");
    }
    let chart = fs::read_to_string(folder.join("out/demo-hot-prefix.svg")).unwrap();
    assert!(chart.contains("hot-prefix: 60 requests"));
}

#[test]
fn help_explains_scenarios_and_a_wrong_name_lists_them() {
    let (output, _) = demo("help", &["--help"]);
    let help = String::from_utf8(output.stdout).unwrap();
    let (output, _) = demo("wrong", &["--scenario", "hot"]);
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    for scenario in Scenario::ALL {
        assert!(help.contains(scenario.summary()), "{scenario}");
        assert!(error.contains(scenario.name()), "{scenario}");
    }
    let (output, _) = demo("both", &["--scenario", "tiers", "--engines", "3"]);
    assert!(!output.status.success());
    let (output, _) = demo("knobs", &["--knobs", "prefil=1"]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("prefill_load_scale"));
}

#[test]
fn all_scenarios_are_one_chart() {
    let arguments = ["--scenario", "all", "--requests", "20", "--policy", "kv-aware", "--chart", "all.svg"];
    let (output, folder) = demo("all", &arguments);
    assert!(output.status.success(), "{output:?}");
    let (table, chart) =
        (String::from_utf8(output.stdout).unwrap(), fs::read_to_string(folder.join("all.svg")).unwrap());
    for scenario in Scenario::ALL {
        assert!(table.contains(&format!("{scenario}: 20 requests")) && chart.contains(scenario.name()));
    }
}

#[test]
fn results_are_printed_even_when_the_chart_cannot_be_written() {
    let (output, _) = demo("chart", &["--trace", "trace.jsonl", "--chart", "trace.jsonl/demo.svg", "--json"]);
    assert!(!output.status.success() && !output.stdout.is_empty());
    assert!(String::from_utf8(output.stderr).unwrap().contains("cannot write trace.jsonl/demo.svg"));
}
