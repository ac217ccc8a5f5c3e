//! The list of all tests of the contract, for the stores of this crate and of others.

/// Calls a macro with some arguments and the list of all tests: `module::test`.
macro_rules! contract_tests {
    ($call:ident, $($arguments:tt)*) => {
        $call!($($arguments)* [
            changes::a_record_comes_back_as_it_was_put,
            changes::headers_stay_with_their_timer,
            changes::every_change_of_an_absent_record_returns_missing,
            changes::a_removed_timer_is_gone_with_its_key,
            changes::a_moved_timer_is_found_by_its_id_and_its_new_time_alone,
            changes::a_key_belongs_to_one_timer,
            changes::a_key_belongs_to_one_timer_of_its_shard_or_of_a_shared_store,
            changes::changes_of_a_group_see_the_changes_before_them,
            changes::a_failed_timer_is_a_dead_letter_until_it_is_requeued_or_discarded,
            changes::a_timer_that_repeats_goes_on_beside_its_dead_letter,
            changes::a_timer_that_is_set_aside_comes_back_as_it_was,
            changes::claims_are_there_until_they_end,
            changes::a_record_that_is_too_large_is_rejected_with_its_whole_group,
            changes::only_the_present_owner_of_a_shard_may_write,
            changes::shards_do_not_see_each_other,
            pages::pages_are_in_the_order_of_positions,
            pages::a_page_ends_with_its_time_and_its_limit,
            pages::the_ends_of_time_are_loaded,
            pages::a_reader_sees_all_that_was_committed,
            pages::the_cursor_never_passes_pending_records,
            model::random_changes_leave_the_state_of_the_model,
        ]);
    };
}
pub(crate) use contract_tests;
