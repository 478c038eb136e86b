//! Fuzz targets: one function per decoder of bytes that come from somebody else.
//!
//! A target returns on any input; a panic, a hang or a sanitizer's report is a finding. What it
//! asserts beyond that is a property of the decoder (what was read can be written again, nothing
//! longer than the input comes out).
//!
//! - `cargo +nightly fuzz run TARGET --features libfuzzer fuzz/corpus/TARGET fuzz/seeds/TARGET`
//!   searches; new inputs go to the first directory, which is not committed.
//! - `cargo test` in this directory replays `seeds/` on a stable compiler; CI does that. An input
//!   that broke something is added to the seeds together with the correction.

mod addresses;
mod arrivals;
mod lane;
mod launch;
mod ofi;
mod programs;
mod queues;
mod settings;
mod shared;
mod shm;
mod tcp;
mod verbs;

/// A target: its name, which is also that of its seeds' directory, and what it does.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("worker_address", addresses::worker_address),
    ("introduction", addresses::introduction),
    ("addr_reader", addresses::addr_reader),
    ("ucp_arrivals", arrivals::ucp_arrivals),
    ("ucp_rkey", arrivals::ucp_rkey),
    ("pmi_server", launch::pmi_server),
    ("pmi_client", launch::pmi_client),
    ("agent_messages", launch::agent_messages),
    ("process_mapping", launch::process_mapping),
    ("published_values", launch::published),
    ("scmp_consumer", queues::scmp_consumer),
    ("ring_consumer", queues::ring_consumer),
    ("queue_address", queues::queue_address),
    ("queue_introduction", queues::queue_introduction),
    ("multirail", bowline_multirail::fuzz::decoders),
    ("shared_offer", shared::offer),
    ("config", settings::config),
    ("records", programs::records),
    ("programs", programs::programs),
    ("tables", programs::tables),
    ("ofi_message", ofi::message),
    ("ofi_address", ofi::address),
    ("ofi_rkey", ofi::rkey),
    ("shm_address", shm::address),
    ("shm_guest", shm::guest),
    ("shm_rkey", shm::rkey),
    ("tcp_frames", tcp::frames),
    ("tcp_handshake", tcp::handshake),
    ("verbs_address", verbs::address),
    ("verbs_control", verbs::control),
    ("verbs_messages", verbs::messages),
];

/// Runs the target `name`.
///
/// # Panics
/// When there is no such target, or when it has found something.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    target.expect("the programs name targets of the table").1(bytes);
}
