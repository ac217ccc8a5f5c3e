//! Tests of ids.

use std::collections::HashSet;

use super::*;

#[test]
fn an_id_is_a_valid_uuid_and_contains_the_key_of_its_timer() {
    for number in [1, 2, MAX_ACTOR_NUMBER] {
        for key in [Key::new(0, 0), Key::new(0xFFF, 7), Key::new(0x1000, TAG), Key::new(u32::MAX, TAG - 1)] {
            let id = TimerId::of_timer(number, key);
            assert_eq!((id.actor_number(), id.key()), (Some(number), key));
            assert_eq!(id.as_uuid().get_version_num(), 8);
            assert_eq!(id.as_uuid().get_variant(), uuid::Variant::RFC4122);
            assert_eq!(id.to_string().parse(), Ok(id));
        }
    }
    let known = TimerId::of_timer(0x0abc_def1, Key::new(0x0706_0504, 0x13f5_f579_9a93_2462));
    assert_eq!(known.to_string(), "abcdef10-7060-8504-93f5-f5799a932462");
}

/// The words of the key stream of ChaCha12 for a key and a nonce of zeros (test vector TC1 of "Test Vectors for the
/// Stream Cipher ChaCha", J. Strombergson, 2013), the lowest byte first.
#[test]
fn tags_are_the_key_stream_of_chacha12() {
    let mut tags = Tags(ChaCha12Rng::from_seed([0; 32]));
    let stream = *b"\x9b\xf4\x9a\x6a\x07\x55\xf9\x53\x81\x1f\xce\x12\x5f\x26\x83\xd5";
    for word in stream.chunks(8) {
        assert_eq!(tags.next(), u64::from_le_bytes(word.try_into().unwrap()) & TAG);
    }
}

#[test]
fn tags_never_repeat_and_are_unrelated() {
    let (mut one, mut other) = (Tags::new(&Secret::new()), Tags::new(&Secret::new()));
    let tags: Vec<u64> = (0..100_000).flat_map(|_| [one.next(), other.next()]).collect();
    assert_eq!(tags.iter().collect::<HashSet<_>>().len(), tags.len());
    let flipped: u32 = tags.windows(2).map(|pair| (pair[0] ^ pair[1]).count_ones()).sum();
    let mean = f64::from(flipped) / (tags.len() - 1) as f64;
    assert!((30.9..31.1).contains(&mean), "about half of 62 bits change: {mean}");
}

/// The seed of the tags depends on each bit of the secret.
#[test]
fn a_change_of_one_bit_of_the_secret_changes_half_of_each_tag() {
    let changed = (0..128).map(|bit| {
        let (low, high) = if bit < 64 { (1 << bit, 0) } else { (0, 1 << (bit - 64)) };
        let (mut one, mut other) = (Tags::new(&Secret::known(7, 9)), Tags::new(&Secret::known(7 ^ low, 9 ^ high)));
        (0..100).map(|_| (one.next() ^ other.next()).count_ones()).sum::<u32>()
    });
    for sum in changed {
        assert!((2900..3300).contains(&sum), "of 6200 bits: {sum}");
    }
}

#[test]
fn fresh_ids_never_repeat_and_name_no_actor() {
    let mut seen = HashSet::new();
    for _ in 0..100_000 {
        let id = TimerId::new();
        assert_eq!(id.actor_number(), None);
        assert!(seen.insert(id));
    }
    let elsewhere = std::thread::spawn(|| (0..1000).map(|_| TimerId::new()).collect::<Vec<_>>()).join().unwrap();
    assert!(elsewhere.into_iter().all(|id| seen.insert(id)));
}

#[test]
fn only_uuids_of_version_8_are_taken() {
    let id = TimerId::new();
    for text in [id.to_string(), id.as_uuid().simple().to_string(), id.as_uuid().urn().to_string()] {
        assert_eq!(text.parse(), Ok(id));
    }
    for text in [
        "",
        "x",
        "\0",
        "💥",
        "123e4567-e89b-12d3-a456-42661417400",
        "123e4567-e89b-12d3-a456-4266141740000",
        "0000000g",
    ] {
        assert!(matches!(text.parse::<TimerId>(), Err(ParseTimerIdError::NotAUuid(_))), "{text}");
    }
    for uuid in [Uuid::nil(), Uuid::max(), Uuid::from_u128(0x123e_4567_e89b_12d3_a456_4266_1417_4000)] {
        assert_eq!(TimerId::try_from(uuid), Err(ParseTimerIdError::OtherVersion(uuid)));
        let error = uuid.to_string().parse::<TimerId>().unwrap_err();
        assert!(error.to_string().contains("version"), "{error}");
    }
}
