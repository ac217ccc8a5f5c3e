// Of two definitions of a link the first one counts: those of rustdoc precede the README's.
#![cfg_attr(all(doc, not(doctest)), doc = include!("links.in"))]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]
// Examples are read as code to copy: they compile without a warning in a program that uses what they define.
#![doc(test(attr(deny(warnings), allow(dead_code))))]
//!
//! # The code
//!
//! In reading order:
//!
//! 1. This page: [`Inspector`], which an application mounts.
//! 2. `routes`: the paths; `page`: the page itself, in one document.
//! 3. `hosts`: checks of host and origin, so that pages of other sites get nothing; `names`: unique names.
//! 4. `query`: the parameters of a request; `error`: responses to rejected ones.
//! 5. `wheel` and `timers`: the JSON.
//! 6. `durable`: durable timers in the JSON, with the feature of this name; `cursors`: positions in their lists.
//! 7. `audit`: changes, with who made them.
//! 8. `turns`: one step of one request at a time, shared fairly, so that many visitors cause no more load than one.
//! 9. `unread`: answers on their way, so that clients that never read fill no memory.
//!
//! All its data come from a [`Survey`], which never holds the lock of a timer actor for more than some hundred buckets
//! or timers. Paths, parameters and fields are documented in [inspector].

mod audit;
#[cfg(feature = "durable")]
mod cursors;
#[cfg(feature = "durable")]
mod durable;
mod error;
#[cfg(doc)]
pub mod guide;
mod hosts;
mod names;
mod page;
mod query;
mod routes;
mod timers;
mod turns;
mod unread;
mod wheel;

use std::collections::HashSet;
use std::sync::Arc;

use actix_timers::Timers;
use actix_timers::integration::Survey;
use actix_web::rt::System;
use actix_web::{HttpRequest, Scope};

use self::audit::Audit;
pub use self::audit::Change;
use self::hosts::AllowedHosts;
pub use self::hosts::InvalidHost;
use self::names::Names;
use self::turns::Turns;
use self::unread::UnreadAnswers;

/// A live page of one or several timer actors, served by an actix-web application under a path of its choice.
///
/// It shows the wheel as rings, the next due timers and the counters, and finds timers by id, key, group, actor,
/// message type, state or deadline, with an explanation why a timer has not fired yet. The page uses a JSON interface,
/// described in the guide's chapter [inspector](crate::guide::inspector).
///
/// It is reachable at the application's addresses, and has no authentication of its own. It accepts the middleware of
/// the application, as any [`Scope`] does. It is read-only unless [`allow_cancel`](Self::allow_cancel) is set; but it
/// shows keys, groups and types of messages. Do not expose it to the public.
///
/// It answers requests for loopback hosts and for the address that the server listens on; other names are allowed with
/// [`allow_host`](Self::allow_host). So no page of another site can reach it through a visitor's browser.
///
/// [`of_all_arbiters`](Self::of_all_arbiters) finds the timer actors by itself, also those of an actix-web server's
/// workers. Timer actors given as [`Timers`] are kept alive.
#[derive(Debug, Clone)]
#[must_use = "an inspector does nothing until it is mounted"]
pub struct Inspector {
    given: Vec<Survey>,
    /// The actix system whose timer actors are shown, too.
    system: Option<SystemNumber>,
    allow_cancel: bool,
    audit: Audit,
    hosts: AllowedHosts,
    turns: Arc<Turns>,
    unread: Arc<UnreadAnswers>,
    #[cfg(feature = "durable")]
    durable: durable::Stores,
}

/// The number of an actix system; `None` stands for threads outside of any.
type SystemNumber = Option<usize>;

/// A timer actor with a unique name.
#[derive(Debug, Clone)]
struct Inspected {
    name: String,
    survey: Survey,
}

impl Inspector {
    /// Creates a read-only inspector of one timer actor.
    pub fn new(timers: &Timers) -> Self {
        Self::empty().add_timers(timers)
    }

    /// Creates a read-only inspector of all timer actors that run in the actix system of this thread: on all arbiters,
    /// among them the workers of an actix-web server, and whether they started by themselves, were installed or
    /// started. Each request finds them anew. Internal timer actors are left out.
    ///
    /// Without an actix system on this thread, it shows the timer actors on threads without one.
    pub fn of_all_arbiters() -> Self {
        Self { system: Some(System::try_current().map(|system| system.id())), ..Self::empty() }
    }

    fn empty() -> Self {
        Self {
            given: Vec::new(),
            system: None,
            allow_cancel: false,
            audit: Audit::default(),
            hosts: AllowedHosts::default(),
            turns: Arc::default(),
            unread: Arc::default(),
            #[cfg(feature = "durable")]
            durable: durable::Stores::default(),
        }
    }

    /// Adds a timer actor, to be chosen on the page. If several have one name, numbers are appended to it here.
    pub fn add_timers(mut self, timers: &Timers) -> Self {
        self.given.push(Survey::of(timers));
        self
    }

    /// Adds durable timers: pending, in flight, waiting for another attempt, parked, and dead letters. With
    /// [`allow_cancel`](Self::allow_cancel) visitors can cancel them, and requeue or discard dead letters. If several
    /// have one name, numbers are appended to it here.
    ///
    /// ```
    /// use actix_timers_durable::DurableTimers;
    /// use actix_timers_inspector::Inspector;
    ///
    /// fn inspector(durable: &DurableTimers) -> Inspector {
    ///     Inspector::of_all_arbiters().add_durable(durable)
    /// }
    /// ```
    #[cfg(feature = "durable")]
    pub fn add_durable(mut self, timers: &actix_timers_durable::DurableTimers) -> Self {
        self.durable.add(timers);
        self
    }

    /// Returns the timer actors that exist now: those given first.
    fn inspected(&self) -> Vec<Inspected> {
        let found = self.system.map(Survey::of_system).unwrap_or_default();
        let given: HashSet<u32> = self.given.iter().map(Survey::number).collect();
        let found = found.into_iter().filter(|survey| !given.contains(&survey.number()));
        let mut names = Names::default();
        let named = |survey: Survey| Inspected { name: names.take(survey.name()), survey };
        self.given.iter().cloned().chain(found).map(named).collect()
    }

    /// Allows a host under which visitors reach the inspector: a name or an address, with any port unless one is given.
    /// Subdomains are hosts of their own.
    ///
    /// Always allowed are `localhost`, `127.0.0.0/8`, `[::1]` and the address that the server listens on, unless that
    /// is a wildcard, with any port. A request with another host in its target or its `Host` header is rejected with
    /// 403. Headers that forward a host are ignored. Behind a reverse proxy, allow the name in the visitors' address
    /// bar.
    ///
    /// A cancel must come from the page itself: its `Origin`, if any, must be the host of the request or one allowed
    /// here, on the port given here or else the default one of its scheme; with `https` also on the port of the `Host`
    /// header.
    ///
    /// ```
    /// use actix_timers_inspector::{Inspector, InvalidHost};
    /// # fn mounted(timers: &actix_timers::Timers) -> Result<Inspector, InvalidHost> {
    /// Inspector::new(timers).allow_host("timers.example.org")?.allow_host("192.168.1.5:8080")
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`InvalidHost`] if `host` is neither a name nor an address, or contains more than a port in addition.
    pub fn allow_host(mut self, host: impl AsRef<str>) -> Result<Self, InvalidHost> {
        self.hosts.add(host.as_ref())?;
        Ok(self)
    }

    /// Allows every visitor of the page to cancel timers, to requeue and discard durable dead letters, and to pause and
    /// resume routes and nodes, default false. Only then are ids shown in full.
    pub const fn allow_cancel(mut self, allow: bool) -> Self {
        self.allow_cancel = allow;
        self
    }

    /// Names the user of a request that changes timers, as the application's authentication knows it, for
    /// [`audit`](Self::audit).
    ///
    /// ```
    /// use actix_timers_inspector::Inspector;
    /// use actix_web::HttpMessage;
    ///
    /// /// Set by the application's middleware.
    /// struct User(String);
    ///
    /// let inspector = Inspector::of_all_arbiters()
    ///     .allow_cancel(true)
    ///     .user(|request| request.extensions().get::<User>().map(|user| user.0.clone()))
    ///     .audit(|change| println!("{:?}: {} {}: {}", change.user, change.action, change.target, change.outcome));
    /// # let _ = inspector;
    /// ```
    pub fn user(mut self, user: impl Fn(&HttpRequest) -> Option<String> + Send + Sync + 'static) -> Self {
        self.audit.user = Some(Arc::new(user));
        self
    }

    /// Calls a function after each change that a visitor makes, or tries: the outcome says whether it was made. With the
    /// feature `tracing` each is an event of the target `actix_timers_inspector::audit`, too. A panic of it changes no answer.
    pub fn audit(mut self, listener: impl Fn(&Change) + Send + Sync + 'static) -> Self {
        self.audit.listener = Some(Arc::new(listener));
        self
    }

    /// Returns the scope to mount: `App::new().service(inspector.scope("/timers"))`, in another scope if need be, with
    /// middleware and guards of the application.
    ///
    /// An inspector is created once, and a scope for each worker.
    pub fn scope(&self, path: &str) -> Scope {
        routes::under(path, self.clone())
    }
}
