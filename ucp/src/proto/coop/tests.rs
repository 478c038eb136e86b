//! Which lanes can share messages.

use bowline_uct::Caps;

use super::{SHARING, can_share};

/// The copies of both sides end in their calls, by which the buffers are theirs long enough.
#[test]
fn only_lanes_whose_copies_end_in_the_call_share() {
    assert!(can_share(SHARING));
    for other in [Caps::EXPOSE, Caps::CARRIES, Caps::LOOPBACK] {
        assert!(!can_share(SHARING | other), "{other:?}");
    }
}
