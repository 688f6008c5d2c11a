# No judgement is needed to see who has three in a row, so none is asked for.
tool_definition:
  name: check_winner
  description: Sees whether somebody has won.
  inputs:
    - {name: board, description: "Nine texts, row by row.", required: true}
  outputs:
    - {name: winner, description: "X, O, or nothing."}
  run:
    - name: Look at the eight lines
      tool: set_vars
      vars:
        lines: [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]]
        full: >-
          {%- for line in lines -%}
          {%- if board[line[0]] != ' ' and board[line[0]] == board[line[1]] == board[line[2]] -%}
          {{ board[line[0]] }}
          {%- endif -%}
          {%- endfor -%}
        winner: "{{ full[:1] }}"
