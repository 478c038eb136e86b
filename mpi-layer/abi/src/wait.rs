//! Chapter: completion of requests.
//!
//! One request's error is what the function returns. Of several, the statuses have the errors, and the
//! function returns `MPI_ERR_IN_STATUS`; only then the error fields of statuses are written.

use std::ffi::c_int;

use bowline_mpi::Status as Received;
use bowline_mpi::raw::{RequestSearch, search};

use crate::arg::{In, Out};
use crate::entry::mpi;
use crate::fault::{Fault, fault};
use crate::generated::constants::*;
use crate::handle::Request;
use crate::library::Library;
use crate::library::requests::{Reported, Seen, length};
use crate::library::status::StatusOut;

/// The statuses of several requests, while they are reported.
struct Statuses {
    array: StatusOut,
    count: usize,
    /// The error of each from the first that failed on, and of those before.
    codes: Vec<c_int>,
    first: Option<Fault>,
}

impl Statuses {
    const fn new(array: StatusOut) -> Self {
        Self { array, count: 0, codes: Vec::new(), first: None }
    }

    /// The next one.
    fn put(&mut self, reported: Reported) {
        self.array.at(self.count).put(reported.status);
        self.code(reported.fault);
    }

    /// The next one is a message that was received, or sent.
    #[inline]
    fn received(&mut self, status: Received) {
        self.array.at(self.count).put_received(status);
        if self.first.is_some() {
            self.codes.push(MPI_SUCCESS);
        }
        self.count += 1;
    }

    /// The next one is none, or inactive.
    fn idle(&mut self) {
        self.array.at(self.count).put_empty();
        self.code(None);
    }

    /// The next one has neither ended nor failed.
    fn pending(&mut self) {
        self.codes.push(MPI_ERR_PENDING);
        self.count += 1;
    }

    fn code(&mut self, fault: Option<Fault>) {
        if fault.is_some() && self.first.is_none() {
            self.codes.resize(self.count, MPI_SUCCESS);
        }
        let code = fault.as_ref().map_or(MPI_SUCCESS, Fault::code);
        self.first = self.first.take().or(fault);
        if self.first.is_some() {
            self.codes.push(code);
        }
        self.count += 1;
    }

    fn end(self) -> Result<(), Fault> {
        let Some(first) = self.first else { return Ok(()) };
        for (index, code) in self.codes.into_iter().enumerate() {
            let place = self.array.at(index);
            if let Ok(mut status) = place.get() {
                status.error = code;
                place.set_if_wanted(status);
            }
        }
        Err(first.in_status())
    }
}

impl Library {
    /// Fails where one of the handles is none.
    fn check_requests(&self, count: c_int, requests: In<Request>) -> Result<usize, Fault> {
        let count = length(count)?;
        // Without checks, one that is none is found where it is waited for.
        if self.checks {
            self.requests.check(count, requests)?;
        }
        Ok(count)
    }

    /// Finds the first complete request. Which one is reported is the library's choice; programs have come
    /// to expect the first, and `MPI_Waitsome` is for those that want all served alike.
    fn search(&self, count: usize, requests: In<Request>) -> Result<RequestSearch, Fault> {
        search(0..count, |index| Ok(self.requests.see(requests.at(index).get()?)?.standing()))
    }

    /// [`search`](Self::search), and another time after moving everything on.
    fn search_moving(&self, count: usize, requests: In<Request>) -> Result<RequestSearch, Fault> {
        match self.search(count, requests)? {
            RequestSearch::Busy => {
                self.world.comm.poll();
                self.search(count, requests)
            }
            other => Ok(other),
        }
    }

    /// Whether no request is under way.
    fn all_done(&self, count: usize, requests: In<Request>) -> Result<bool, Fault> {
        for index in 0..count {
            if let Seen::Busy(_) = self.requests.see(requests.at(index).get()?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// [`all_done`](Self::all_done), and another time after moving everything on.
    fn all_done_moving(&self, count: usize, requests: In<Request>) -> Result<bool, Fault> {
        if self.all_done(count, requests)? {
            return Ok(true);
        }
        self.world.comm.poll();
        self.all_done(count, requests)
    }

    /// Reports all requests, which are complete or inactive, or waits for them.
    fn report_all(
        &self,
        count: usize,
        requests: Out<Request>,
        statuses: StatusOut,
    ) -> Result<(), Fault> {
        let mut reported = Statuses::new(statuses);
        // What waits for a process that is gone may wait for ever, so that nothing is waited for then.
        let mut lost = false;
        for index in 0..count {
            let place = requests.at(index);
            let handle = place.get()?;
            if !lost && let Some(ended) = self.end_message(handle, place)? {
                match ended {
                    Ok(status) => reported.received(status),
                    Err(one) => {
                        lost = one.is_of_lost();
                        reported.put(*one);
                    }
                }
                continue;
            }
            let active = if lost {
                match self.requests.see(handle)? {
                    Seen::Idle => false,
                    Seen::Done => true,
                    Seen::Busy(_) => {
                        reported.pending();
                        continue;
                    }
                }
            } else {
                self.wait_for(handle)?
            };
            if !active {
                reported.idle();
                continue;
            }
            let one = self.requests.report(handle, place)?;
            lost |= one.is_of_lost();
            reported.put(one);
        }
        reported.end()
    }

    /// Reports all complete requests; the others stay as they are.
    fn report_some(
        &self,
        count: usize,
        requests: Out<Request>,
        outcount: Out<c_int>,
        indices: Out<c_int>,
        statuses: StatusOut,
    ) -> Result<(), Fault> {
        let mut reported = Statuses::new(statuses);
        for index in 0..count {
            let place = requests.at(index);
            let handle = place.get()?;
            if let Seen::Done = self.requests.see(handle)? {
                indices.at(reported.count).set(index as c_int)?;
                reported.put(self.requests.report(handle, place)?);
            }
        }
        outcount.set(reported.count as c_int)?;
        reported.end()
    }

    /// Stores which request was complete, and how it ended.
    fn report_one(
        &self,
        index: usize,
        requests: Out<Request>,
        indx: Out<c_int>,
        status: StatusOut,
    ) -> Result<(), Fault> {
        indx.set(index as c_int)?;
        let place = requests.at(index);
        let reported = self.requests.report(place.get()?, place)?;
        status.put(reported.status);
        reported.outcome()
    }
}

/// The question whether a message can be taken back, the answer, and what each leaves to do.
const POLLS_AFTER_CANCEL: u32 = 4;

/// Fails where a result has no place to go.
fn places<const N: usize>(missing: [bool; N]) -> Result<(), Fault> {
    if missing.contains(&true) {
        return Err(fault(MPI_ERR_ARG, "a result has no address to go to"));
    }
    Ok(())
}

mpi! {
    fn MPI_Wait(request: Out<Request>, status: StatusOut) |mpi| {
        let handle = request.get()?;
        if let Some(ended) = mpi.end_message(handle, request)? {
            let reported = match ended {
                Ok(received) => {
                    status.put_received(received);
                    return Ok(());
                }
                Err(reported) => reported,
            };
            status.put(reported.status);
            return reported.outcome();
        }
        if !mpi.wait_for(handle)? {
            status.put_empty();
            return Ok(());
        }
        let reported = mpi.requests.report(handle, request)?;
        status.put(reported.status);
        reported.outcome()
    }

    fn MPI_Test(request: Out<Request>, flag: Out<c_int>, status: StatusOut) |mpi| {
        let handle = request.get()?;
        places([flag.is_null()])?;
        match mpi.progress_and_see(handle)? {
            Seen::Busy(_) => flag.set(0),
            Seen::Idle => {
                status.put_empty();
                flag.set(1)
            }
            Seen::Done => {
                flag.set(1)?;
                let reported = mpi.requests.report(handle, request)?;
                status.put(reported.status);
                reported.outcome()
            }
        }
    }

    fn MPI_Waitall(count: c_int, array_of_requests: Out<Request>,
                   array_of_statuses: StatusOut) |mpi| {
        let count = mpi.check_requests(count, array_of_requests.input())?;
        mpi.report_all(count, array_of_requests, array_of_statuses)
    }

    fn MPI_Testall(count: c_int, array_of_requests: Out<Request>, flag: Out<c_int>,
                   array_of_statuses: StatusOut) |mpi| {
        let count = mpi.check_requests(count, array_of_requests.input())?;
        places([flag.is_null()])?;
        if !mpi.all_done_moving(count, array_of_requests.input())? {
            return flag.set(0);
        }
        flag.set(1)?;
        mpi.report_all(count, array_of_requests, array_of_statuses)
    }

    fn MPI_Waitany(count: c_int, array_of_requests: Out<Request>, indx: Out<c_int>,
                   status: StatusOut) |mpi| {
        let requests = array_of_requests.input();
        let count = mpi.check_requests(count, requests)?;
        places([indx.is_null()])?;
        let mut found = Ok(RequestSearch::Busy);
        mpi.world.comm.wait_until(|| {
            found = mpi.search(count, requests);
            !matches!(found, Ok(RequestSearch::Busy))
        });
        match found? {
            RequestSearch::Found(index) => mpi.report_one(index, array_of_requests, indx, status),
            RequestSearch::Nothing | RequestSearch::Busy => {
                status.put_empty();
                indx.set(MPI_UNDEFINED)
            }
        }
    }

    fn MPI_Testany(count: c_int, array_of_requests: Out<Request>, indx: Out<c_int>,
                   flag: Out<c_int>, status: StatusOut) |mpi| {
        let count = mpi.check_requests(count, array_of_requests.input())?;
        places([indx.is_null(), flag.is_null()])?;
        match mpi.search_moving(count, array_of_requests.input())? {
            RequestSearch::Found(index) => {
                flag.set(1)?;
                mpi.report_one(index, array_of_requests, indx, status)
            }
            RequestSearch::Nothing => {
                status.put_empty();
                flag.set(1)?;
                indx.set(MPI_UNDEFINED)
            }
            RequestSearch::Busy => {
                flag.set(0)?;
                indx.set(MPI_UNDEFINED)
            }
        }
    }

    fn MPI_Waitsome(incount: c_int, array_of_requests: Out<Request>, outcount: Out<c_int>,
                    array_of_indices: Out<c_int>, array_of_statuses: StatusOut) |mpi| {
        let requests = array_of_requests.input();
        let count = mpi.check_requests(incount, requests)?;
        places([outcount.is_null(), count > 0 && array_of_indices.is_null()])?;
        let mut found = Ok(RequestSearch::Busy);
        mpi.world.comm.wait_until(|| {
            found = mpi.search(count, requests);
            !matches!(found, Ok(RequestSearch::Busy))
        });
        match found? {
            RequestSearch::Nothing => outcount.set(MPI_UNDEFINED),
            _ => mpi.report_some(count, array_of_requests, outcount, array_of_indices,
                               array_of_statuses),
        }
    }

    fn MPI_Testsome(incount: c_int, array_of_requests: Out<Request>, outcount: Out<c_int>,
                    array_of_indices: Out<c_int>, array_of_statuses: StatusOut) |mpi| {
        let count = mpi.check_requests(incount, array_of_requests.input())?;
        places([outcount.is_null(), count > 0 && array_of_indices.is_null()])?;
        match mpi.search_moving(count, array_of_requests.input())? {
            RequestSearch::Nothing => outcount.set(MPI_UNDEFINED),
            _ => mpi.report_some(count, array_of_requests, outcount, array_of_indices,
                               array_of_statuses),
        }
    }

    fn MPI_Request_get_status(request: Request, flag: Out<c_int>, status: StatusOut) |mpi| {
        places([flag.is_null()])?;
        match mpi.progress_and_see(request)? {
            Seen::Busy(_) => flag.set(0),
            Seen::Idle => {
                status.put_empty();
                flag.set(1)
            }
            Seen::Done => {
                flag.set(1)?;
                status.put(mpi.requests.peek(request)?.status);
                Ok(())
            }
        }
    }

    fn MPI_Request_get_status_all(count: c_int, array_of_requests: In<Request>, flag: Out<c_int>,
                                  array_of_statuses: StatusOut) |mpi| {
        let count = mpi.check_requests(count, array_of_requests)?;
        places([flag.is_null()])?;
        if !mpi.all_done_moving(count, array_of_requests)? {
            return flag.set(0);
        }
        flag.set(1)?;
        for index in 0..count {
            let handle = array_of_requests.at(index).get()?;
            let place = array_of_statuses.at(index);
            match mpi.requests.see(handle)? {
                Seen::Done => place.put(mpi.requests.peek(handle)?.status),
                _ => place.put_empty(),
            }
        }
        Ok(())
    }

    fn MPI_Request_get_status_any(count: c_int, array_of_requests: In<Request>, indx: Out<c_int>,
                                  flag: Out<c_int>, status: StatusOut) |mpi| {
        let count = mpi.check_requests(count, array_of_requests)?;
        places([indx.is_null(), flag.is_null()])?;
        match mpi.search_moving(count, array_of_requests)? {
            RequestSearch::Found(index) => {
                flag.set(1)?;
                let handle = array_of_requests.at(index).get()?;
                status.put(mpi.requests.peek(handle)?.status);
                indx.set(index as c_int)
            }
            RequestSearch::Nothing => {
                status.put_empty();
                flag.set(1)?;
                indx.set(MPI_UNDEFINED)
            }
            RequestSearch::Busy => {
                flag.set(0)?;
                indx.set(MPI_UNDEFINED)
            }
        }
    }

    fn MPI_Request_get_status_some(incount: c_int, array_of_requests: In<Request>,
                                   outcount: Out<c_int>, array_of_indices: Out<c_int>,
                                   array_of_statuses: StatusOut) |mpi| {
        let count = mpi.check_requests(incount, array_of_requests)?;
        places([outcount.is_null(), count > 0 && array_of_indices.is_null()])?;
        if let RequestSearch::Nothing = mpi.search_moving(count, array_of_requests)? {
            return outcount.set(MPI_UNDEFINED);
        }
        let mut found = 0;
        for index in 0..count {
            let handle = array_of_requests.at(index).get()?;
            if let Seen::Done = mpi.requests.see(handle)? {
                array_of_indices.at(found).set(index as c_int)?;
                array_of_statuses.at(found).put(mpi.requests.peek(handle)?.status);
                found += 1;
            }
        }
        outcount.set(found as c_int)
    }

    fn MPI_Request_free(request: Out<Request>) |mpi| {
        let handle = request.get()?;
        mpi.requests.free(handle)?;
        request.set(MPI_REQUEST_NULL)
    }

    fn MPI_Cancel(request: Out<Request>) |mpi| {
        let handle = request.get()?;
        mpi.requests.cancel(handle)?;
        // A message to this rank itself is decided about here and now, without another one's help.
        for _ in 0..POLLS_AFTER_CANCEL {
            if !matches!(mpi.requests.see(handle)?, Seen::Busy(_)) {
                break;
            }
            mpi.world.comm.poll();
        }
        Ok(())
    }
}
