//! Changes by visitors, each with its user: for the application's audit.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use actix_timers::integration::contain;
use actix_web::HttpRequest;

/// A change of timers through an inspector. It is reported when its outcome is known, also if the client has left by
/// then, or if it was in vain, as `already_delivered`, `not_paused`, `key_in_use` or `still_pending`; a request that was
/// rejected, or found no timer by its id, is not.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The user, as [`Inspector::user`](super::Inspector::user) names it.
    pub user: Option<String>,
    /// The address of the client; behind a proxy that of the proxy.
    pub peer: Option<SocketAddr>,
    /// `cancel`, `requeue`, `discard`, `pause` or `resume`.
    pub action: &'static str,
    /// The id of a timer; or the parameters of a filter, as in the request, or `route`, `node` or `timer` with
    /// the name; both with the store, as in `route mail in reminders`.
    pub target: String,
    /// The outcome, as in the response; `failed: ` and the reason if not all of it is known to be done.
    pub outcome: String,
}

type UserOf = Arc<dyn Fn(&HttpRequest) -> Option<String> + Send + Sync>;
type Listener = Arc<dyn Fn(&Change) + Send + Sync>;

/// The application's part of the audit.
#[derive(Clone, Default)]
pub(super) struct Audit {
    pub(super) user: Option<UserOf>,
    pub(super) listener: Option<Listener>,
}

impl Audit {
    /// Returns the user of a request, as the application names it.
    pub(super) fn user(&self, request: &HttpRequest) -> Option<String> {
        self.user.as_ref().and_then(|user| user(request))
    }

    /// Begins a change of this request.
    pub(super) fn change(&self, request: &HttpRequest, action: &'static str, target: String) -> Change {
        Change { user: self.user(request), peer: request.peer_addr(), action, target, outcome: String::new() }
    }

    /// Reports a change with its outcome.
    pub(super) fn report(&self, change: Change, outcome: impl fmt::Display) {
        let change = Change { outcome: outcome.to_string(), ..change };
        // Escaped: a target is a visitor's text.
        #[cfg(feature = "tracing")]
        tracing::info!(
            target: "actix_timers_inspector::audit",
            user = change.user.as_ref().map(tracing::field::debug),
            peer = change.peer.map(tracing::field::display),
            action = change.action,
            target_of_change = ?change.target,
            outcome = ?change.outcome,
            "timers changed"
        );
        if let Some(listener) = &self.listener {
            _ = contain(|| listener(&change));
        }
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").finish_non_exhaustive()
    }
}
