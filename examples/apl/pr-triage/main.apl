# Reviews each open branch of a git repository like a pull request, and ranks them.
#
#   stackmem run examples/apl/pr-triage --input repository=/src/mine --workspace /src/mine --model MODEL
#
# Without a repository it makes a small one of its own. What git knows (who, how much, does it merge) comes from git; a
# model is asked what a change does and how risky it is, and for the order.
inputs:
  - name: repository
    description: The repository's folder; it is made where there is none.
    default: "{{module_path}}/repository"
  - name: target
    description: The branch that all others want to become part of.
    default: main
  - name: report
    description: The file that is written.
    default: "{{module_path}}/triage.md"

setup:
  - name: Make a repository where there is none
    tool: shell
    command: test -d {{ repository | quote }}/.git || sh {{ module_path | quote }}/make_repository.sh {{ repository | quote }}
  - name: List the branches
    tool: shell
    command: git for-each-ref --format='%(refname:short)' --no-merged {{ target | quote }} refs/heads
    working_directory: "{{repository}}"
    register: listing
  - name: One branch a line
    tool: split
    from: listing
    register: branches
  - name: Begin with no reviews
    tool: initialize_list
    list_name: reviews

main:
  foreach:
    in: branches
    loop_var: branch
    directives: [FORCE_FULL_LOOP_EXECUTION]
  run:
    - name: Ask git about the branch
      tool: shell
      command: |
        git log -1 --format='{"author": "%an", "subject": "%f"' "$BRANCH" | tr -d '\n'
        git diff --shortstat "$TARGET...$BRANCH" | awk '{printf ", \"files\": %d, \"lines\": %d}\n", $1, $4 + $6}'
      working_directory: "{{repository}}"
      env: {BRANCH: "{{branch}}", TARGET: "{{target}}"}
      register: facts
      as_type: json
    - name: Try the merge
      tool: shell
      command: git merge-tree --write-tree {{ target | quote }} {{ branch | quote }} > /dev/null
      working_directory: "{{repository}}"
      register: merge
    - name: Take the diff
      tool: shell
      command: git diff {{ target | quote }}...{{ branch | quote }}
      working_directory: "{{repository}}"
      register: diff
    - name: Judge the change
      tool: analyze_pr_diff
      diff_content: "{{diff}}"
      using:
        - Say in one sentence what changes for a user, as `does`.
        - Give the risk from 1 to 5 as `risk`, and the reason as `why`.
      register: judged
    - name: Keep the review
      tool: append_to_list
      list: reviews
      items:
        branch: "{{branch}}"
        author: "{{facts.author}}"
        lines: "{{facts.lines}}"
        merges: "{{ merge.exit_code == 0 }}"
        does: "{{judged.does}}"
        risk: "{{judged.risk}}"
        why: "{{judged.why}}"

finalize:
  - name: Put them in order
    tool: rank_items
    from: reviews
    by: which a maintainer should review first; what merges and is quickly read before what is not
    register: ranked
  - name: Write the triage
    tool: write_file
    to_file: "{{report}}"
    content_template: |
      # Review first
      {% for review in ranked %}
      {{loop.index}}. `{{review.branch}}` by {{review.author}}, {{review.lines}} lines
         {{review.does}} Risk {{review.risk}}: {{review.why}}
         {{ "Merges cleanly." if review.merges else "**Does not merge.**" }}
      {% endfor %}
  - name: Say which is first
    tool: log
    message: "{{ ranked | length }} branches; first {{ ranked.0.branch }}"
