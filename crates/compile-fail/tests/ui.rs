//! Errors of graphs that the compiler can detect do not compile, and the error says why.
//!
//! Each program in `ui/` has the compiler's output beside it. `TRYBUILD=overwrite cargo test -p
//! countersign-compile-fail` writes that again, after a change or for a new compiler: look at the difference.

#[test]
fn g1_a_graph_that_cannot_be_right_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
