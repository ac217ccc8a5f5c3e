//! The thread that runs the sessions, and calls to it that wait.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread::Builder;
use std::time::Duration;

use actix_timers_durable::StoreError;
use tokio::runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;

use crate::dial::LocalFuture;
use crate::error::Failure;
use crate::keeper::{self, Order};
use crate::session::{Role, Seat, Server, Session};
use crate::shared::Shared;

type Job = Box<dyn for<'a> FnOnce(&'a mut Session) -> LocalFuture<'a, ()> + Send>;

/// A handle to the thread, which ends with the last one and the last way to its sessions.
#[derive(Debug)]
pub(crate) struct Io {
    pub(crate) writer: Jobs,
    pub(crate) reader: Jobs,
    pub(crate) queries: Jobs,
    keeper: UnboundedSender<Order>,
}

/// The way to a session.
#[derive(Debug, Clone)]
pub(crate) struct Jobs(UnboundedSender<Job>);

impl Io {
    /// Starts the thread. Nothing connects before the first call.
    pub(crate) fn start(server: &Arc<Server>, shared: &Arc<Shared>) -> std::io::Result<Self> {
        let (writer, writes) = unbounded_channel();
        let (reader, reads) = unbounded_channel();
        let (asker, queries) = unbounded_channel();
        let (keeper, orders) = unbounded_channel();
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (server, shared) = (Arc::clone(server), Arc::clone(shared));
        let run = move || {
            let seat = Rc::new(Seat::default());
            let session = |role| Session::new(role, Arc::clone(&server), Rc::clone(&seat), Arc::clone(&shared));
            let tasks = LocalSet::new();
            let writes = tasks.spawn_local(serve(session(Role::Writer), writes));
            let reads = tasks.spawn_local(serve(session(Role::Reader), reads));
            let queries = tasks.spawn_local(serve(session(Role::Query), queries));
            let keeping = tasks.spawn_local(keeper::run(session(Role::Keeper), orders));
            runtime.block_on(tasks.run_until(async move {
                _ = writes.await;
                _ = reads.await;
                _ = queries.await;
                _ = keeping.await;
            }));
        };
        Builder::new().name("timers postgres".to_owned()).spawn(run)?;
        Ok(Self { writer: Jobs(writer), reader: Jobs(reader), queries: Jobs(asker), keeper })
    }

    /// Gives an order to the keeper.
    pub(crate) fn order(&self, order: Order) {
        _ = self.keeper.send(order);
    }
}

impl Jobs {
    /// Runs work in the session, and waits for it up to `limit`; then `None`.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        limit: Duration,
        work: impl for<'a> FnOnce(&'a mut Session) -> LocalFuture<'a, Result<T, StoreError>> + Send + 'static,
    ) -> Option<Result<T, StoreError>> {
        let (reply, replied) = sync_channel(1);
        let job: Job = Box::new(move |session| {
            Box::pin(async move {
                let result = work(session).await;
                _ = reply.send(result);
            })
        });
        if self.0.send(job).is_err() {
            return Some(Err(StoreError::Closed));
        }
        match replied.recv_timeout(limit) {
            Ok(result) => Some(result),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(StoreError::Closed)),
        }
    }

    /// Runs statements in the session, and waits for them up to `limit`.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        limit: Duration,
        work: impl for<'a> FnOnce(&'a mut Session) -> LocalFuture<'a, Result<T, Failure>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let result =
            self.call(limit, move |session| Box::pin(async move { work(session).await.map_err(Failure::into_error) }));
        result.unwrap_or_else(|| Err(StoreError::Unavailable(format!("no reply within {limit:?}"))))
    }
}

/// Runs jobs in their order until the last handle is dropped.
async fn serve(mut session: Session, mut jobs: UnboundedReceiver<Job>) {
    while let Some(job) = jobs.recv().await {
        job(&mut session).await;
    }
}
