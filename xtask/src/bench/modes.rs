//! The operations whose instructions are counted: one line for each.

/// An operation of the short path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mode {
    /// First argument of the example `instructions`. The example calls `measured_NAME`, a
    /// function that is not inlined, once per operation; what runs outside of it is not counted.
    pub(super) name: &'static str,
    /// What it is.
    pub(super) what: &'static str,
    /// Instructions that the design allows for it, where it says so; shown, not enforced.
    pub(super) goal: Option<u64>,
    /// Whether it is of the C program, and not of the example.
    pub(super) of_c: bool,
}

const fn mode(name: &'static str, what: &'static str, goal: u64) -> Mode {
    Mode { name, what, goal: Some(goal), of_c: false }
}

const fn counted(name: &'static str, what: &'static str) -> Mode {
    Mode { name, what, goal: None, of_c: false }
}

const fn of_c(name: &'static str, what: &'static str, goal: u64) -> Mode {
    Mode { name, what, goal: Some(goal), of_c: true }
}

/// All of them; payloads have 8 bytes.
pub(super) const MODES: &[Mode] = &[
    mode("uct_post", "shm: post a short active message", 60),
    mode("uct_receive", "shm: progress that delivers one", 80),
    mode("tag_send", "ucp: tagged eager send", 120),
    mode("tag_recv", "ucp: blocking receive, message present", 120),
    counted("tag_window", "ucp: wait for the oldest of 64 receives, and start one"),
    counted("am_send", "ucp: active message"),
    counted("am_recv", "ucp: progress that gives one to its handler"),
    counted("am_in_place", "ucp: the same, to a handler in place"),
    counted("stream_send", "ucp: send of a stream"),
    counted("stream_recv", "ucp: receive of a stream, and the wait for its bytes"),
    counted("poll", "ucp: progress that finds nothing"),
    counted("put", "ucp: put into mapped memory"),
    counted("get", "ucp: get from mapped memory"),
    counted("fadd", "ucp: fetch-and-add on mapped memory"),
    counted("rtr_taken", "ucp: progress that takes in an announced receive"),
    counted("rtr_send", "ucp: send that is written to an announced receive"),
    counted("rtr_recv", "ucp: wait for the oldest of four announced receives, and announce one"),
    mode("mpi_send", "MPI: blocking standard send", 180),
    mode("mpi_recv", "MPI: blocking receive, message present", 180),
    of_c("c_send", "C library: MPI_Send", 220),
    of_c("c_recv", "C library: MPI_Recv, message present", 480),
];
