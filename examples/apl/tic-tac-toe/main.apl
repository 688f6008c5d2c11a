# Two agents play tic-tac-toe. The program keeps the board, the turns and the rules; an agent only ever says where it plays.
#
#   stackmem run examples/apl/tic-tac-toe --model MODEL
#
# A model that played interpreter would sooner or later misplace a mark, skip a turn, or declare a winner who is none.
local_tool_paths: [./tools/]

setup:
  - name: Set up the board
    tool: set_vars
    vars:
      board: [" ", " ", " ", " ", " ", " ", " ", " ", " "]
      player: X
      turn: 1
      winner: ""
      over: false

main:
  while: "over == false and turn <= 9"
  run:
    - name: Play a turn
      tool: make_move
      with_inputs: {board: "{{board}}", player: "{{player}}"}
      register: move
    - name: See how it stands
      tool: check_winner
      with_inputs: {board: "{{move.new_board}}"}
      register: state
    - name: Show the board
      tool: log
      message: |-
        {{player}} plays {{move.cell}}
        {{ move.new_board[0:3] | join('|') }}
        {{ move.new_board[3:6] | join('|') }}
        {{ move.new_board[6:9] | join('|') }}
    - name: Hand over
      tool: set_vars
      vars:
        board: "{{move.new_board}}"
        winner: "{{state.winner}}"
        over: "{{state.winner != ''}}"
        player: "{{'O' if player == 'X' else 'X'}}"
        turn: "{{ turn + 1 }}"

finalize:
  - name: Name the winner
    tool: log
    message: "{{ (winner ~ ' wins') if winner else 'A draw' }} after {{ turn - 1 }} turns."
