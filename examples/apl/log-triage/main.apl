# Reads every log in a folder, lets an agent judge suspicious lines, and writes a ranked report.
#
#   stackmem run examples/apl/log-triage --input logs=/var/log/myservice --workspace DIR --model MODEL
#
# Searching is a command and costs nothing. A model is asked once for each file that holds trouble, and once to rank.
inputs:
  - name: logs
    description: The folder that holds the logs.
    default: "{{module_path}}/logs"
  - name: trouble
    description: What a line of trouble looks like, as an extended regular expression.
    default: "ERROR|FATAL|panic|Traceback"
  - name: top_n
    description: How many findings the report tells.
    default: 3
  - name: report
    description: The file that is written.
    default: "{{module_path}}/report.md"

setup:
  - name: Find the logs
    tool: shell
    command: find {{ logs | quote }} -type f -name '*.log' | sort
    register: listing
  - name: One path a line
    tool: split
    from: listing
    register: files
  - name: Begin with no findings
    tool: initialize_list
    list_name: findings

main:
  foreach:
    in: files
    loop_var: file
    directives: [FORCE_FULL_LOOP_EXECUTION]
  run:
    - name: Pick the lines of trouble
      tool: shell
      # grep ends with 1 where nothing matches, which is good news; any other code halts.
      command: grep -nE -m 200 -e {{ trouble | quote }} -- {{ file | quote }} || test $? -eq 1
      register: lines
    - name: Judge the trouble
      tool: agent_native
      if: lines.stdout != ''
      prompt: >-
        These lines of a log look like trouble. Say what went wrong in one sentence that an engineer on call can act on,
        and how bad it is from 1 (noise) to 5 (people are hurt). The file itself may be read for what stands around them.
      with_inputs:
        file: "{{file}}"
        lines: "{{lines}}"
      using:
        - A fault that repeats is one fault.
        - A retry that succeeded is noise.
      outputs: [what, severity]
      register: verdict
    - name: Keep the verdict
      tool: append_to_list
      if: lines.stdout != ''
      list: findings
      items:
        file: "{{file}}"
        what: "{{verdict.what}}"
        severity: "{{verdict.severity}}"

finalize:
  - name: Put the worst first
    tool: rank_items
    if: findings | length > 0
    from: findings
    by: how urgently somebody must act, severity first
    top_n: "{{top_n}}"
    register: ranked
  - name: Write the report
    tool: write_file
    to_file: "{{report}}"
    content_template: |
      # What the logs tell

      {{ files | length }} logs, {{ findings | length }} with trouble.
      {% for finding in ranked | default([]) %}
      {{loop.index}}. **{{finding.what}}** (severity {{finding.severity}}, `{{finding.file}}`)
      {%- endfor %}
  - name: Say where it is
    tool: log
    message: "{{ findings | length }} of {{ files | length }} logs tell of trouble: {{report}}"
