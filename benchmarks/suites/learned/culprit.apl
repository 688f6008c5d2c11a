# Finds the commit that broke a test, with git bisect, and writes it to CULPRIT.md.
inputs:
- {name: good, description: A commit or tag at which the test passes.}
- {name: test, description: The name of the test as unittest takes it.}
main:
- {name: Start, tool: shell, command: "git bisect start HEAD {{ good | quote }} | tail -1"}
- {name: Search, tool: shell, command: "git bisect run python3 -m unittest {{ test | quote }} 2>&1 | grep 'first bad'"}
- {name: Write, tool: shell, command: "git show -s --format='%h %s' refs/bisect/bad > CULPRIT.md; git bisect reset -q; cat CULPRIT.md", register: commit}
