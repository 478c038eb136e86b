//! What is written down of a communicator's collectives and claimed messages, where its rank is recorded.

use bowline_ucp::RequestId;

use super::CommInner;
use crate::consts::{ANY_SOURCE, ANY_TAG};
use crate::record::{Call, Series, Within};

/// Guard of a blocking call, which is written down when this is dropped, unless it is part of another collective.
pub(crate) struct RecordedCall<'a> {
    comm: &'a CommInner,
    call: Call,
}

impl CommInner {
    /// How records name it.
    pub(crate) const fn within(&self) -> Within<'_> {
        Within { context: self.context, generation: self.generation, group: &self.group }
    }

    /// A receive of a message that was claimed is under way.
    pub(crate) fn claimed(&self, id: RequestId) {
        if let Some(record) = self.process.record()
            && let Some(spec) = self.accepted(ANY_SOURCE, ANY_TAG)
        {
            record.posted(id, &spec);
        }
    }

    /// Begins a blocking collective: notes its name, and writes it down if this rank is recorded.
    #[inline]
    pub(crate) fn recorded(
        &self,
        what: &'static str,
        call: impl FnOnce() -> Call,
    ) -> Option<RecordedCall<'_>> {
        self.process.worker.note_call(what);
        let record = self.process.record()?;
        record.begin_blocking();
        Some(RecordedCall { comm: self, call: call() })
    }

    /// A collective was started that was made before. The number to give for its end, where it is written down.
    pub(crate) fn started(&self, call: &Call, series: Series) -> Option<u32> {
        self.process.record()?.start(self.within(), call, series)
    }

    /// The program has learned of the end of a collective that was started and has this number.
    pub(crate) fn ended(&self, call: &Call, series: Series, run: u32) {
        if let Some(record) = self.process.record() {
            record.end(self.within(), call, series, run);
        }
    }
}

impl Drop for RecordedCall<'_> {
    fn drop(&mut self) {
        if let Some(record) = self.comm.process.record() {
            record.end_blocking(self.comm.within(), &self.call);
        }
    }
}
