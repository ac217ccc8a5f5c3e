//! Deterministic random numbers: a failing test can be run again.

/// A small generator of well mixed numbers (splitmix64).
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Returns a generator. Equal seeds give equal numbers, consecutive seeds unrelated ones.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns any number.
    pub const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`; 0 if there is none.
    pub const fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.next() % limit }
    }

    /// Returns an index below `limit`.
    pub const fn index(&mut self, limit: usize) -> usize {
        self.below(limit as u64) as usize
    }

    /// Returns a number from `low` to `high`, both included.
    pub const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below((high - low).saturating_add(1))
    }

    /// Returns true once in `n` times on average.
    pub const fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns a number of any magnitude up to `bits` bits, small ones as likely as large ones.
    pub const fn magnitude(&mut self, bits: u32) -> u64 {
        let bits = self.below(bits as u64 + 1) as u32;
        if bits == 0 { 0 } else { self.next() >> (u64::BITS - bits) }
    }

    /// Puts `items` in a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for left in (1..items.len()).rev() {
            items.swap(left, self.index(left + 1));
        }
    }
}
