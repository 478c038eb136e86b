//! The lexer and the finding of tests, on small files.

use super::*;

fn source(text: &str) -> Source {
    Source::new("base/src/sample.rs", text)
}

fn code(text: &str) -> Vec<String> {
    source(text).lines.into_iter().map(|line| line.code).collect()
}

#[test]
fn comments_and_strings_are_no_code() {
    assert_eq!(code("let a = 1; // unsafe\nb();"), ["let a = 1; ", "b();"]);
    assert_eq!(code("a /* x /* y */ unsafe */ b"), ["a  b"]);
    assert_eq!(code("f(\"unsafe \\\" // no\", 2);"), ["f(\"\", 2);"]);
    assert_eq!(code("f(r#\"a \" unsafe\"#, br\"x\");"), ["f(\"\", \"\");"]);
    assert_eq!(code("let s = \"one\n  unsafe\n\"; t"), ["let s = \"", "", "\"; t"]);
    assert_eq!(source("x // why\n").lines[0].comment, "// why");
}

#[test]
fn characters_are_distinguished_from_lifetimes() {
    assert_eq!(code("f('\"', '\\'', 'x'); g::<'a>(); // c"), ["f('', '', ''); g::<'a>(); "]);
    assert_eq!(code("'\\u{1f600}' 'outer: loop"), ["'' 'outer: loop"]);
}

#[test]
fn an_identifier_that_ends_in_r_starts_no_raw_string() {
    assert_eq!(code("for\"x\"; expr#\"y\""), ["for\"\"; expr#\"\""]);
}

#[test]
fn a_test_module_is_found_to_its_end() {
    let source =
        source("fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { if x { y } }\n}\nfn c() {}\n");
    let test: Vec<bool> = source.lines.iter().map(|line| line.test).collect();
    assert_eq!(test, [false, true, true, true, true, false]);
}

#[test]
fn attributes_that_mean_tests() {
    let is_test = |text: &str| source(text).lines.last().expect("a line").test;
    assert!(is_test("#[test]\nfn a() {}"));
    assert!(is_test("#[cfg(all(test, not(bowline_loom)))]\nuse x;"));
    assert!(is_test("#[cfg(test)] struct A;"));
    assert!(!is_test("#[cfg(not(test))]\nfn a() {}"));
    assert!(!is_test("#[cfg(feature = \"test\")]\nfn a() {}"));
    assert!(!is_test("#[cfg(test)]\nuse x;\nfn a() {}"));
    assert!(!is_test("struct S {\n#[cfg(test)]\na: u8,\nb: u8 }"));
}

#[test]
fn modules_declared_for_tests_are_named() {
    let found = source("#[cfg(all(test, bowline_loom))]\nmod loom_tests;\nmod real;\n");
    assert_eq!(found.test_modules, ["loom_tests"]);
    assert_eq!(found.module_directory(), "base/src/sample/");
    assert_eq!(Source::new("ucp/src/lib.rs", "").module_directory(), "ucp/src/");
}

#[test]
fn implementations_of_traits_are_distinguished_from_others() {
    let found =
        source("impl A for B {\n    x\n}\nimpl B {\n    y\n}\nimpl<F: for<'a> G<'a>> C {\n z\n}");
    let inside: Vec<bool> = found.lines.iter().map(|line| line.trait_impl).collect();
    assert!(inside[1] && !inside[4] && !inside[7], "{inside:?}");
}

#[test]
fn comments_near_a_line() {
    let found = source("// pairs with x\n// more\na;\nb;\nc;\n");
    assert!(found.comment_near(2, 1, &["pairs with"]));
    assert!(found.comment_near(4, 3, &["pairs with"]));
    assert!(!found.comment_near(4, 2, &["pairs with"]));
}

#[test]
fn places_of_tests() {
    assert!(is_test_path("ucp/tests/order.rs"));
    assert!(is_test_path("base/src/job/tests.rs"));
    assert!(is_test_path("base/src/scmp/loom_tests.rs"));
    assert!(is_test_path("uct/src/conformance/am.rs"));
    assert!(!is_test_path("base/src/scmp/seq.rs"));
}
