# Checks every condition of a release, also after a failure, and reports those that fail.
#
#   stackmem run examples/apl/release-checklist --input project=/src/mine --workspace /src/mine --input version=2.1.0
#
# Every point is a command, and none can be skipped. Only the release notes are judged by a model, and only once all else
# holds. The program ends with exit code 1 where a point fails, so that a pipeline stops.
constants:
  CHECKS:
    - {what: the version file says so, command: test "$(cat VERSION)" = "$RELEASE"}
    - {what: the changelog has a section for it, command: grep -q "^## $RELEASE" CHANGELOG.md}
    - {what: no work is left to do in the code, command: "! grep -rnE 'FIXME|XXX' --include=*.py ."}
    - {what: the tests pass, command: PYTHONPATH=. python3 -B tests/test_total.py}

inputs:
  - name: version
    description: The version that is to be released, such as 2.1.0.
    default: "2.1.0"
  - name: project
    description: The project's folder.
    default: "{{module_path}}/project"

setup:
  - name: The version is one
    tool: shell
    command: echo "$RELEASE" | grep -qxE '[0-9]+\.[0-9]+\.[0-9]+'
    env: {RELEASE: "{{version}}"}
  - name: Nothing has failed yet
    tool: set_vars
    vars: {failed: [], done: []}

main:
  foreach:
    in: CHECKS
    loop_var: check
    directives: [FORCE_FULL_LOOP_EXECUTION]
  run:
    - name: Check the point
      tool: shell
      command: "{{check.command}}"
      working_directory: "{{project}}"
      env: {RELEASE: "{{version}}"}
      timeout_seconds: 600
      register: outcome
    - name: Note that it holds
      tool: append_to_list
      if: outcome.exit_code == 0
      list: done
      items: "{{check.what}}"
    - name: Note that it does not
      tool: append_to_list
      if: outcome.exit_code != 0
      list: failed
      items: "{{check.what}}"

finalize:
  - name: Say how it stands
    tool: log
    message: |-
      {% for point in done %}[x] {{point}}
      {% endfor %}{% for point in failed %}[ ] {{point}}
      {% endfor %}{{ done | length }} of {{ CHECKS | length }} points hold.
  - name: Stop where a point fails
    tool: shell
    if: failed | length > 0
    command: "false"
  - name: Read the changelog
    tool: read_file
    path: "{{project}}/CHANGELOG.md"
    register: changelog
  - name: Judge the release notes
    tool: agent_native
    prompt: >-
      Say whether the changelog's section of this version tells a user what changes for them and what they must do. Judge
      that section alone.
    with_inputs:
      version: "{{version}}"
      changelog: "{{changelog}}"
    outputs: [good, advice]
    register: notes
  - name: Decide
    switch: notes.good
    cases:
      true:
        - name: Go ahead
          tool: log
          message: "Ready: tag v{{version}}."
    default:
      - name: Not yet
        tool: log
        message: "Better notes first: {{notes.advice}}"
