//! How a receiver divides its buffers among the peers that send to it. What it is for is said in
//! `window`.

/// How a receiver divides its buffers among the peers that send. A peer counts while it has sent in
/// the present or in the last period, and a period is as many datagrams as there are buffers.
#[derive(Debug)]
pub(super) struct Shares {
    buffers: u32,
    period: u32,
    arrived: u32,
    /// Peers that have sent in this period and in the last.
    now: u32,
    before: u32,
}

impl Shares {
    pub(super) fn new(buffers: u32) -> Self {
        Self { buffers: buffers.max(1), period: 1, arrived: 0, now: 0, before: 0 }
    }

    /// A datagram of a peer arrived that last counted in period `counted`.
    #[inline]
    pub(super) fn arrived(&mut self, counted: &mut u32) {
        if *counted != self.period {
            *counted = self.period;
            self.now += 1;
        }
        self.arrived += 1;
        if self.arrived >= self.buffers {
            self.arrived = 0;
            self.period = self.period.wrapping_add(1);
            self.before = std::mem::take(&mut self.now);
        }
    }

    /// Buffers for each peer.
    #[inline]
    pub(super) fn each(&self) -> u16 {
        let share = self.buffers / self.now.max(self.before).max(1);
        u16::try_from(share).unwrap_or(u16::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::super::window::Outgoing;
    use super::*;

    #[test]
    fn peers_that_send_share_the_buffers() {
        let mut shares = Shares::new(100);
        assert_eq!(shares.each(), 100);
        let mut counted = [0; 4];
        for counted in &mut counted {
            shares.arrived(counted);
        }
        assert_eq!(shares.each(), 25);
        // The others fall silent: one period later they still count, two later no more.
        for _ in 0..100 {
            shares.arrived(&mut counted[0]);
        }
        assert_eq!(shares.each(), 25);
        for _ in 0..100 {
            shares.arrived(&mut counted[0]);
        }
        assert_eq!(shares.each(), 100);
        let mut out: Outgoing<()> = Outgoing::new(64);
        out.share(0);
        assert!(out.has_space(), "one may always be sent");
        out.sent(());
        assert!(!out.has_space());
        out.share(2);
        assert!(out.has_space());
        assert_eq!(Shares::new(0).each(), 1);
    }
}
