//! The identity of a mailbox: its address in memory.

use std::hash::{Hash, Hasher};
use std::num::NonZeroU64;

use actix::WeakRecipient;

use crate::engine::KeyScope;
use crate::model::timer_message::TimerMessage;

/// The address of a mailbox in memory. It stays the same, and is not reused, as long as an address or a recipient of
/// the mailbox exists, if only a weak one. Aligned to four bytes: a map to slots has no padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(Rust, packed(4))]
pub(crate) struct MailboxId(NonZeroU64);

const _: () = assert!(size_of::<Option<MailboxId>>() == 8);

impl MailboxId {
    /// Returns the mailbox behind an `Addr` or a `Recipient`, which always has one.
    pub(crate) fn of(address: &impl Hash) -> Option<Self> {
        /// A hasher that returns its input.
        #[derive(Default)]
        struct Keep(u64);

        impl Hasher for Keep {
            fn write(&mut self, bytes: &[u8]) {
                for byte in bytes {
                    self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
                }
            }

            fn write_usize(&mut self, number: usize) {
                self.0 = number as u64;
            }

            fn finish(&self) -> u64 {
                self.0
            }
        }

        let mut keep = Keep::default();
        address.hash(&mut keep);
        NonZeroU64::new(keep.finish()).map(Self)
    }

    /// Returns the mailbox behind a weak recipient; `None` if the mailbox is gone.
    pub(crate) fn of_weak<M: TimerMessage>(recipient: &WeakRecipient<M>) -> Option<Self> {
        Self::of(&recipient.upgrade()?)
    }

    pub(crate) const fn number(self) -> u64 {
        self.0.get()
    }
}

impl From<MailboxId> for KeyScope {
    fn from(mailbox: MailboxId) -> Self {
        Self::Recipient(mailbox.number())
    }
}

#[cfg(test)]
mod tests {
    use actix::prelude::*;

    use super::*;
    use crate::tests::fixture::{Bell, Ring};

    #[test]
    fn a_mailbox_is_the_same_by_every_address_until_it_is_gone() {
        let (context, other) = (Context::<Bell>::new(), Context::<Bell>::new());
        let mailbox = MailboxId::of(&context.address());
        let recipient = context.address().recipient::<Ring>();
        let weak = recipient.downgrade();
        assert!(mailbox.is_some());
        assert_eq!([MailboxId::of(&recipient), MailboxId::of_weak(&weak)], [mailbox; 2]);
        assert_ne!(MailboxId::of(&other.address()), mailbox);
        drop((context, recipient));
        assert_eq!(MailboxId::of_weak(&weak), None);
    }
}
