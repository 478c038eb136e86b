//! Algorithms in layers, by the settings of the collectives that have them. The tests of killed processes use them, too.

/// Some for each collective, at least two. Where they are not for the nodes of a communicator, it does without them.
pub(crate) const LAYERS: [(&str, &[&str]); 10] = [
    ("BOWLINE_BARRIER", &["nodes:linear:dissemination", "nodes:linear:multiplying:2"]),
    ("BOWLINE_BCAST", &["nodes:linear:binomial", "nodes:binomial:chain", "nodes:linear:split:1"]),
    ("BOWLINE_REDUCE", &["nodes:binomial:ordered", "nodes:linear:chain", "nodes:linear:halving"]),
    ("BOWLINE_ALLREDUCE", &["nodes:linear:doubling", "nodes:binomial:halving", "nodes:linear:a2"]),
    ("BOWLINE_GATHER", &["nodes:linear:binomial", "nodes:binomial:linear"]),
    ("BOWLINE_SCATTER", &["nodes:linear:linear", "nodes:binomial:binomial"]),
    ("BOWLINE_ALLGATHER", &["nodes:linear:bruck", "nodes:binomial:ring"]),
    ("BOWLINE_ALLTOALL", &["nodes:linear:pairwise", "nodes:linear:direct"]),
    ("BOWLINE_REDUCE_SCATTER", &["nodes:linear:pairwise", "nodes:binomial:multiplying:2"]),
    ("BOWLINE_SCAN", &["nodes:linear:doubling", "nodes:binomial:chain"]),
];
