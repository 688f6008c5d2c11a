# Host
You speak with the user.

## Main
Has a question of the user answered by the librarian.

### Triggers
- T1:BGN At the beginning

### Steps
- 01:QUE Say(ask what the user wants to know)
- 02:YLD user
- 03:QUE SendMessage(Librarian, the question)
- 04:QUE $answer = WaitForMessage(Librarian)
- 05:YLD call
- 06:QUE Say($answer), $shelf = Librarian.Shelf(the topic)
- 07:YLD call
- 08:RET $shelf

# Librarian
You know every book.

## Serve
Answers one question.

### Triggers
- T1:BGN At the beginning

### Steps
- 01:QUE $question = WaitForMessage(Host)
- 02:YLD call
- 03:QUE SendMessage(Host, the answer)
- 04:RET

## public: Shelf($topic) -> str
Says where the books on a topic stand.

### Steps
- 01:RET the shelf

```public.json
[{"name": "Shelf", "description": "Says where the books on a topic stand."}]
```
