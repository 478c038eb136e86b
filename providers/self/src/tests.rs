//! placeholder while the suite is written
