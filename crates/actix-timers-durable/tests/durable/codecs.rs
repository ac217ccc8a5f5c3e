//! Codecs of payloads: the stored bytes, and timers that outlive a codec.

use actix_timers::ManualClock;
use actix_timers_durable::store::MemoryDisk;
use actix_timers_durable::{DecodeError, DurableError, DurableFilter, DurableTimers, EncodeError, PayloadCodec};

use support::durable::{Diary, Files, Medium, Note, ROUTE, life, ms, notes, on_every_store, run_to};

on_every_store! {
    a_codec_transforms_the_stored_payload_alone
    timers_stored_without_a_codec_are_delivered_with_one
    timers_of_an_unknown_codec_are_parked_until_it_is_known
    a_codec_that_fails_or_panics_loses_no_message
}

/// Adds a number to each byte, and knows the codec before it.
struct Shifted(u8);

impl PayloadCodec for Shifted {
    fn id(&self) -> &str {
        ["", "shifted/1", "shifted/2"][usize::from(self.0)]
    }

    fn encode(&self, payload: Vec<u8>) -> Result<Vec<u8>, EncodeError> {
        if payload == b"13" {
            return Err(EncodeError::new("no thirteen"));
        }
        Ok(payload.iter().map(|byte| byte.wrapping_add(self.0)).collect())
    }

    fn decode(&self, id: &str, payload: &[u8]) -> Result<Vec<u8>, DecodeError> {
        assert_ne!(payload, b"14".map(|byte| byte + 1), "a payload that ends the decoder");
        let by = (1..=self.0).find(|by| Shifted(*by).id() == id).ok_or_else(|| DecodeError::unknown_codec(id))?;
        Ok(payload.iter().map(|byte| byte.wrapping_sub(by)).collect())
    }
}

fn timers(diary: &Diary, medium: &impl Medium, clock: &ManualClock, codec: Option<u8>) -> DurableTimers {
    let builder = diary.builder(medium, clock);
    codec.into_iter().fold(builder, |builder, number| builder.payload_codec(Shifted(number))).start().unwrap()
}

fn a_codec_transforms_the_stored_payload_alone(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = timers(&diary, &medium, &clock, Some(1));
        let id = timers.schedule_after(ROUTE, ms(10), Note(7)).await.unwrap().id();
        let info = timers.get(id).await.unwrap().unwrap();
        assert_eq!((&*info.payload, info.payload_codec.as_deref()), (&b"8"[..], Some("shifted/1")));
        assert_eq!((&*info.route, &*info.message_type), (ROUTE, "note"));
        assert_eq!(info.message(), Ok(Note(7)));
        let listed = timers.list(DurableFilter::new()).await.unwrap().timers;
        assert_eq!(listed, [info]);
        run_to(&clock, 10).await;
        assert_eq!(diary.deliveries(), [(10, 7)]);
    });
}

fn timers_stored_without_a_codec_are_delivered_with_one(medium: impl Medium) {
    let diary = Diary::default();
    // The last one knows the codec before it.
    for (codec, note) in [(None, 1), (Some(1), 2), (Some(2), 3)] {
        life(0, async |clock| {
            let timers = timers(&diary, &medium, &clock, codec);
            notes(&timers, ROUTE, [(note, 999 + u64::from(note))]).await;
            if note == 3 {
                run_to(&clock, 2000).await;
                assert_eq!(diary.deliveries(), [(1000, 1), (1001, 2), (1002, 3)]);
            }
            timers.stop().await.unwrap();
        });
    }
}

fn timers_of_an_unknown_codec_are_parked_until_it_is_known(medium: impl Medium) {
    let diary = Diary::default();
    for (start, codec) in [(0, Some(2)), (100, None), (100, Some(1)), (300, Some(2))] {
        life(start, async |clock| {
            let timers = timers(&diary, &medium, &clock, codec);
            if start == 0 {
                notes(&timers, ROUTE, [(1, 10)]).await;
                return timers.stop().await.unwrap();
            }
            run_to(&clock, start + 100).await;
            let parked = timers.list(DurableFilter::parked()).await.unwrap().timers;
            let errors: Vec<_> = parked.iter().map(|info| info.message::<Note>().unwrap_err()).collect();
            let unknown = DecodeError::UnknownCodec { found: "shifted/2".to_owned() };
            assert_eq!(errors, if start == 100 { vec![unknown] } else { vec![] });
            timers.stop().await.unwrap();
        });
    }
    assert_eq!(diary.attempts(), [(300, 1, 3)], "each start has tried it");
}

fn a_codec_that_fails_or_panics_loses_no_message(medium: impl Medium) {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = timers(&diary, &medium, &clock, Some(1));
        let error = timers.schedule_after(ROUTE, ms(1), Note(13)).await.unwrap_err();
        assert!(matches!(&error.reason, DurableError::Encode { error, .. } if error.to_string() == "no thirteen"));
        assert_eq!(error.into_message(), Note(13));
        let id = notes(&timers, ROUTE, [(14, 1), (15, 2)]).await[0];
        run_to(&clock, 100).await;
        assert_eq!(diary.deliveries(), [(2, 15)]);
        let parked = timers.list(DurableFilter::parked()).await.unwrap().timers;
        let found: Vec<_> = parked.iter().map(|info| (info.id, info.progress.attempt)).collect();
        assert_eq!(found, [(id, 2)], "the next attempt");
        assert!(timers.cancel(id).await.unwrap().is_cancelled());
        assert_eq!(timers.counts().await.unwrap().parked, 0);
    });
}

#[test]
fn a_codec_without_a_valid_id_encodes_nothing() {
    let diary = Diary::default();
    life(0, async |clock| {
        let timers = timers(&diary, &MemoryDisk::new(), &clock, Some(0));
        let error = timers.schedule_after(ROUTE, ms(1), Note(1)).await.unwrap_err();
        assert!(error.to_string().ends_with("has 1 to 255 bytes and no control characters"), "{error}");
    });
}
