"""Calls that models write as text: every known form, texts that stay answers, and hostile text."""

import random

import pytest

from stackmem.providers.calls.reader import find_calls

TOOLS = ("read_file", "write_file", "run_command", "pop_frame")
DEEPSEEK = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>"
WRITE = '{"name": "write_file", "arguments": {"path": "a", "content": "x"}}'
ARGUMENTS = {"path": "a", "content": "x"}
FORMS = {
    "bare": WRITE,
    "parameters": WRITE.replace("arguments", "parameters"),
    "tool and args": WRITE.replace('"name"', '"tool"').replace("arguments", "args"),
    "function": WRITE.replace('"name"', '"function"'),
    "nested as in OpenAI's interface": f'{{"id": "c", "type": "function", "function": {WRITE}}}',
    "tool_calls": f'{{"tool_calls": [{{"function": {WRITE}}}]}}',
    "a list": f"[{WRITE}]",
    "keyed by the tool": '{"write_file": {"path": "a", "content": "x"}}',
    "flat": '{"tool": "write_file", "path": "a", "content": "x"}',
    "prefixed name": WRITE.replace("write_file", "functions.write_file"),
    "prose before": f"I will write the file.\n{WRITE}",
    "prose and a fence": f"Sure:\n\n```json\n{WRITE}\n```",
    "an xml fence": f"```xml\n<tool_call>\n{WRITE}\n</tool_call>\n```",
    "a fence without a language": f"```\n{WRITE}\n```",
    "tool_call": f"<tool_call>\n{WRITE}\n</tool_call>",
    "tool_call that is not closed": f"<tool_call>\n{WRITE}",
    "function_call": f"<function_call> {WRITE} </function_call>",
    "tools": f"<tools>\n{WRITE}\n</tools>",
    "Granite": f"<|tool_call|>[{WRITE}]",
    "Mistral": f"[TOOL_CALLS] [{WRITE}]",
    "Mistral, newer": '[TOOL_CALLS]write_file[ARGS]{"path": "a", "content": "x"}',
    "Llama": f"<|python_tag|>{WRITE.replace('arguments', 'parameters')}<|eom_id|>",
    "Llama, pythonic": '<|python_tag|>write_file(path="a", content="x")',
    "Llama, tagged": '<function=write_file>{"path": "a", "content": "x"}</function>',
    "DeepSeek": DEEPSEEK
    + 'function<｜tool▁sep｜>write_file\n```json\n{"path": "a", "content": "x"}\n```<｜tool▁call▁end｜>',
    "DeepSeek, newer": DEEPSEEK + 'write_file<｜tool▁sep｜>{"path": "a", "content": "x"}<｜tool▁call▁end｜>',
    "Qwen-Coder": "<tool_call>\n<function=write_file>\n<parameter=path>\na\n</parameter>\n<parameter=content>\nx\n"
    "</parameter>\n</function>\n</tool_call>",
    "invoke": '<function_calls><invoke name="write_file"><parameter name="path">a</parameter>'
    '<parameter name="content">x</parameter></invoke></function_calls>',
    "GLM": "<tool_call>write_file\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n<arg_key>content</arg_key>\n"
    "<arg_value>x</arg_value>\n</tool_call>",
    "Kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.write_file:0<|tool_call_argument_begin|>"
    '{"path": "a", "content": "x"}<|tool_call_end|><|tool_calls_section_end|>',
    "Harmony": "<|channel|>commentary to=functions.write_file <|constrain|>json<|message|>"
    '{"path": "a", "content": "x"}',
    "ReAct": 'Thought: I write.\nAction: write_file\nAction Input: {"path": "a", "content": "x"}',
    "tags named as the tool": "<write_file>\n<path>a</path>\n<content>x</content>\n</write_file>",
    "a Python call": 'write_file(path=\'a\', content="""x""")',
    "a Python call in a fence": '```python\nwrite_file(path="a", content="x")\n```',
    "a list of Python calls": '[write_file(path="a", content="x"), read_file(path="a")]',
    "a name and an object": 'write_file {"path": "a", "content": "x"}',
    "a missing brace": WRITE[:-1],
    "a missing brace in a fence": f"```json\n{WRITE[:-1]}\n```",
    "a trailing comma": WRITE.replace('"x"', '"x",'),
    "single quotes": WRITE.replace('"', "'"),
}
_HI = '{"name": "write_file", "arguments": {"path": "a", "content": "print("Hi")"}}'
BROKEN = {
    "quotes in a string": _HI,
    "in a fence": f"```json\n{_HI}\n```",
    "prose before": f"I write the file.\n{_HI}",
    "words behind": f"{_HI}\n\nThis writes the file.",
    "strings that are joined": '{"name": "write_file", "arguments": {"path": "a", "content": "x" + "y"}}',
    "a string in backticks": '{"name": "write_file", "arguments": {"path": "a", "content": `x`}}',
    "cut in a string": '{"name": "write_file", "arguments": {"path": "a", "content": "def f(): return {}; g(',
    "inside of OpenAI's shape": f'{{"type": "function", "function": {_HI}}}',
}
ANSWERS = {
    "plain words": "I would use write_file for that.",
    "data": '{"name": "Ann", "age": 3}',
    "a configuration": 'Put this into the file:\n\n```json\n{"name": "demo", "parameters": {"depth": 3}}\n```',
    "quoted in a sentence": f"A call looks like {WRITE} in this model's output, so parse it as JSON.",
    "quoted in a fence with words behind it": f"For example:\n\n```json\n{WRITE}\n```\n\nIt names the tool first.",
    "inline code": 'You can call `write_file(path="a", content="x")` yourself. Shall I?',
    "a thought": f"<think>{WRITE}</think>No file is needed.",
    "tags in a sentence": "Qwen wraps its calls in <tool_call> tags.",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("answers", [False, True])
def test_a_call_is_found_in_every_form_that_models_use(form: str, answers: bool):
    found = find_calls(FORMS[form], TOOLS, answers=answers)
    if answers and form == "a list of Python calls":
        assert found is not None
    assert found is not None
    assert found.calls[0].name == "write_file"
    assert found.calls[0].arguments == ARGUMENTS


@pytest.mark.parametrize("answer", ANSWERS)
def test_where_an_answer_is_accepted_text_that_only_mentions_a_call_stays_an_answer(answer: str):
    assert find_calls(ANSWERS[answer], TOOLS, answers=True) is None


@pytest.mark.parametrize("answer", ["plain words", "data", "inline code", "a thought", "tags in a sentence"])
def test_where_only_a_call_is_accepted_words_and_data_are_still_no_call(answer: str):
    assert find_calls(ANSWERS[answer], TOOLS, answers=False) is None


def test_words_behind_a_call_do_not_hide_it_where_only_a_call_is_accepted():
    found = find_calls(f"```json\n{WRITE}\n```\nThis writes the file.", TOOLS, answers=False)
    assert found is not None
    assert found.calls[0].arguments == ARGUMENTS


@pytest.mark.parametrize("behind", ["This writes the file.", '{"name": "read_file", "arguments": {"path": "b'])
def test_a_reply_that_begins_with_a_call_makes_it_whatever_follows(behind: str):
    for text in (f"{WRITE}\n{behind}", f"```json\n{WRITE}\n```\n\n{behind}"):
        found = find_calls(text, TOOLS, answers=True)
        assert found is not None
        assert (found.calls[0].name, found.calls[0].arguments) == ("write_file", ARGUMENTS)


def test_several_calls_keep_their_order_and_what_is_said_before_them_stays():
    found = find_calls(f"First I write.\n{WRITE}\n{WRITE.replace('write', 'read')}", TOOLS, answers=False)
    assert found is not None
    assert [call.name for call in found.calls] == ["write_file", "read_file"]
    assert found.text == "First I write."


SCHEMA = '{"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}'


def test_copies_of_schemas_before_a_call_are_dropped():
    """Qwen2.5-Coder 1.5B sometimes lists its tools before the call."""
    copies = "\n".join(f'{{"name": "{name}", "arguments": {SCHEMA}}}' for name in ("read_file", "write_file"))
    found = find_calls(f"{copies}\n{WRITE}", TOOLS, answers=False)
    assert found is not None
    assert [(call.name, call.arguments) for call in found.calls] == [("write_file", ARGUMENTS)]
    assert found.schemas == 2
    alone = find_calls(copies, TOOLS, answers=False)
    assert alone is not None
    assert [call.name for call in alone.calls] == ["read_file", "write_file"]
    assert alone.schemas == 0


def test_a_well_known_tool_of_another_agent_is_a_call_and_an_unknown_name_is_not_where_answers_are_accepted():
    foreign = '{"name": "bash", "arguments": {"command": "ls"}}'
    assert find_calls(foreign, TOOLS, answers=True).calls[0].name == "bash"
    unknown = '{"name": "paint", "arguments": {"color": "red"}}'
    assert find_calls(unknown, TOOLS, answers=True) is None
    assert find_calls(unknown, TOOLS, answers=False).calls[0].name == "paint"


@pytest.mark.parametrize(
    "cut", ['{"name": "write_file", "arguments": {"path": "a", "content": "def f(', "<tool_call>{"]
)
def test_a_call_that_is_cut_inside_a_string_is_never_completed(cut: str):
    found = find_calls(cut, TOOLS, answers=False)
    assert found is None or found.calls[0].malformed is not None


@pytest.mark.parametrize("answers", [False, True])
@pytest.mark.parametrize("form", BROKEN)
def test_json_that_means_a_call_and_cannot_be_read_is_a_malformed_call(form: str, answers: bool):
    found = find_calls(BROKEN[form], TOOLS, answers=answers)
    assert found is not None
    assert (found.calls[0].name, found.calls[0].arguments) == ("write_file", None)
    assert found.calls[0].malformed is not None
    assert '"' not in found.text


def test_an_answer_that_quotes_a_call_which_cannot_be_read_stays_an_answer():
    quoted = f"Small models write calls like this one:\n\n{BROKEN['in a fence']}\n\nIts quotes are not escaped."
    assert find_calls(quoted, TOOLS, answers=True) is None
    assert find_calls(f"I saw {BROKEN['quotes in a string']} in a log.", TOOLS, answers=True) is None


def test_no_tools_no_calls():
    assert find_calls(WRITE, (), answers=False) is None


@pytest.mark.parametrize("text", [
    "{" * 100_000, '{"name": ' * 20_000, "write_file(" * 20_000, "<tool_call>" * 20_000, '{"a": [' * 5_000,
    'write_file {"path": ' * 5_000, "<function=write_file>" * 10_000, "[" * 50_000 + "write_file(",
    "```json\n" * 20_000,
    "write_file\n" * 30_000 + "{", "-" * 190 + "write_file {", "`" * 3_000 + "x", WRITE + "```" * 2_000 + "x",
    "write_file" + "=" * 50_000, '{"name": "write_file", "arguments": ' + "[" * 50_000, "<think>" * 30_000 + WRITE,
])  # fmt: skip
def test_hostile_text_ends_without_an_error(text: str):
    find_calls(text, TOOLS, answers=False)
    find_calls(text, TOOLS, answers=True)


def test_no_mutation_of_a_call_breaks_the_reader():
    pick = random.Random(7)
    texts = list(FORMS.values())
    for _ in range(3_000):
        one, other = pick.choice(texts), pick.choice(texts)
        place = pick.randrange(len(one))
        text = (
            one[:place]
            + pick.choice(["", "{", '"', "}", "\\", "\n", "<", "`", other[pick.randrange(len(other)) :]])
            + one[place + pick.randrange(3) :]
        )
        found = find_calls(text, TOOLS, answers=pick.random() < 0.5)
        if found is not None:
            assert all(call.malformed is not None or isinstance(call.arguments, dict | str) for call in found.calls)
