//! Tests of lists.

use super::*;

fn members(list: &List, chunks: &Chunks) -> Vec<u32> {
    let mut members = Vec::new();
    let mut at = list.head;
    while let Some(head) = chunks.head(at) {
        assert_ne!(head.taken, 0, "no chunk is empty");
        members.extend(chunks.members(at));
        at = head.next;
    }
    assert_eq!(list.len(), members.len());
    assert_eq!(list.is_empty(), members.is_empty());
    assert_eq!(list.first(chunks), members.first().copied());
    let next: Vec<u32> = list.next_few(chunks).collect();
    assert!(members.starts_with(&next) && next.is_empty() == members.is_empty());
    members
}

/// Any two members leave a list of one to three chunks: the others keep their order, and a new one comes last.
#[test]
fn members_keep_their_order_and_can_leave_from_anywhere() {
    for size in [0, 1, 2, MEMBERS - 1, MEMBERS, MEMBERS + 1, 2 * MEMBERS, 2 * MEMBERS + 1] {
        for leaving in 0..size {
            for after in 0..size {
                let (mut chunks, mut list) = (Chunks::new(), List::new());
                let spots: Vec<Spot> = (0..size).map(|member| list.push_back(&mut chunks, member)).collect();
                let mut left: Vec<u32> = (0..size).collect();
                for gone in [leaving, after] {
                    if let Ok(at) = left.binary_search(&gone) {
                        left.remove(at);
                        list.remove(&mut chunks, spots[gone as usize]);
                    }
                    assert_eq!(members(&list, &chunks), left);
                }
                list.push_back(&mut chunks, 99);
                left.push(99);
                assert_eq!(members(&list, &chunks), left);
                for member in left {
                    assert_eq!(list.pop_front(&mut chunks), Some(member));
                }
                assert_eq!((list.pop_front(&mut chunks), list.head, list.tail), (None, NONE, NONE));
            }
        }
    }
}

/// The members of the first chunk are taken in a row, any number of them: the others keep their order.
#[test]
fn the_first_members_leave_in_a_row() {
    for size in [1, 2, MEMBERS, MEMBERS + 1] {
        for most in 0..=MEMBERS {
            let (mut chunks, mut list) = (Chunks::new(), List::new());
            for member in 0..size {
                list.push_back(&mut chunks, member);
            }
            let mut first = list.next_few(&chunks);
            let taken: Vec<u32> = first.by_ref().take(most as usize).collect();
            let left = first.left();
            assert_eq!(list.keep(&mut chunks, left), taken.len());
            let rest = members(&list, &chunks);
            assert_eq!(taken.into_iter().chain(rest).collect::<Vec<u32>>(), (0..size).collect::<Vec<u32>>());
        }
    }
    assert_eq!(List::new().keep(&mut Chunks::new(), 0), 0);
}

/// A new member takes the position that the last member left: a timer set and cancelled repeatedly takes no more
/// memory.
#[test]
fn the_room_of_the_last_member_is_used_again() {
    let (mut chunks, mut list) = (Chunks::new(), List::new());
    list.push_back(&mut chunks, 0);
    let spot = list.push_back(&mut chunks, 1);
    for member in 2..1000 {
        list.remove(&mut chunks, spot);
        assert_eq!(list.push_back(&mut chunks, member), spot);
    }
}

#[test]
fn chunks_are_used_again_before_new_ones_are_made() {
    let mut chunks = Chunks::new();
    for _ in 0..3 {
        let mut lists = vec![List::new(); PAGE];
        for list in &mut lists {
            list.push_back(&mut chunks, 7);
        }
        assert_eq!(chunks.pages.len(), 1);
        for list in &mut lists {
            assert_eq!(list.pop_front(&mut chunks), Some(7));
        }
    }
    let mut list = List::new();
    for member in 0..(PAGE as u32 + 1) * MEMBERS {
        list.push_back(&mut chunks, member);
    }
    assert_eq!(chunks.pages.len(), 2);
    assert_eq!(members(&list, &chunks).len() as u32, (PAGE as u32 + 1) * MEMBERS);
}
