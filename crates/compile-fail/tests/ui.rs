//! What is wrong with a graph and can be seen by the compiler does not compile, and the error says why.
//!
//! Each program in `ui/` has beside it what the compiler says of it. `TRYBUILD=overwrite cargo test -p countersign-compile-fail`
//! writes that anew, after a change or for a new compiler: look at the difference.

#[test]
fn g1_a_graph_that_cannot_be_right_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
