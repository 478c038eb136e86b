//! What the ranks of a job exchange at the start: keys and values, and a barrier.

use std::collections::HashMap;

use crate::pmi::{Client, PmiError};

/// A store that all ranks of a job share. Keys are short and used once; values are bytes of any
/// length. What a rank puts is sure to be visible to others after a barrier that follows.
pub trait Kvs: Send + std::fmt::Debug {
    /// Publishes `value`. Keys have at most 56 bytes and no blanks, and begin with a name of
    /// their user.
    ///
    /// # Errors
    /// When the key exists already, or the manager refuses or has gone.
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), PmiError>;

    /// The value of a key.
    ///
    /// # Errors
    /// When nobody put it, or the manager has gone.
    fn get(&mut self, key: &str) -> Result<Vec<u8>, PmiError>;

    /// Waits for every rank of the job.
    ///
    /// # Errors
    /// When the manager has gone.
    fn barrier(&mut self) -> Result<(), PmiError>;

    /// Asks for the end of the whole job, with an exit code and a reason. Does not end the
    /// caller.
    ///
    /// # Errors
    /// When the manager has gone.
    fn abort(&mut self, code: i32, message: &str) -> Result<(), PmiError>;

    /// The number of this rank's program among those that were started together; `None` where the
    /// manager does not say.
    fn app_number(&mut self) -> Option<i32> {
        None
    }

    /// How many ranks the manager could run for the job; `None` where it does not say.
    fn universe_size(&mut self) -> Option<i32> {
        None
    }

    /// Reports to the manager that this rank ends in order.
    /// [`Bootstrap::finalize`](super::Bootstrap::finalize) calls it.
    ///
    /// # Errors
    /// When the manager has gone.
    fn finalize(&mut self) -> Result<(), PmiError>;
}

impl Kvs for Client {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), PmiError> {
        self.put_bytes(key, value)
    }
    fn get(&mut self, key: &str) -> Result<Vec<u8>, PmiError> {
        self.get_bytes(key)
    }
    fn barrier(&mut self) -> Result<(), PmiError> {
        Self::barrier(self)
    }
    fn abort(&mut self, code: i32, message: &str) -> Result<(), PmiError> {
        Self::abort(self, code, message)
    }
    fn app_number(&mut self) -> Option<i32> {
        self.number_of("the program's number", Self::app_number)
    }
    fn universe_size(&mut self) -> Option<i32> {
        self.number_of("the size of the universe", Self::universe_size).filter(|&size| size > 0)
    }
    fn finalize(&mut self) -> Result<(), PmiError> {
        Self::finalize(self)
    }
}

impl Client {
    /// What the manager says, if it says something.
    fn number_of(
        &mut self,
        what: &str,
        ask: impl FnOnce(&mut Self) -> Result<i32, PmiError>,
    ) -> Option<i32> {
        match ask(self) {
            Ok(number) => Some(number),
            Err(error) => {
                tracing::debug!(%error, "the process manager does not say {what}");
                None
            }
        }
    }
}

/// The store of a rank alone.
#[derive(Debug, Default)]
pub(super) struct LocalKvs(HashMap<String, Vec<u8>>);

impl Kvs for LocalKvs {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), PmiError> {
        if self.0.contains_key(key) {
            let why = "duplicate_key".into();
            return Err(PmiError::Refused { asked: "put", what: key.into(), why });
        }
        self.0.insert(key.into(), value.into());
        Ok(())
    }
    fn get(&mut self, key: &str) -> Result<Vec<u8>, PmiError> {
        let missing =
            || PmiError::Refused { asked: "get", what: key.into(), why: "key_not_found".into() };
        self.0.get(key).cloned().ok_or_else(missing)
    }
    fn barrier(&mut self) -> Result<(), PmiError> {
        Ok(())
    }
    /// A rank alone is the whole job; its caller ends it.
    fn abort(&mut self, _code: i32, _message: &str) -> Result<(), PmiError> {
        Ok(())
    }
    fn finalize(&mut self) -> Result<(), PmiError> {
        Ok(())
    }
}
