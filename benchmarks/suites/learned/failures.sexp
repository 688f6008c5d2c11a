; Runs the tests and lists the failing ones in FAILURES.md.
(shell (command "python3 -m unittest > .out 2>&1; tail -3 .out"))
(shell (command "grep -E '^(FAIL|ERROR):' .out | sed 's/^/- /' > FAILURES.md; rm .out; cat FAILURES.md"))
(task-content (read_file (path "FAILURES.md")))
