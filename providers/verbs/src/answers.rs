//! Answers of operations on their way to the sink, and flushes of several endpoints, which are
//! answered once.

use std::collections::VecDeque;

use bowline_base::slab::{Key, Slab};
use bowline_uct::{PeerFailure, Token};

/// What is to be told when something is complete: a token, or its share in a group.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    One(Token),
    Share(Key),
}

/// How many of a group are under way, and how the first failed.
#[derive(Debug)]
struct Group {
    token: Token,
    left: usize,
    result: Result<u64, PeerFailure>,
}

/// Answers in order, each with its result.
#[derive(Debug)]
pub(crate) struct Answers {
    done: VecDeque<(Token, Result<u64, PeerFailure>)>,
    groups: Slab<Group>,
}

impl Answers {
    pub(crate) fn new() -> Self {
        Self { done: VecDeque::with_capacity(64), groups: Slab::default() }
    }

    /// Notes an answer.
    pub(crate) fn give(&mut self, answer: Answer, result: Result<u64, PeerFailure>) {
        match answer {
            Answer::One(Token::NONE) => {}
            Answer::One(token) => self.done.push_back((token, result)),
            Answer::Share(key) => {
                let Some(group) = self.groups.get_mut(key) else { return };
                group.left -= 1;
                group.result = group.result.and(result);
                if group.left == 0
                    && let Some(group) = self.groups.remove(key)
                    && group.token != Token::NONE
                {
                    self.done.push_back((group.token, group.result.map(|_| 0)));
                }
            }
        }
    }

    /// The next answer to be told.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(Token, Result<u64, PeerFailure>)> {
        self.done.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.done.is_empty()
    }

    /// Forgets what nobody will hear.
    pub(crate) fn clear(&mut self) {
        self.done.clear();
    }

    /// Begins a group, which holds a share of its own until [`Answers::close`].
    pub(crate) fn open(&mut self, token: Token) -> Key {
        self.groups.insert(Group { token, left: 1, result: Ok(0) })
    }

    /// One more share was given out.
    pub(crate) fn share(&mut self, key: Key) {
        if let Some(group) = self.groups.get_mut(key) {
            group.left += 1;
        }
    }

    /// All shares are given out. Whether there were any; if not, nothing will be answered.
    pub(crate) fn close(&mut self, key: Key) -> bool {
        match self.groups.get_mut(key) {
            Some(group) if group.left > 1 => {
                group.left -= 1;
                true
            }
            _ => {
                self.groups.remove(key);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_answered_once_and_keeps_its_first_failure() {
        let mut answers = Answers::new();
        let key = answers.open(Token(7));
        answers.share(key);
        answers.share(key);
        assert!(answers.close(key));
        answers.give(Answer::Share(key), Err(PeerFailure::Died));
        assert!(answers.is_empty());
        answers.give(Answer::Share(key), Ok(5));
        assert_eq!(answers.next(), Some((Token(7), Err(PeerFailure::Died))));
        answers.give(Answer::Share(key), Ok(5));
        answers.give(Answer::One(Token::NONE), Ok(0));
        assert_eq!(answers.next(), None);
        let empty = answers.open(Token(8));
        assert!(!answers.close(empty));
        assert!(answers.is_empty());
    }
}
