"""The part of a prompt that is marked for the cache is always a prefix of the next prompt, byte for byte.

There are three exceptions, each recorded in the trace: due results (only if that saves at least what must be written
again), a summary of the conversation, and a prompt that was too long.
"""

import itertools
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from stackmem.core.log import Log
from stackmem.core.messages import View
from stackmem.core.program_facts import StepEntered
from stackmem.core.requests import AskUser, InvokeTool
from stackmem.languages.language import Launch
from stackmem.languages.loop_agent.compaction import remove
from stackmem.languages.loop_agent.conversation import AgentConversation
from stackmem.languages.loop_agent.language import start
from stackmem.languages.loop_agent.tree import Expiry
from stackmem.languages.operations import Complete, Completion, EnterFrame, LeaveFrame, ToolAnswer
from stackmem.review.measure.cache import CacheRequest, simulate
from tests.languages.in_memory import run_in_memory

from .stage import OWN, PATH, actions, ask, change, done, for_each, step, while_

ACTIONS = """
  - {name: Keep, tool: fetch}
  - {name: Brief, tool: poll, expires: {turns: 0}}
  - {name: Later, tool: poll, expires: {turns: 2}}
  - {name: Short, tool: poll, expires: {turns: 1, mode: compact, chars: 40}}
  - {name: Summed, tool: poll, expires: {turns: 1, mode: compact, by: summary}}
"""
AGENT = f"""
name: lead
prompt: Do it.
payload: {{items: [1, 2, 3], n: 0}}
actions: {ACTIONS}
sub_agents:
  - name: helper
    messages: %(messages)s
    inline: {{name: helper, prompt: Help, prompt_params: {{includeCommandDocs: false}}, actions: [
      {{name: Later, tool: poll, expires: {{turns: 1}}}},
      {{name: Short, tool: poll, expires: {{turns: 0, mode: compact}}}}]}}
  - {{name: adviser, inline: {{name: adviser, prompt: Advise.}}}}
limits: {{context_tokens: %(context)s}}
loop_result_turns: %(turns)s
prompt_params: %(params)s
%(override)s
"""
FORM = {"responseForm": {"title": "New", "questions": [{"id": "n", "label": "How many?", "type": {"type": "number"}}]}}
PARAMS = ["includePayloadInPrompt", "includeForEachDocs", "includeMessageExpansionDocs", "crushActionResults"]


class Sent(Struct):
    """A prompt, and the reasons why the conversation changed since the previous one."""

    prompt: Complete
    reasons: tuple[str, ...]


class Watched:
    """Plays decisions, then ``done`` until the end, with results of the given sizes.

    Attributes:
        conversations: The prompts of each request to an agent, in order.
        asked: All prompts, including those for summaries.
    """

    def __init__(self, decisions, agent, sizes):
        self.conversations, self.asked = [[]], []
        self._left = itertools.chain(decisions, itertools.repeat(done()))
        self._sizes = itertools.cycle(sizes)
        self._open, self._beside, self._reasons = [self.conversations[0]], {}, []
        launch = Launch(PATH, agent, {}, "/w", "/w", {}, OWN)
        run_in_memory(self._framed(start(launch)), self._answer)

    def _framed(self, program):
        """Run the same program, recording a conversation per frame and the reasons for changes."""
        given_ = None
        while True:
            try:
                effect = program.send(given_)
            except StopIteration as stop:
                return stop.value
            if isinstance(effect, EnterFrame):
                self._open.append(self._new())
            if isinstance(effect, LeaveFrame):
                self._open.pop()
            if isinstance(effect, StepEntered) and "left the prompt or became shorter" in effect.call:
                self._reasons.append("due")
            given_ = yield effect

    def _answer(self, effect):
        match effect:
            case Complete():
                self.asked.append(effect)
                return self._reply(effect)
            case InvokeTool():
                return ToolAnswer("r" * next(self._sizes))
            case AskUser():
                return "4"
        raise AssertionError(effect)

    def _reply(self, effect):
        if effect.name == "summary":
            self._reasons.append("summary")
            return Completion("in short " * 9)
        self._conversation(effect).append(Sent(effect, tuple(self._reasons)))
        reply = next(self._left)
        self._reasons = ["window"] if isinstance(reply, Completion) else []
        if isinstance(reply, Completion):
            return reply
        return Completion(reply if isinstance(reply, str) else json.dumps(reply))

    def _conversation(self, effect):
        """Return the running frame's conversation.

        Parallel agents have no frames; each of their conversations is identified by its request.
        """
        if effect.name != "adviser" or len(self._open) > 1:
            return self._open[-1]
        request = effect.messages[0].parts[0].text
        if len(effect.messages) == 1:
            self._beside[request] = self._new()
        return self._beside[request]

    def _new(self):
        self.conversations.append([])
        return self.conversations[-1]


def marked(prompt):
    """Return the texts that a prompt marks for the cache, without the system prompt."""
    point = prompt.breakpoints[-1]
    parts = [(message.role, part.text) for message in prompt.messages[: point.message] for part in message.parts]
    last = prompt.messages[point.message]
    return parts + [(last.role, part.text) for part in last.parts[: point.part + 1]]


def whole_chars(text):
    """Return the original length of a result with a mark, or the length of one without a mark."""
    mark = re.search(r"\[(?:Removed:|Compacted: showing first [\d,]+ of|AI Summary of) ([\d,]+) char", text)
    return int(mark[1].replace(",", "")) if mark else len(text)


def check(conversation):
    for one, two in itertools.pairwise(conversation):
        assert one.prompt.system == two.prompt.system
        before, after = marked(one.prompt), marked(two.prompt)
        same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
        if same == len(before):
            continue
        assert two.reasons, (before[same], after[same : same + 1])
        assert after[0] == before[0] or "window" in two.reasons
        if set(two.reasons) == {"due"}:
            changed, new = after[same : len(before)], after[len(before) :]
            saved = sum(len(text) for _, text in before[same:]) - sum(len(text) for _, text in changed)
            saved += sum(whole_chars(text) - len(text) for _, text in new)
            assert saved >= sum(len(text) for _, text in after[same + 1 :])
            assert [role for role, _ in changed] == [role for role, _ in before[same:]]
        elif set(two.reasons) <= {"due", "summary"} and len(after) < len(before):
            assert after[1][1].startswith("[Summary of the conversation up to here]")
    for sent in conversation:
        tail = [part.text for message in sent.prompt.messages for part in message.parts][len(marked(sent.prompt)) :]
        assert len(tail) <= 1
        kept = "".join(text for _, text in marked(sent.prompt))
        assert "## Current State" not in kept
        assert "## Loop Completed" not in kept
        assert len(sent.prompt.breakpoints) <= 4
        assert sent.prompt.messages[-1].role == "user"


DECISION = st.one_of(
    *(st.just(actions(name)) for name in ("keep", "brief", "later", "short", "summed")),
    st.just(actions("brief", "keep", "later", "short")),
    st.builds(lambda number: step("Retry", messageIndex=number), st.integers(1, 9)),
    st.sampled_from([
        step("Retry"), change(updateElements={"n": 1}), change(newElements={"n": "new"}), "no", "",
        {"automaticCommands": [{"type": "notification", "message": "x"}]}, {"message": "Which?"}, FORM,
    ]),
    st.sampled_from([
        for_each(action={"name": "Keep"}), for_each(executionMode="parallel", action={"name": "Later"}),
        while_("index < 2", action={"name": "Later"}), ask("helper"), ask("adviser"), ask("helper", "again"),
        step("ForEach", forEach={"collectionPath": "items", "subAgent": {"name": "helper", "message": "{{item}}"}}),
        step("ForEach", forEach={"collectionPath": "items", "executionMode": "parallel", "subAgent": {
            "name": "adviser", "message": "{{item}}"}}),
        Completion("", failed="window"),
    ]),
)  # fmt: skip
DEFINITION = st.fixed_dictionaries({
    "messages": st.sampled_from(["none", "all", "latest", "bookend"]),
    "context": st.sampled_from([2_500, 6_000, 100_000]),
    "turns": st.integers(0, 3),
    "params": st.dictionaries(st.sampled_from(PARAMS), st.booleans()).map(json.dumps),
    "override": st.sampled_from(["", "", "expires: {turns: 1}", "expires: {turns: 0, mode: compact, chars: 10}"]),
})  # fmt: skip
SIZES = st.lists(st.sampled_from([0, 30, 300, 2_000, 9_000]), min_size=1, max_size=5)


@settings(max_examples=40, deadline=None)
@given(st.lists(DECISION, min_size=8, max_size=40), DEFINITION, SIZES)
def test_what_a_prompt_marks_for_the_cache_begins_the_next(decisions, definition, sizes):
    agent = AGENT % definition
    found = Watched(decisions, agent, sizes)
    for conversation in found.conversations:
        check(conversation)
    assert Watched(decisions, agent, sizes).asked == found.asked


def test_the_mark_for_the_cache_stands_before_what_changes_next_and_not_before_what_was_deferred():
    conversation = AgentConversation("task")
    for turn, size in ((1, 100), (2, 4_000), (3, 3_000)):
        conversation.reply("{}", turn)
        conversation.result("action-result", "r" * size, turn, Expiry(1))
        conversation.tell("n" * 1_000, turn)
    assert [(point.message, point.part) for point in conversation.prompt("").breakpoints[2:]] == [(1, 0), (6, 1)]
    conversation.entries[5] = remove(conversation.entries[5])
    assert [(point.message, point.part) for point in conversation.prompt("").breakpoints[2:]] == [(5, 0), (6, 1)]


def sizes_of(number):
    return 300 + number * 7_919 % 2_500


@pytest.mark.parametrize(
    "expires", ["turns: 3, mode: none", "turns: 3", "turns: 10", "turns: 3, mode: compact, chars: 200"]
)
def test_of_two_hundred_turns_nine_tenths_are_read_from_the_cache(expires):
    agent = (
        f"name: a\nprompt: {'p ' * 3_000}\nlimits: {{context_tokens: 400000}}\n"
        f"actions: [{{name: Keep, tool: fetch}}, {{name: Poll, tool: poll, expires: {{{expires}}}}}]\n"
    )
    decisions = [actions("poll" if turn % 4 else "keep") for turn in range(199)]
    (prompts,) = Watched(decisions, agent, map(sizes_of, itertools.count())).conversations
    requests = (
        CacheRequest(10.0 * turn, View(sent.prompt.system, (), Log(sent.prompt.messages), sent.prompt.breakpoints))
        for turn, sent in enumerate(prompts)
    )
    found = list(simulate(requests, 2_048, lambda block: len(block.content.text) // 4))
    assert len(found) == 200
    read = sum(each.read for each in found)
    assert read >= 0.9 * (read + sum(each.written_5m + each.written_1h + each.uncached for each in found))
