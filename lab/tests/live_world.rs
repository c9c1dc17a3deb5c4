//! Links in real time, under real sockets and programs.
//!
//! Each test runs in a process of its own, since a sandbox has to be entered before there are threads. What the kernel
//! does not allow is skipped by name, with the reason; so is a test that needs a machine that keeps time, when the
//! machine did not in three attempts.
//!
//! ```text
//! cargo test -p aquila-lab --test live_world [-- NAME...]
//! ```

#[path = "live/aerotp.rs"]
mod aerotp;
#[path = "live/cleanup.rs"]
mod cleanup;
#[path = "live/harness.rs"]
mod harness;
#[path = "live/links.rs"]
mod links;
#[path = "live/plans.rs"]
mod plans;
#[path = "live/programs.rs"]
mod programs;
#[path = "live/traffic.rs"]
mod traffic;

use harness::Test;

fn main() {
    harness::main(&[
        Test::inside("an_empty_world", links::an_empty_world),
        Test::inside("echo_takes_two_delays", links::echo_takes_two_delays),
        Test::inside("four_links_at_once", links::four_links_at_once),
        Test::inside("a_saturated_link_follows_its_trace", links::a_saturated_link_follows_its_trace),
        Test::inside("what_the_path_lost_and_nothing_else_is_missing", links::what_the_path_lost_is_missing),
        Test::inside("two_runs_meet_the_same_luck", links::two_runs_meet_the_same_luck),
        Test::inside("an_outage_loses_what_was_sent_in_it", links::an_outage_loses_what_was_sent_in_it),
        Test::inside("a_handover_delays_what_was_sent_in_it", links::a_handover_delays_what_was_sent_in_it),
        Test::inside("a_profile_is_played", links::a_profile_is_played),
        Test::inside("half_duplex_links_take_turns", links::half_duplex_links_take_turns),
        Test::inside("a_new_address_replaces_the_old_one", links::a_new_address_replaces_the_old_one),
        Test::inside("an_address_serves_as_soon_as_it_is_there", links::an_address_serves_as_soon_as_it_is_there),
        Test::inside("a_link_goes_down_and_up", links::a_link_goes_down_and_up),
        Test::inside("marks_and_bit_errors_arrive", links::marks_and_bit_errors_arrive),
        Test::inside("records_account_for_every_packet", links::records_account_for_every_packet),
        Test::inside("a_late_emulator_says_so", links::a_late_emulator_says_so),
        Test::inside("impossible_worlds_are_refused", links::impossible_worlds_are_refused),
        Test::inside("processes_start_together", programs::processes_start_together),
        Test::inside("stages_run_in_order", programs::stages_run_in_order),
        Test::inside("a_failed_set_up_starts_nothing", programs::a_failed_set_up_starts_nothing),
        Test::inside("a_service_that_dies_early_is_reported", programs::a_service_that_dies_early_is_reported),
        Test::inside("who_ignores_sigterm_is_killed", programs::who_ignores_sigterm_is_killed),
        Test::inside("tcp_gets_through", programs::tcp_gets_through),
        Test::inside("the_programs_of_a_plan_run_and_are_told_of", plans::the_programs_of_a_plan_run_and_are_told_of),
        Test::inside("a_program_that_fails_makes_a_run_invalid", plans::a_program_that_fails_makes_a_run_invalid),
        Test::inside(
            "closed_loops_go_on_when_a_command_has_arrived",
            plans::closed_loops_go_on_when_a_command_has_arrived,
        ),
        Test::inside("tls_comes_back_as_the_model_does", plans::tls_comes_back_as_the_model_does),
        Test::inside("aerotp_delivers_where_bits_are_wrong", aerotp::aerotp_delivers_where_bits_are_wrong),
        Test::inside("mptcp_goes_on_over_another_link", plans::mptcp_goes_on_over_another_link),
        Test::inside("captures_say_what_became_of_packets", plans::captures_say_what_became_of_packets),
        Test::outside("exit_codes_come_out", cleanup::exit_codes_come_out),
        Test::outside("nothing_is_left_when_outside_is_killed", cleanup::nothing_is_left_when_outside_is_killed),
        Test::outside("nothing_is_left_when_init_is_killed", cleanup::nothing_is_left_when_init_is_killed),
        Test::outside("nothing_is_left_when_inside_is_killed", cleanup::nothing_is_left_when_inside_is_killed),
        Test::outside("nothing_is_left_after_a_panic", cleanup::nothing_is_left_after_a_panic),
        Test::outside("ctrl_c_ends_it", cleanup::ctrl_c_ends_it),
        Test::outside("an_interrupted_run_is_torn_down", cleanup::an_interrupted_run_is_torn_down),
        Test::outside("the_second_ctrl_c_ends_it", cleanup::the_second_ctrl_c_ends_what_does_not_listen),
        Test::outside("an_ordinary_user_can_run_it", cleanup::an_ordinary_user_can_run_it),
        Test::hidden("victim", cleanup::victim),
        Test::hidden("interruptible", cleanup::interruptible),
        Test::hidden("deaf", cleanup::deaf),
        Test::hidden("exits_with_7", cleanup::exits_with_7),
        Test::hidden("panics", cleanup::panics),
    ]);
}
