//! The transport over the devices of a guest: one program, a module for each file. What changes the
//! network of all devices is a program of its own, `network`.

mod allocator;
mod common;
mod conformance;
mod counts;
mod ends;
mod loopback;
mod one_sided;
mod processes;
mod registrations;
mod secrets;
mod starved;
