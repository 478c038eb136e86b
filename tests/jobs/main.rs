//! Jobs of real processes: our launcher and launchers of others, agents, deaths. One program; a file
//! below is a module of it.

mod death;
mod harness;
mod hosts;
mod interop;
mod launch;
mod liars;
mod managers;
mod namespaces;
mod ssh;
mod starved;
