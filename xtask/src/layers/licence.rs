//! Whether an SPDX licence expression can be satisfied with licences that we accept.

/// Licences we accept. `.deny.toml` holds the same list, for `cargo deny`.
pub(super) const ACCEPTED: &[&str] =
    &["Apache-2.0", "BSD-3-Clause", "BSL-1.0", "ISC", "MIT", "NCSA", "Unicode-3.0", "Zlib"];

/// The expression is not SPDX: a human must look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Whether `accepted` licences satisfy `expression`. `/` is the old spelling of OR. `X WITH Y` is a licence of
/// its own, accepted only when listed as such.
pub(super) fn satisfied(expression: &str, accepted: &[&str]) -> Result<bool, Malformed> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut parser = Parser { tokens: spaced.split_whitespace().collect(), next: 0, accepted };
    let result = parser.alternatives()?;
    if parser.next == parser.tokens.len() { Ok(result) } else { Err(Malformed) }
}

/// Recursive descent; AND binds tighter than OR. Both sides are always parsed, so that a malformed right side is
/// found even when the left side decides.
struct Parser<'a> {
    tokens: Vec<&'a str>,
    next: usize,
    accepted: &'a [&'a str],
}

impl<'a> Parser<'a> {
    fn alternatives(&mut self) -> Result<bool, Malformed> {
        let mut result = self.conjunction()?;
        while self.eat("OR") {
            result |= self.conjunction()?;
        }
        Ok(result)
    }

    fn conjunction(&mut self) -> Result<bool, Malformed> {
        let mut result = self.licence()?;
        while self.eat("AND") {
            result &= self.licence()?;
        }
        Ok(result)
    }

    fn licence(&mut self) -> Result<bool, Malformed> {
        if self.eat("(") {
            let result = self.alternatives()?;
            return if self.eat(")") { Ok(result) } else { Err(Malformed) };
        }
        let name = self.name()?;
        if self.eat("WITH") {
            let full = format!("{name} WITH {}", self.name()?);
            return Ok(self.accepted.contains(&full.as_str()));
        }
        Ok(self.accepted.contains(&name))
    }

    fn name(&mut self) -> Result<&'a str, Malformed> {
        let token = *self.tokens.get(self.next).ok_or(Malformed)?;
        if matches!(token, "AND" | "OR" | "WITH" | "(" | ")") {
            return Err(Malformed);
        }
        self.next += 1;
        Ok(token)
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.tokens.get(self.next) == Some(&token);
        self.next += usize::from(found);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expression: &str, expected: Result<bool, Malformed>) {
        assert_eq!(satisfied(expression, &["MIT", "Apache-2.0", "Unicode-3.0"]), expected, "{expression}");
    }

    #[test]
    fn one_alternative_is_enough_and_every_conjunct_is_needed() {
        check("MIT", Ok(true));
        check("GPL-3.0-only", Ok(false));
        check("MIT OR GPL-3.0-only", Ok(true));
        check("GPL-3.0-only OR MIT", Ok(true));
        check("MIT AND GPL-3.0-only", Ok(false));
        check("MIT AND Apache-2.0", Ok(true));
        check("MIT/GPL-3.0-only", Ok(true));
        check("Unlicense / GPL-3.0-only", Ok(false));
    }

    #[test]
    fn precedence_and_parentheses() {
        check("MIT OR Apache-2.0 AND GPL-3.0-only", Ok(true));
        check("(MIT OR Apache-2.0) AND GPL-3.0-only", Ok(false));
        check("(MIT OR GPL-3.0-only) AND Unicode-3.0", Ok(true));
    }

    #[test]
    fn an_exception_is_a_licence_of_its_own() {
        check("Apache-2.0 WITH LLVM-exception", Ok(false));
        check("Apache-2.0 WITH LLVM-exception OR MIT", Ok(true));
        assert_eq!(satisfied("A WITH B", &["A WITH B"]), Ok(true));
    }

    #[test]
    fn names_are_compared_whole() {
        check("MIT-0", Ok(false));
        check("mit", Ok(false));
    }

    #[test]
    fn malformed_expressions_are_not_a_verdict() {
        for expression in ["", "OR", "MIT OR", "MIT MIT", "(MIT", "MIT)", "MIT AND OR MIT", "MIT WITH", "()"]
        {
            check(expression, Err(Malformed));
        }
    }

    #[test]
    fn cargo_deny_is_given_the_same_list() {
        let settings = include_str!("../../../.deny.toml");
        let (_, list) = settings.split_once("\nallow = [").unwrap();
        let (list, _) = list.split_once(']').unwrap();
        let listed: Vec<_> =
            list.split(',').map(|name| name.trim().trim_matches('"')).filter(|n| !n.is_empty()).collect();
        assert_eq!(listed, ACCEPTED);
    }
}
