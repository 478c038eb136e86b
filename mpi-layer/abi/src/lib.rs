//! Bowline's C library of MPI: every function of the standard ABI of MPI 5.0, over the core of
//! `bowline-mpi`. The file is `libmpi_abi.so`, under the name `libmpi_abi.so.1`; a C program needs it
//! and `include/mpi.h`, and nothing here is for Rust programs.
//!
//! It is thin: a function converts its arguments, checks them and calls the core.
//!
//! # Chapters
//! A chapter is a file with functions in the macro `mpi!`, whose page is in the module `entry`. To add
//! one: write the file, declare its module below, run `cargo xtask abi`. That removes the stubs of its
//! functions, checks what they take against `facts/functions.tsv`, and brings `docs/mpi-coverage.md` up
//! to date. What a chapter uses:
//!
//! | subject | module |
//! |---|---|
//! | handles as C has them, and the types of MPI's numbers | `handle` |
//! | objects behind handles | `table`; `library` has those of communicators, and below it those of all other kinds |
//! | addresses from the program | `arg`: `In`, `Out`, `Text`, `TextOut` |
//! | buffers of messages | `buffer`: `outgoing`, `incoming`, `memory` |
//! | errors | `fault`: `fault(class, sentence)`, `Fault::on(object)`, `?` of the core's errors; `raise` brings them to handlers |
//! | constants of the ABI | `generated::constants` |
//! | error handler, attributes, information and name of an object | `library::object::Common` |
//! | buffers of collectives: address, count and datatype | `elements` |
//! | the state while MPI runs | `library::Library`, under the name between the bars of `mpi!` |
//!
//! # Errors
//! An error code is its class. It goes to the error handler of the object that the function names,
//! or to that of `MPI_COMM_SELF`; no lock and no borrow is held when a handler is called.
//!
//! # Thread safety
//! Up to `MPI_THREAD_SERIALIZED`: the program lets one thread at a time into MPI. Functions that the
//! standard allows at any time may be called by any thread at any time.

mod abi;
mod arg;
mod attribute;
mod buffer;
mod buffered;
mod collective;
mod communicator;
mod construct;
mod convert;
mod datatype;
mod decode;
mod elements;
mod entry;
mod environment;
mod errhandler;
mod errors;
mod fault;
mod general;
mod generated;
mod group;
mod handle;
mod info;
mod library;
mod names;
mod op;
mod p2p;
mod pack;
mod persistent;
mod probe;
mod raise;
mod session;
mod shown;
mod status;
#[rustfmt::skip]
mod stubs;
mod table;
mod topology;
mod wait;
