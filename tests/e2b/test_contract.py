# SPDX-License-Identifier: Apache-2.0
"""What every provider must do, over E2B's sandboxes. What differs is in docs/providers.md."""
from other import TESTS, load

TEMPLATE = "the template decides that, not we"
UNHEARD = "E2B sends what is printed only to those who listen"
SHELLS = "E2B's protocol knows no shell that lives on between commands"
DIFFERS = {
    "test_bash_keeps_its_state": SHELLS,
    "test_a_shell_outlives_the_server": SHELLS,
    "test_what_a_command_changes_stays": SHELLS,
    "test_streams_and_codes_are_each_commands_own": SHELLS,
    "test_a_timeout_ends_the_command_and_keeps_the_shell": SHELLS,
    "test_a_shell_that_ends_is_opened_again_with_what_it_knew": SHELLS,
    "test_a_closed_shell_takes_what_it_started_along": SHELLS,
    "test_who_and_where_a_command_is": TEMPLATE,
    "test_too_many_processes_are_refused_and_the_rest_goes_on": TEMPLATE,
    "test_too_much_memory_ends_the_command_alone": TEMPLATE,
    "test_the_root_is_read_only_and_there_is_no_way_up": TEMPLATE,
    "test_there_is_no_network": "E2B is told to give none; the server of the tests has no machines",
    "test_what_a_command_left_running_still_prints":
        "E2B tells of an end when nobody has the output open any more",
    "test_what_is_printed_while_no_server_is_there_is_not_lost": UNHEARD,
    "test_a_torrent_of_output_survives_a_server_that_dies_in_it": UNHEARD,
    "test_a_stop_ends_what_runs_and_keeps_the_files":
        "`threadbox stop` leaves them to the next server, or to the end of their time",
}

for path in sorted((TESTS / "contract").glob("test_*.py")):
    load(f"contract/{path.name}", globals(), DIFFERS)
