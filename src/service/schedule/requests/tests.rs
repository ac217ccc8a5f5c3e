//! Tests of requests with ids of their own.

use std::time::Duration;

use actix::prelude::*;
use metrics_exporter_prometheus::PrometheusBuilder;

use super::Schedule;
use crate::api::timer_actor::TimerActor;
use crate::model::error::ScheduleError;
use crate::model::id::TimerId;
use crate::model::target::Target;
use crate::service::deliver::once::Once;
use crate::service::schedule::admission::TimerRequest;
use crate::tests::fixture::{Bell, Ring};

/// Requests generate their own ids, so this cannot be tested from outside.
#[test]
fn an_id_that_a_pending_timer_has_is_rejected_and_counted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    System::new().block_on(async {
        let timers = metrics::with_local_recorder(&recorder, || TimerActor::builder().start()).unwrap();
        let bell = Bell.start();
        let id = TimerId::new();
        let schedule = || {
            let hour = Schedule::After(Duration::from_secs(3600));
            timers.service().try_schedule::<Once<_>, _>(
                hour,
                TimerRequest { id: Some(id), ..TimerRequest::default() },
                Target::from(&bell),
                Ring,
            )
        };
        assert_eq!(schedule().ok(), Some(id));
        let rejections = || {
            assert!(matches!(schedule(), Err(ScheduleError::DuplicateId { id: known, .. }) if known == id));
            let page = recorder.handle().render();
            let rejected = page.lines().find(|line| line.contains("reason=\"duplicate_id\""));
            rejected.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        };
        assert_eq!([rejections(), rejections()], [Some(1), Some(2)]);
        assert!(timers.cancel(id).is_cancelled());
        assert!(schedule().is_ok(), "an ended timer does not count");
    });
}
