//! Choices by length: which algorithm up to how many bytes.

/// Up to how many bytes a choice holds, for each in ascending order. The last one holds for all lengths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeLimits<F> {
    upto: Vec<(usize, F)>,
}

/// Longest vector that is priced; longer ones go as it does.
const LONGEST: usize = 1 << 36;

impl<F> SizeLimits<F> {
    /// The same limits for what `made` makes of each choice.
    pub fn map<G>(self, mut made: impl FnMut(&F) -> G) -> SizeLimits<G> {
        SizeLimits { upto: self.upto.iter().map(|(upto, form)| (*upto, made(form))).collect() }
    }
}

impl<F: PartialEq> SizeLimits<F> {
    /// What `choose` takes for each length. It is asked for powers of two, and between two of them that differ until
    /// the limit is found: what holds between two that are alike is not found.
    pub fn of(choose: impl Fn(usize) -> F) -> Self {
        let mut upto: Vec<(usize, F)> = Vec::new();
        let (mut before, mut form) = (0, choose(0));
        let mut next = 1;
        while next <= LONGEST {
            let found = choose(next);
            if found != form {
                // Of the lengths from `low`, which has the form, to `high`, which has another one.
                let (mut low, mut high) = (before, next);
                while high - low > 1 {
                    let middle = low.midpoint(high);
                    if choose(middle) == form { low = middle } else { high = middle }
                }
                upto.push((low, std::mem::replace(&mut form, choose(high))));
                before = high;
                continue;
            }
            before = next;
            next *= 2;
        }
        upto.push((usize::MAX, form));
        Self { upto }
    }

    /// The choice for so many bytes.
    #[inline]
    pub fn find(&self, bytes: usize) -> &F {
        let found = self.upto.iter().find(|(upto, _)| bytes <= *upto);
        let (_, form) = found.expect("the last one holds for all lengths");
        form
    }

    /// All choices, each with the greatest length that it holds for.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &F)> {
        self.upto.iter().map(|(upto, form)| (*upto, form))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_found_to_the_byte() {
        let choose = |bytes| match bytes {
            0..=8 => 'a',
            9..=1000 => 'b',
            1001..=1010 => 'c',
            _ => 'd',
        };
        let limits = SizeLimits::of(choose);
        for bytes in (0..5000).chain([1 << 20, usize::MAX]) {
            assert_eq!(*limits.find(bytes), choose(bytes), "{bytes}");
        }
        assert_eq!(limits.iter().count(), 4);
        assert_eq!(SizeLimits::of(|_| 'x').iter().collect::<Vec<_>>(), [(usize::MAX, &'x')]);
    }
}
