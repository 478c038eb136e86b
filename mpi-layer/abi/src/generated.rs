//! What `cargo xtask abi` makes from the tables of facts.

#[expect(dead_code, reason = "the table has every constant of the ABI")]
#[rustfmt::skip]
pub(crate) mod constants;
