//! The thread that runs the sessions, and calls to it that wait.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use actix_timers_durable::StoreError;
use tokio::runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;

use super::beat::{self, Member};
use super::session::{Session, Shared};
use crate::connect::no_reply;
use crate::dial::LocalFuture;
use crate::metrics::Role;
use crate::server::Server;

type Job = Box<dyn for<'a> FnOnce(&'a mut Session) -> LocalFuture<'a, ()> + Send>;

/// The wait for a result.
pub(super) type Wait<T> = Box<dyn FnOnce() -> Result<T, StoreError>>;

/// The thread, which ends with the last way to its sessions.
#[derive(Debug)]
pub(super) struct Io {
    pub(super) writer: Jobs,
    pub(super) reader: Jobs,
    pub(super) queries: Jobs,
    pub(super) thread: JoinHandle<()>,
}

/// The way to a session.
#[derive(Debug, Clone)]
pub(super) struct Jobs {
    sender: UnboundedSender<Job>,
    /// The longest time for a call.
    limit: Duration,
}

impl Io {
    /// Starts the thread. Nothing connects before the first call.
    pub(super) fn start(server: &Arc<Server>, shared: &Arc<Shared>, member: Member) -> std::io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let limit = server.timeout * 4 + Duration::from_secs(3);
        let ((writer, writes), (reader, reads), (queries, asked)) =
            (unbounded_channel(), unbounded_channel(), unbounded_channel());
        let (server, shared) = (Arc::clone(server), Arc::clone(shared));
        let run = move || {
            let session = |role, member| Session::new(Arc::clone(&server), Arc::clone(&shared), role, member);
            let tasks = LocalSet::new();
            let writes = tasks.spawn_local(serve(session(Role::Writer, member), writes));
            tasks.spawn_local(serve(session(Role::Reader, Member::default()), reads));
            tasks.spawn_local(serve(session(Role::Query, Member::default()), asked));
            runtime.block_on(tasks.run_until(async move { _ = writes.await }));
        };
        let thread = Builder::new().name("timers postgres".to_owned()).spawn(run)?;
        let jobs = |sender| Jobs { sender, limit };
        Ok(Self { writer: jobs(writer), reader: jobs(reader), queries: jobs(queries), thread })
    }
}

impl Jobs {
    /// Runs work in the session after all earlier one, and does not wait.
    pub(super) fn start(&self, work: impl AsyncFnOnce(&mut Session) + Send + 'static) {
        // After the end of the thread nobody waits, or learns of it.
        _ = self.sender.send(Box::new(move |session| Box::pin(work(session))));
    }

    /// Runs work in the session as long as there is more, after other work in between.
    pub(super) fn start_all(&self, work: impl AsyncFn(&mut Session) -> bool + Clone + Send + 'static) {
        let (jobs, again) = (self.clone(), work.clone());
        self.start(async move |session| {
            if work(session).await {
                jobs.start_all(again);
            }
        });
    }

    /// Runs work in the session, and waits for it.
    pub(super) fn run<T: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(&mut Session) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.begin(work)()
    }

    /// Begins work in the session. Returns the wait for it.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(&mut Session) -> Result<T, StoreError> + Send + 'static,
    ) -> Wait<T> {
        let (limit, (reply, replied)) = (self.limit, sync_channel(1));
        self.start(async move |session| {
            if reply.send(work(session).await).is_err() {
                session.lose_reply();
            }
        });
        Box::new(move || match replied.recv_timeout(limit) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => Err(StoreError::Unknown(no_reply(limit))),
            Err(RecvTimeoutError::Disconnected) => Err(StoreError::Closed),
        })
    }
}

/// Runs jobs in their order until the last handle is dropped. Then the node leaves.
async fn serve(mut session: Session, mut jobs: UnboundedReceiver<Job>) {
    while let Some(job) = jobs.recv().await {
        job(&mut session).await;
    }
    if session.role == Role::Writer {
        beat::leave(&mut session).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PostgresOptions;
    use tokio_postgres::{Config, NoTls};

    #[test]
    fn a_reply_for_which_nobody_waits_is_lost() {
        let server = Arc::new(Server::new(Config::new(), crate::dial::with(NoTls), &PostgresOptions::new()));
        let io = Io::start(&server, &Arc::default(), Member::default()).unwrap();
        let breaks = || io.writer.run(async |session| Ok(session.breaks)).unwrap();
        assert_eq!(breaks(), 0);
        let (drop_reply, dropped) = tokio::sync::oneshot::channel::<()>();
        drop(io.writer.begin(async move |_| {
            _ = dropped.await;
            Ok(())
        }));
        drop(drop_reply);
        assert_eq!(breaks(), 1);
    }
}
