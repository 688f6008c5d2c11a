# Asks an agent for a move until it gives one that is allowed, three times at most.
tool_definition:
  name: make_move
  description: Lets an agent play one mark.
  inputs:
    - {name: board, description: "Nine texts, row by row; a blank is a free cell.", required: true}
    - {name: player, description: X or O., required: true}
  outputs:
    - {name: new_board, description: The board with the mark on it.}
    - {name: cell, description: "Where it stands, from 0."}
  run:
    - name: Nothing is played yet
      tool: set_vars
      vars:
        legal: false
        tries: 0
        free: "{% for mark in board %}{% if mark == ' ' %}{{loop.index0}} {% endif %}{% endfor %}"
    - name: Until it is allowed
      while: "not legal and tries < 3"
      run:
        - name: Choose a cell
          tool: agent_native
          prompt: >-
            You play {{player}} in tic-tac-toe. Cells are numbered from 0, row by row. Win if you can, else keep the
            other from winning. Give the number of a free cell.
          with_inputs: {board: "{{board}}", free_cells: "{{free}}"}
          outputs: [cell]
          register: choice
        - name: See whether it may
          tool: set_vars
          vars:
            tries: "{{ tries + 1 }}"
            legal: "{{ choice.cell in range(9) and board[choice.cell] == ' ' }}"
    - name: Refuse a player who cannot
      tool: shell
      if: not legal
      command: echo "{{player}} chose no free cell in {{tries}} tries" >&2; false
    - name: Set the mark
      tool: set_vars
      vars:
        cell: "{{choice.cell}}"
        new_board: "{{ board[:cell] + [player] + board[cell + 1:] }}"
