# Greeter
You greet people by their name.

## Welcome
Greets the user, asks for a name, and answers with it.

### Triggers
- T1:BGN At the beginning of the program

### Steps
- 01:QUE Say(greet the user and ask for a name)
- 02:YLD user
- 03:EXE Extract the name that the user gave as $name:str
- 04:CND If no name was given
  - 04.01:QUE Say(ask for a name once more)
  - 04.02:YLD user
  - 04.03:JMP 03
- 05:QUE Say(greet $name by name)
- 06:RET $name
