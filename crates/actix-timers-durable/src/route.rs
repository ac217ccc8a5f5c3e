//! The name of a route, with the type of its messages.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// The name of a route that carries messages of type `M`: 1 to 255 bytes without control characters.
///
/// All calls take a text instead. A constant that scheduling and delivering code share cannot be misspelled, and the
/// compiler checks the type of its messages and the recipient:
///
/// ```
/// use std::time::Duration;
/// use actix_timers_durable::{DurableMessage, DurableTimers, MemoryStore, Route};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Remind(u32);
/// # impl DurableMessage for Remind { const NAME: &'static str = "remind"; }
///
/// const REMINDERS: Route<Remind> = Route::new("reminders");
///
/// # actix::System::new().block_on(async {
/// let timers = DurableTimers::builder(MemoryStore::new()).open_route(REMINDERS).start()?;
/// timers.schedule_after(REMINDERS, Duration::from_secs(60), Remind(7)).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// ```compile_fail,E0277
/// # use std::time::Duration;
/// # use actix_timers_durable::{DurableMessage, Route, Schedule};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Remind(u32);
/// # impl DurableMessage for Remind { const NAME: &'static str = "remind"; }
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Expire;
/// # impl DurableMessage for Expire { const NAME: &'static str = "expire"; }
/// # const REMINDERS: Route<Remind> = Route::new("reminders");
/// let wrong = Schedule::after(REMINDERS, Duration::from_secs(60), Expire);
/// ```
pub struct Route<M> {
    name: Cow<'static, str>,
    of: PhantomData<fn(M)>,
}

impl<M> Route<M> {
    /// Creates the name of a route. [`start`](super::DurableTimersBuilder::start) refuses an impossible one.
    pub const fn new(name: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), of: PhantomData }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn into_name(self) -> Cow<'static, str> {
        self.name
    }
}

impl<M> From<String> for Route<M> {
    fn from(name: String) -> Self {
        Self { name: name.into(), of: PhantomData }
    }
}

impl<M> From<&str> for Route<M> {
    fn from(name: &str) -> Self {
        name.to_owned().into()
    }
}

impl<M> From<&String> for Route<M> {
    fn from(name: &String) -> Self {
        name.clone().into()
    }
}

impl<M> Clone for Route<M> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), of: PhantomData }
    }
}

impl<M> fmt::Debug for Route<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Route").field(&self.name).finish()
    }
}

impl<M> From<Route<M>> for String {
    fn from(route: Route<M>) -> Self {
        route.name.into_owned()
    }
}
