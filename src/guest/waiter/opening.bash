# Read by a bash that was started ahead, by BASH_ENV: its builtin waits for a command, and is gone
# before that runs. It is named as $0 is, because the last word here is what $_ is in the command.
enable -f /dev/fd/3 bash && bash && enable -d bash || exit 126
