//! What the suite does not ask.
