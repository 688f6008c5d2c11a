#!/bin/sh
# Makes a small repository with three branches in the folder that is named; one of them does not merge.
set -eu
export GIT_AUTHOR_NAME=Ada GIT_AUTHOR_EMAIL=ada@example.org GIT_COMMITTER_NAME=Ada GIT_COMMITTER_EMAIL=ada@example.org
export GIT_AUTHOR_DATE=2026-11-20T08:00:00Z GIT_COMMITTER_DATE=2026-11-20T08:00:00Z
git init --quiet --initial-branch=main "$1"
cd "$1"
printf 'def greet(name):\n    return "Hello " + name\n' > greet.py
git add . && git commit --quiet -m 'Greet people'
git switch --quiet -c fix-typo
printf '# Greetings\n\nA small libary.\n' > README.md && sed -i 's/libary/library/' README.md
git add . && git commit --quiet -m 'Write a readme'
git switch --quiet -c polite main
printf 'def greet(name):\n    return "Good day, " + name\n' > greet.py
GIT_AUTHOR_NAME=Grace git commit --quiet -am 'Greet politely'
git switch --quiet -c shell-out main
printf 'import os\n\n\ndef greet(name):\n    os.system("say " + name)\n    return "Hello " + name\n' > greet.py
GIT_AUTHOR_NAME=Mallory git commit --quiet -am 'Say it aloud'
git switch --quiet main
printf 'def greet(name):\n    return f"Hello {name}"\n' > greet.py
git commit --quiet -am 'Use a format string'
