//! The settings for all arbiters of an actix system.
//!
//! They belong to the system, not to the process: tests that run side by side have systems of their own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use actix::System;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::api::timer_actor::TimerActor;
use crate::model::clock::Clock;
use crate::model::error::BuildError;
use crate::model::secret::Secret;
use crate::service::query::directory;
use crate::service::state::{Service, Settings};

/// The settings of each running actix system that has some, by its number.
static INSTALLED: Mutex<FxHashMap<usize, Arc<ArbiterSettings>>> = Mutex::new(FxHashMap::with_hasher(FxBuildHasher));

/// The settings of timer actors that start by themselves.
pub(crate) struct ArbiterSettings {
    settings: Settings,
    /// Returns the clock of the next one. A system clock belongs to a runtime.
    clock: Box<dyn Fn() -> Arc<dyn Clock> + Send + Sync>,
    /// The timer actors by the number in their name, from 1 on.
    numbered: Mutex<Vec<Numbered>>,
}

/// A timer actor with a number; `None` while it is being created.
type Numbered = Option<Weak<Service>>;

impl ArbiterSettings {
    pub(crate) fn new(settings: Settings, clock: impl Fn() -> Arc<dyn Clock> + Send + Sync + 'static) -> Self {
        Self { settings, clock: Box::new(clock), numbered: Mutex::new(Vec::new()) }
    }

    /// Creates a timer actor with these settings.
    pub(crate) fn create(&self) -> TimerActor {
        let at = self.reserve();
        let settings = Settings {
            name: self.settings.name.as_ref().map(|name| format!("{name}-{}", at + 1)),
            secret: Secret::new(),
            automatic: true,
            ..self.settings.clone()
        };
        // Registers metrics, which is foreign code, so nothing is locked here.
        let actor = TimerActor::create(settings, (self.clock)());
        self.numbered()[at] = Some(Arc::downgrade(actor.service()));
        actor
    }

    /// Reserves the lowest free number. Returns its position.
    fn reserve(&self) -> usize {
        // Dropped after the lock's guard: these may be the last references.
        let mut seen = Vec::new();
        let mut numbered = self.numbered();
        let mut is_stopped = |service: &Weak<Service>| {
            service.upgrade().is_none_or(|service| {
                let is_stopped = service.is_stopped();
                seen.push(service);
                is_stopped
            })
        };
        let free = numbered.iter().position(|other| other.as_ref().is_some_and(&mut is_stopped));
        let at = free.unwrap_or(numbered.len());
        match numbered.get_mut(at) {
            Some(place) => *place = None,
            None => numbered.push(None),
        }
        at
    }

    fn numbered(&self) -> MutexGuard<'_, Vec<Numbered>> {
        self.numbered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the settings of a system when the system ends: a task of the system owns it.
struct UntilTheEnd {
    system: usize,
}

impl Drop for UntilTheEnd {
    fn drop(&mut self) {
        let removed = installed().remove(&self.system);
        // Not under the lock: a clock is user code.
        drop(removed);
    }
}

fn installed() -> MutexGuard<'static, FxHashMap<usize, Arc<ArbiterSettings>>> {
    INSTALLED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes these the settings for all arbiters of this thread's actix system.
pub(crate) fn install(settings: ArbiterSettings) -> Result<(), BuildError> {
    let current = System::try_current().ok_or(BuildError::NoSystem)?;
    let system = current.id();
    let is_automatic = |service: &&Arc<Service>| {
        service.settings.automatic && service.system.get() == Some(&system) && !service.is_stopped()
    };
    // Dropped after the lock's guard: these may be the last references.
    let running;
    let mut all = installed();
    if all.contains_key(&system) {
        return Err(BuildError::AlreadyInstalledForAllArbiters);
    }
    // Under the lock, so that none joins the system in between.
    running = directory::running();
    if let Some(started) = running.iter().find(is_automatic) {
        return Err(BuildError::AlreadyStarted(started.name.to_string()));
    }
    all.insert(system, Arc::new(settings));
    drop(all);
    let owned = UntilTheEnd { system };
    let is_running = current.arbiter().spawn(async move {
        let _owned = owned;
        std::future::pending::<()>().await;
    });
    // Otherwise the task was dropped, and the settings with it.
    if is_running { Ok(()) } else { Err(BuildError::NoSystem) }
}

/// Adds a timer actor with the default settings to this thread's actix system. If the system has settings for all
/// arbiters by now, they are returned instead.
pub(crate) fn join_system(service: &Service) -> Option<Arc<ArbiterSettings>> {
    let system = System::try_current()?.id();
    let all = installed();
    let settings = all.get(&system).map(Arc::clone);
    if settings.is_none() {
        let _ = service.system.set(system);
    }
    settings
}

/// Returns the settings for all arbiters of this thread's actix system, if it has some.
pub(crate) fn of_this_system() -> Option<Arc<ArbiterSettings>> {
    let system = System::try_current()?;
    installed().get(&system.id()).map(Arc::clone)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use actix::System;

    use crate::api::timer_actor::TimerActor;
    use crate::model::error::BuildError;

    /// Another thread may be about to start it.
    #[test]
    fn settings_are_refused_beside_an_unstarted_timer_actor() {
        System::new().block_on(async {
            let starting = TimerActor::automatic();
            let name = starting.service().name.to_string();
            let install = || TimerActor::builder().name("web").install_for_all_arbiters();
            assert_eq!(install(), Err(BuildError::AlreadyStarted(name)));
            drop(starting);
            assert_eq!(install(), Ok(()));
        });
    }

    /// Settings were installed after this thread had looked for some.
    #[test]
    fn a_timer_actor_takes_settings_installed_during_its_creation() {
        System::new().block_on(async {
            TimerActor::builder().name("web").install_for_all_arbiters().unwrap();
            assert_eq!(&*TimerActor::automatic().service().name, "web-1");
        });
    }
}
