//! The table of rules and tests names tests that are there.

use std::fs;
use std::path::Path;

const TABLE: &str = include_str!("../../../../docs/contract-tests.md");

#[test]
fn every_test_of_the_table_is_there() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let names = TABLE.split('`').filter_map(|part| part.split_once("::"));
    let mut found = 0;
    for (file, test) in names {
        let (krate, file) = file.split_once('/').unwrap();
        let mut places =
            ["tests", "src"].into_iter().map(|folder| crates.join(krate).join(folder).join(file));
        let source = places.find_map(|place| fs::read_to_string(place).ok());
        let source = source.unwrap_or_else(|| panic!("{krate} has no {file}"));
        assert!(source.contains(&format!("fn {test}(")), "{krate}/{file} has no test {test}");
        found += 1;
    }
    assert!(found > 60, "{found}");
    // Every rule has one.
    let rules = TABLE.lines().filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit());
    rules.for_each(|rule| assert!(rule.contains("::"), "{rule}"));
}
