//! Parts of which providers build their interfaces: what every transport has to keep, whatever it runs over.
//!
//! | part | what it keeps |
//! |---|---|
//! | [`EpTable`] | endpoints by number, and which of them may take operations |
//! | [`EventQueue`] | completions and failures until `progress` reports them; flushes of several endpoints |
//! | [`WritableList`] | endpoints that asked for [`Sink::writable`](crate::Sink::writable), in fair order |
//! | [`MemoryTable`] | memory that peers may reach, by handle |
//! | [`KeyTable`] | keys of peers' memory that were opened; with [`bytes_of`] and [`check_len`], what operations check |
//! | [`NumberTable`] | what an interface over another one knows of the other's endpoints and senders |
//!
//! A transport takes the parts that fit it. None of them posts, blocks or logs, and the contract does not
//! mention them: what holds between a transport and its user is what [`Iface`](crate::Iface) says.

mod endpoints;
mod events;
mod keys;
mod memory;
mod numbers;
mod writable;

pub use endpoints::EpTable;
pub use events::{CompletionOf, Event, EventQueue};
pub use keys::{KeyTable, OpenKey, bytes_of, check_len};
pub use memory::{Held, MemoryTable, RegisteredMemory};
pub use numbers::NumberTable;
pub use writable::WritableList;
