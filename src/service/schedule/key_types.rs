//! The types of messages by which keys are distinguished, as the engine knows them: by number.

use std::any::TypeId;
use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::engine::{KeyScope, MessageKind, ScopedKey};
use crate::model::key_selector::KeySelector;
use crate::model::options::TimerOptions;

/// The numbers of types whose timers have had keys.
#[derive(Default)]
pub(crate) struct KeyTypes(FxHashMap<TypeId, MessageKind>);

impl KeyTypes {
    /// Returns the key of a timer with these options, for messages of this type, in its scope.
    pub(crate) fn scoped_key(
        &mut self,
        options: &TimerOptions,
        scope: KeyScope,
        key_type: TypeId,
    ) -> Option<ScopedKey> {
        let key = options.key.clone()?;
        let kind = if options.shared_key { MessageKind::SHARED } else { self.kind_of(key_type) };
        Some(ScopedKey { scope, kind, key })
    }

    fn kind_of(&mut self, key_type: TypeId) -> MessageKind {
        let next = MessageKind(self.kinds().end);
        *self.0.entry(key_type).or_insert(next)
    }

    /// Returns all kinds so far. Number 0 is that of shared keys.
    pub(crate) fn kinds(&self) -> Range<u32> {
        0..self.0.len() as u32 + 1
    }

    /// Returns the kinds of the timers that a selector stands for.
    pub(crate) fn kinds_of(&self, selector: &KeySelector) -> Range<u32> {
        let Some(key_type) = selector.key_type else { return self.kinds() };
        self.0.get(&key_type).map_or(0..0, |kind| kind.0..kind.0 + 1)
    }
}
