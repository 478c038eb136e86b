//! Programs that must not compile: an operation would outlive its buffer, or a type that is not
//! plain data would travel. The texts beside them are the compiler's, so that each one fails for
//! its own reason.

#[test]
fn unsound_programs_are_refused() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/compile_fail/pass_*.rs");
    cases.compile_fail("tests/compile_fail/scope_*.rs");
    cases.compile_fail("tests/compile_fail/derive_*.rs");
    cases.compile_fail("tests/compile_fail/world_*.rs");
}
