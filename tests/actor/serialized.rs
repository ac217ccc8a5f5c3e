//! The serializable types, each read back as an equal value.
#![cfg(all(feature = "actix", feature = "serde"))]

use std::fmt::Debug;
use std::time::Duration;

use actix_timers::Counters;
use actix_timers::{
    BuildError, CancelOutcome, MailboxPolicy, RescheduleOutcome, TimerActorBuilder, TimerActorConfig, TimerGroup,
    TimerId, TimerInfo, TimerKey, TimerOptions, TimerState,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use serde_test::{Configure, Token, assert_de_tokens_error, assert_tokens};
use support::{Note, in_virtual_time, ms, with_probe};
use uuid::Uuid;

/// Converts to JSON and back.
fn through_json<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) -> serde_json::Value {
    let text = serde_json::to_string(value).unwrap();
    assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), value);
    serde_json::from_str(&text).unwrap()
}

#[test]
fn ids_are_texts_for_people_and_bytes_for_others() {
    let id = TimerId::new();
    assert_eq!(through_json(&id), json!(id.to_string()));
    let bytes: &'static [u8] = Box::leak(Box::new(id.as_uuid().into_bytes()));
    assert_tokens(&id.compact(), &[Token::Bytes(bytes)]);
    let other = "123e4567-e89b-12d3-a456-426614174000";
    let error = serde_json::from_value::<TimerId>(json!(other)).unwrap_err();
    assert!(error.to_string().contains("UUID of another version"), "{error}");
    assert!(serde_json::from_value::<TimerId>(json!("x")).is_err());
}

#[test]
fn keys_are_texts_numbers_or_sequences_of_them() {
    for (key, value) in [
        (TimerKey::from("idle"), json!("idle")),
        (TimerKey::from(String::from("7")), json!("7")),
        (TimerKey::from(7), json!(7)),
        (TimerKey::from(-7), json!(-7)),
        (TimerKey::from(u64::MAX), json!(u64::MAX)),
        (TimerKey::from(i64::MIN), json!(i64::MIN)),
        (TimerKey::from(("order", 7, -7)), json!(["order", 7, -7])),
        (TimerKey::from(u128::MAX), json!({ "number": "340282366920938463463374607431768211455" })),
        (TimerKey::from(i128::MIN), json!({ "number": "-170141183460469231731687303715884105728" })),
        (TimerKey::from(Uuid::max()), json!({ "uuid": "ffffffff-ffff-ffff-ffff-ffffffffffff" })),
        (
            TimerKey::from((1_u128 << 64, Uuid::nil())),
            json!([{ "number": "18446744073709551616" }, { "uuid": Uuid::nil() }]),
        ),
    ] {
        assert_eq!(through_json(&key), value);
    }
    assert_eq!(serde_json::from_value::<TimerKey>(json!({ "number": "7" })).unwrap(), TimerKey::from(7));
    for nonsense in [json!(1.5), json!(null), json!([[1]]), json!([null]), json!({}), json!({ "number": "x" })] {
        let error = serde_json::from_value::<TimerKey>(nonsense).unwrap_err();
        let expected = "a text, an integer of 64 bits, `number` or `uuid` with a text, or a sequence of these";
        assert!(error.to_string().contains(expected), "{error}");
    }
    let tagged = |variant| Token::NewtypeVariant { name: "Form", variant };
    assert_tokens(&TimerKey::from("a").compact(), &[tagged("Text"), Token::Str("a")]);
    assert_tokens(&TimerKey::from(7).compact(), &[tagged("Natural"), Token::U64(7)]);
    assert_tokens(&TimerKey::from(-7).compact(), &[tagged("Negative"), Token::I64(-7)]);
    let parts = [tagged("Text"), Token::Str("a"), tagged("Natural"), Token::U64(7)];
    let tuple: Vec<Token> =
        [tagged("Tuple"), Token::Seq { len: Some(2) }].into_iter().chain(parts).chain([Token::SeqEnd]).collect();
    assert_tokens(&TimerKey::from(("a", 7)).compact(), &tuple);
    let number = "18446744073709551616";
    assert_tokens(&TimerKey::from(1_u128 << 64).compact(), &[tagged("number"), Token::Str(number)]);
    assert_tokens(&TimerKey::from(Uuid::nil()).compact(), &[tagged("uuid"), Token::Bytes(&[0; 16])]);
    assert_eq!(through_json(&TimerGroup::from("campaign-7")), json!("campaign-7"));
}

#[test]
fn options_are_read_from_a_configuration() {
    let options = TimerOptions::new().key("save").group("editor").jitter(ms(1500)).slack(Duration::from_secs(90));
    through_json(&options);
    let text = r#"{ "key": "save", "group": "editor", "jitter": "1500ms", "slack": "1m30s" }"#;
    assert_eq!(serde_json::from_str::<TimerOptions>(text).unwrap(), options);
    assert_eq!(serde_json::from_str::<TimerOptions>("{}").unwrap(), TimerOptions::new());
    let unknown = serde_json::from_str::<TimerOptions>(r#"{ "jiter": "1s" }"#).unwrap_err();
    assert!(unknown.to_string().contains("unknown field `jiter`"), "{unknown}");
    let number = serde_json::from_str::<TimerOptions>(r#"{ "jitter": "1500" }"#).unwrap_err();
    assert!(number.to_string().contains("with units"), "{number}");
}

#[test]
fn outcomes_and_states_are_words() {
    use CancelOutcome::{AlreadyDelivered, Cancelled, InProgress, NotFound};
    let words = [Cancelled, AlreadyDelivered, InProgress, NotFound].map(|outcome| through_json(&outcome));
    assert_eq!(words, ["cancelled", "already_delivered", "in_progress", "not_found"]);
    assert_eq!(through_json(&RescheduleOutcome::Rescheduled), "rescheduled");
    let states = [TimerState::Waiting, TimerState::Due, TimerState::InFlight, TimerState::Between];
    assert_eq!(states.map(|state| through_json(&state)), ["waiting", "due", "in_flight", "between"]);
    let mut counters = Counters::default();
    (counters.accepted, counters.delivered, counters.pending) = (3, 1, 2);
    assert_eq!(through_json(&counters)["accepted"], 3);
}

#[test]
fn the_info_of_a_timer_is_serialized_and_read_back() {
    with_probe(async |world, addr, _log| {
        let options = TimerOptions::new().key(7).group("g");
        let id = world.timers.timer(&addr, options).schedule(ms(1250), Note(1));
        let info: TimerInfo = world.timers.get(id).unwrap();
        let json = through_json(&info);
        assert_eq!(json["id"], json!(id));
        assert_eq!((&json["remaining"], &json["key"], &json["group"]), (&json!("1s250ms"), &json!(7), &json!("g")));
        assert_eq!(json["period"], json!(null));
        let repeats = world.timers.schedule_at_fixed_rate(&addr, ms(90_000), Note(2));
        assert_eq!(through_json(&world.timers.get(repeats).unwrap())["period"], json!("1m30s"));
        assert_eq!(json["message_type"], json!(std::any::type_name::<Note<i32>>()));
    });
}

#[test]
fn a_configuration_is_checked_like_a_builder() {
    let config = TimerActorConfig::default();
    let json = through_json(&config);
    assert_eq!((&json["tick"], &json["wheel_size"]), (&json!("1ms"), &json!(256)));
    assert_eq!(serde_json::from_str::<TimerActorConfig>("{}").unwrap(), config);
    let text = r#"{ "name": "orders", "tick": "10ms", "capacity": 5, "wall_clock_check_interval": "forever", "stuck_after": "1m", "jitter_seed": 3 }"#;
    let config: TimerActorConfig = serde_json::from_str(text).unwrap();
    assert_eq!(
        (config.tick, config.wall_clock_check_interval, config.stuck_after),
        (ms(10), Duration::MAX, ms(60_000))
    );
    through_json(&config);
    assert!(TimerActorBuilder::from(config).build().is_ok());
    let text = r#"{ "mailbox_policy": { "wait": { "window": 4 } } }"#;
    let config: TimerActorConfig = serde_json::from_str(text).unwrap();
    assert_eq!(config.mailbox_policy, MailboxPolicy::Wait { window: 4 });
    assert_eq!(through_json(&config)["mailbox_policy"], json!({ "wait": { "window": 4 } }));
    assert_eq!(through_json(&MailboxPolicy::Discard { window: 4 }), json!({ "discard": { "window": 4 } }));
    let unknown = serde_json::from_str::<TimerActorConfig>(r#"{ "tik": "1ms" }"#).unwrap_err();
    assert!(unknown.to_string().contains("unknown field `tik`"), "{unknown}");
    for (text, expected) in [
        (r#"{ "capacity": 0 }"#, "capacity"),
        (r#"{ "expiry_budget": 0 }"#, "expiry_budget"),
        (r#"{ "request_budget": 0 }"#, "request_budget"),
        (r#"{ "wall_clock_check_interval": "0s" }"#, "wall_clock_check_interval"),
        (r#"{ "stuck_after": "0s" }"#, "stuck_after"),
        (r#"{ "tick": "0s" }"#, "tick"),
        (r#"{ "wheel_size": 1 }"#, "wheel"),
    ] {
        let config: TimerActorConfig = serde_json::from_str(text).unwrap();
        let rejected: BuildError = TimerActorBuilder::from(config).build().expect_err("it is out of range");
        assert!(rejected.to_string().contains(expected), "{rejected}");
    }
}

#[test]
fn every_setting_of_a_configuration_takes_effect() {
    let mut config = TimerActorConfig::default();
    config.name = Some("configured".to_owned());
    config.tick = ms(20);
    config.capacity = 1;
    let builder = || TimerActorBuilder::from(config.clone());
    in_virtual_time(builder, |world| async move {
        let (addr, log) = world.probe();
        assert_eq!((world.timers.name(), world.timers.snapshot().tick), ("configured", ms(20)));
        world.after(&addr, 5, 1);
        assert!(world.timers.timer(&addr, TimerOptions::new()).try_schedule(ms(5), Note(2)).is_err());
        world.run_to(100).await;
        assert_eq!(log.take(), [(1, 20)]);
    });
}

#[test]
fn times_for_machines_are_numbers() {
    let tokens = [Token::Struct { name: "TimerActorConfig", len: 9 }, Token::Str("tick"), Token::Str("1ms")];
    assert_de_tokens_error::<serde_test::Compact<TimerActorConfig>>(
        &tokens,
        "invalid type: string \"1ms\", expected struct Duration",
    );
}
