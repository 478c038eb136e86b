//! What an interface leaves to libfabric when it is dropped.

use crate::buffers::Buffers;
use crate::md::Memories;
use crate::net::Net;

/// What libfabric may touch, and the objects by which it does; closed in the right order.
#[derive(Debug)]
pub(crate) struct Remains {
    pub(crate) memories: Memories,
    pub(crate) rx: Buffers,
    pub(crate) tx: Buffers,
    pub(crate) net: Net,
}

impl Drop for Remains {
    fn drop(&mut self) {
        if self.net.traits.bind_memory {
            self.memories.clear();
            self.rx.deregister();
            self.tx.deregister();
        }
        // From here on libfabric touches no memory of ours. The fields go in their order: what is
        // still registered before the domain.
        self.net.close_endpoint();
    }
}
