//! Tokens of a lane's own operations beside those of its user, on one transport.
//!
//! ```text
//!   63 = 0       a token of the user, as it is
//!   63 = 1       62 .. 60 what | 59 .. 32 generation of the link | 31 .. 0 link
//!                what = 7: a token of the user that has bit 63 itself, kept in a table
//! ```

use bowline_uct::Token;

const OWN: u64 = 1 << 63;
const ODD: u64 = 7;

/// What an operation of the lane was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The step of a link that waits for an answer.
    Step,
    /// An add to S or F.
    Settle,
    /// A status word, for the settlement.
    Status,
    /// The swap of the own queue's counter, through the own device.
    Flip,
}

/// What a completion is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    User(Token),
    Own { what: What, link: u32, generation: u32 },
    Nobody,
}

/// Bits of a link's generation.
pub(super) const GENERATIONS: u32 = 1 << 28;

pub(super) const fn own(what: What, link: u32, generation: u32) -> Token {
    let generation = (generation & (GENERATIONS - 1)) as u64;
    Token(OWN | (what as u64) << 60 | generation << 32 | link as u64)
}

/// Tokens of the user that have the form of ours.
#[derive(Debug, Default)]
pub(super) struct Odd {
    places: Vec<Option<Token>>,
}

impl Odd {
    /// The token under which an operation of the user is posted.
    pub(super) fn lend(&mut self, token: Token) -> Token {
        if token.0 & OWN == 0 {
            return token;
        }
        let free = self.places.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.places[index] = Some(token);
        Token(OWN | ODD << 60 | index as u64)
    }

    /// Whose completion it is. A lent token is free again.
    pub(super) fn owner(&mut self, token: Token) -> Owner {
        if token.0 & OWN == 0 {
            return Owner::User(token);
        }
        let (link, generation) = (token.0 as u32, (token.0 >> 32) as u32 & (GENERATIONS - 1));
        let what = match token.0 >> 60 & 7 {
            0 => What::Step,
            1 => What::Settle,
            2 => What::Status,
            3 => What::Flip,
            ODD => {
                let lent = self.places.get_mut(link as usize).and_then(Option::take);
                return lent.map_or(Owner::Nobody, Owner::User);
            }
            _ => return Owner::Nobody,
        };
        Owner::Own { what, link, generation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_to_their_owners() {
        let mut odd = Odd::default();
        for token in [Token(1), Token(u64::MAX >> 1), Token(1 << 63), Token(u64::MAX)] {
            let lent = odd.lend(token);
            assert_eq!(odd.owner(lent), Owner::User(token));
        }
        let (a, b) = (odd.lend(Token(u64::MAX)), odd.lend(Token(u64::MAX - 1)));
        assert_ne!(a, b);
        assert_eq!(odd.owner(b), Owner::User(Token(u64::MAX - 1)));
        assert_eq!(odd.owner(a), Owner::User(Token(u64::MAX)));
        assert_eq!(odd.owner(a), Owner::Nobody);
        for what in [What::Step, What::Settle, What::Status, What::Flip] {
            let (link, generation) = (7, GENERATIONS - 1);
            let token = own(what, link, generation);
            assert_eq!(odd.owner(token), Owner::Own { what, link, generation });
        }
    }
}
