# Counter
You count words.

```python
@playbook
async def count_long(text: str, least: int = 6) -> dict:
    """Counts the words of a text that have at least so many letters, and has each judged."""
    found = [word for word in text.split() if len(word) >= least]
    print(f"{len(found)} long words")
    kinds = {}
    for word in found:
        kinds[word] = await Judge(word)
    return kinds
```

## Main($text)
Has the long words of a text counted and judged.

### Steps
- 01:QUE $kinds:dict = count_long($text)
- 02:YLD call
- 03:QUE Say(what kinds of words there are)
- 04:RET $kinds

## Judge($word) -> str
Says what kind of word it is.

### Steps
- 01:RET noun, verb or other
