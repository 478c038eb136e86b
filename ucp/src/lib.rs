//! The protocol engine of Bowline: tagged messages, active messages and one-sided operations over
//! any transport that keeps the contract of `bowline-uct`.
//!
//! # How it is built
//! A [`Worker`] owns its lanes (transport interfaces, in order of preference) and an engine. The
//! engine is the lanes' `Sink`: while a lane progresses it matches arrivals with receives and
//! notes what is to be posted in a bounded list of actions; after the lane has returned, the
//! worker carries the actions out. So no transport is ever re-entered.
//!
//! The crate has no clock, thread or socket of its own, and no `unsafe` but for the promise that
//! buffers outlive the operations that transports do on them (the module `loan`). Buffers come as
//! handles of `bowline-base`, waiting goes through a [`Waiter`], knowledge of deaths through a
//! [`FailureSource`].
//!
//! # Protocols
//! [`proto`] has the registry: what there is, what each needs of a lane, and what it costs there.
//! Which one a message takes is the lower envelope of these costs ([`cost`]); [`Worker::choices`]
//! shows it.
//!
//! # Thread safety
//! A [`Worker`] is `Send` and not `Sync`: it belongs to one thread at a time. A [`SharedWorker`] is for
//! many threads at once; its text has the table of thread modes.
//!
//! # Resource cleanup
//! Dropping a worker drops its lanes, which peers see as a closed peer. Requests still under way
//! are dropped with their buffer handles; the code that built a borrowed handle must have waited.
#![deny(unsafe_code)]

mod action;
mod address;
mod am;
mod async_progress;
mod background;
mod book;
mod buffer_pool;
mod cancel;
mod close;
mod cm;
mod completion;
mod dial;
mod emulate;
mod endpoint;
mod engine;
mod error;
mod explain;
mod flush;
mod in_place;
mod keepalive;
mod lanes;
mod loan;
pub mod matching;
mod measured;
mod one_sided;
mod pack;
mod peer;
mod post;
pub mod proto;
mod protocol;
mod query;
mod reject;
mod request;
mod reuse;
mod rma;
mod select;
mod send;
mod settings;
mod shared;
mod space;
mod state;
mod status;
mod stream;
mod tagged;
mod unasked;
mod unexpected;
mod wait;
mod waits;
mod wakeup;
mod watch;
mod wire;
mod worker;

pub use address::{AddressError, LaneAddress, WorkerAddress};
pub use async_progress::{AsyncProgress, DriverKind, Served};
pub use book::{AddressBook, AddressTable};
/// What transports cost, for [`Worker::with_costs`].
pub use bowline_model::transport as cost;
pub use bowline_uct::PeerFailure;
pub use cm::{
    Answer, ConnectionManager, ConnectionManagerEvent, ConnectionRequest, DialError, DialId,
    IncomingId, Introduction, ListenerId,
};
pub use completion::Handle;
pub use endpoint::{EpInfo, EpOptions, EpState, ErrorMode};
pub use engine::{BackgroundWork, RemoteWorker};
pub use error::{ConnectError, OpError, SpaceError, WorkerError};
pub use explain::{LaneChoices, LaneReport, Used};
pub use flush::Fence;
pub use matching::{EngineKind, Envelope, MatchSpec};
pub use peer::{CloseMode, Ep};
pub use query::{OperationKind, RequestInfo};
pub use request::{RequestId, Sent, StreamWant};
pub use reuse::PeerCount;
pub use rma::{MemoryHandle, RemoteKey, RmaError};
pub use select::{FirstGuess, MeansEstimate, MeansReason, MessageKind};
pub use settings::{
    KEEPALIVE, KEEPALIVE_INTERVAL, Keepalive, RNDV_THRESHOLD, RndvScheme, SELECT, SETTINGS, Select,
    ZCOPY_THRESHOLD,
};
pub use shared::SharedWorker;
pub use space::{Members, SpaceOptions};
pub use state::counters::{Counters, EndReport};
pub use state::in_place::{AmInPlace, AmInPlaceHandler};
pub use state::inbox::RequestCompletion;
pub use status::{MessageInfo, OpStatus, ReceiveError, WaitsFor};
pub use stream::StreamReceived;
pub use tagged::{MatchedMessage, SendMode};
pub use wait::{Clock, FailureSource, Idle, Stages, Waiter, Waits};
pub use wakeup::{Arm, WakeError};
pub use worker::{
    AmHandler, AmKept, AmMessage, CompletionHandler, ErrorHandler, LeftToWatch, ProgressDriver,
    WatchedReceive, Worker, WorkerParts,
};
