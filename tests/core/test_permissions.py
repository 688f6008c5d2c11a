"""Permission rules: which rule decides, what patterns match, and that hostile spellings do not pass."""

import time

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from stackmem.core.conversation.permissions import listing, matches, rule_for
from stackmem.core.conversation.session import SESSION_TASK
from stackmem.core.facts import CallRejected, RunStarted
from stackmem.core.machine import advance, evolve, fold
from stackmem.core.person_facts import PermissionRule, PersonDecided, PersonSaid, SessionRules
from stackmem.core.requests import AskPermission, UseTool
from stackmem.core.state import State
from stackmem.core.tools import ReadFile, RunCommand, WriteFile
from stackmem.memory import open_strategy
from tests.build import call, do, push, started


def rule(effect, pattern, tool="run_command") -> PermissionRule:
    return PermissionRule(effect, tool, pattern, "the user's permissions.toml")


def begun(*rules, approve=None, **more) -> RunStarted:
    session = UNSET if approve is None else SessionRules("flat", approve)
    task = SESSION_TASK if approve is not None else "Do it."
    return replace(started("full", task=task, session=session, **more), permissions=rules or UNSET)


def decision(made, *rules, **more) -> str:
    found = rule_for(fold([begun(*rules, **more)]), made)
    return "" if found is None else found.effect


def upcoming(start, *facts):
    """Return what follows after the facts in a run, with the state."""
    state = evolve(State(), start)
    for fact in facts:
        state = evolve(state, fact)
    return advance(state, open_strategy(start.strategy)), state


GIT = (rule("allow", "git *"), rule("ask", "git push*"), rule("deny", "git push --force*"))


@pytest.mark.parametrize("rules", [GIT, GIT[::-1]])
@pytest.mark.parametrize(
    ("command", "effect"),
    [("git status", "allow"), ("git push origin", "ask"), ("git push --force x", "deny"), ("make", "")],
)
def test_deny_beats_ask_and_ask_beats_allow_in_any_order(rules, command, effect):
    assert decision(RunCommand(command), *rules) == effect


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "git push origin main",
        "cd src && git push",
        "true;git push",
        "(git push)",
        "git  push",
        "git\tpush",
        "  git push",
        "'git' push",
        'g"i"t push',
        "g\\it push",
        "git \\\n push",
        "A=1 git push",
        "env -i git push",
        "bash -c 'git push'",
        "/usr/bin/git push",
        "echo x | xargs git push",
        "echo $(git push)",
        "echo `git push`",
        "make\ngit push",
    ],
)
def test_a_denied_command_is_found_in_hostile_spellings(command):
    assert decision(RunCommand(command), rule("deny", "git push*"), rule("allow", "*")) == "deny"


@pytest.mark.parametrize("command", ["git pull", "digit push", "legit push", "git pusx", "git && push"])
def test_a_denied_command_leaves_others(command):
    assert decision(RunCommand(command), rule("deny", "git push*")) == ""


@pytest.mark.parametrize(
    ("pattern", "command", "allowed"),
    [
        ("git status*", "git status --short", True),
        ("git status*", "git status; rm -rf .", False),
        ("git status*", "git status $(rm a)", False),
        ("git status*", "git status\nrm a", False),
        ("git status*", "git status > a", False),
        ("git status*", "sudo git status", False),
        ("a; b", "a; b", True),
        ("a; *", "a; b", False),
        ("git [s]tatus", "git status", False),
        ("git ?tatus", "git status", False),
    ],
)
def test_a_pattern_allows_a_command_only_if_it_matches_all_of_it(pattern, command, allowed):
    assert (decision(RunCommand(command), rule("allow", pattern)) == "allow") is allowed


@pytest.mark.parametrize("path", ["secrets/key", "./secrets/key", "secrets//key", "a/../secrets/key", "{}/secrets/key"])
def test_a_denied_path_is_found_in_every_spelling(path):
    spelled = path.format(begun().workspace)
    assert decision(ReadFile(spelled), rule("deny", "secrets/*", "read_file")) == "deny"
    assert decision(WriteFile(spelled, "x"), rule("deny", "secrets/*", "read_file")) == ""


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("src/a.py", True), ("./src/a.py", True), ("src/../b", False), ("src/a/../b", False), ("/etc/src/a", False)],
)
def test_an_allowed_folder_does_not_allow_a_way_out_of_it(path, allowed):
    assert (decision(WriteFile(path, "x"), rule("allow", "src/*", "write_file")) == "allow") is allowed


def test_paths_of_a_run_in_a_subfolder_match_relative_to_it_and_to_the_workspace():
    for pattern in ("secrets/*", "web/secrets/*"):
        denied = rule("deny", pattern, "read_file")
        assert decision(ReadFile("secrets/key"), denied, place="web") == "deny"


def test_the_arguments_of_an_own_tool_match_as_json():
    made = call("send", to="all", text="x")
    assert decision(made, rule("deny", '*"to":"all"*', "send")) == "deny"
    assert decision(made, rule("deny", '*"to":"one"*', "send")) == ""


def test_hostile_commands_take_linear_time():
    command, before = "a " * 200_000, time.process_time()
    for pattern in ("a*a*a*a*b", "a " * 400 + "b", "*" * 500 + "b", "aa*b"):
        assert decision(RunCommand(command), rule("deny", pattern)) == ""
    assert time.process_time() - before < 10


@pytest.mark.parametrize(("pattern", "text"), [("a*b", "ab"), ("*", ""), ("a**b", "axb"), ("*a*", "bab"), ("ab", "ab")])
def test_a_star_stands_for_any_text(pattern, text):
    assert matches(pattern, text)


def test_a_star_needs_the_text_around_it():
    assert not matches("ab*ba", "aba")
    assert not matches("a*", "ba")
    assert matches("a*", "c ba/a", anywhere=True)
    assert not matches("a", "ba", anywhere=True)


def run(command):
    return do("run_command", command=command)


def test_a_denied_call_is_refused_before_it_runs_with_the_rule():
    refused, state = upcoming(begun(rule("deny", "git push*")), run("git push"))
    assert isinstance(refused, CallRejected)
    assert refused.code == "denied"
    assert 'the rule [deny] run_command = "git push*" in the user\'s permissions.toml' in refused.reason
    assert state.pending is not None


def test_without_a_conversation_ask_denies_and_says_how_to_allow():
    refused, _ = upcoming(begun(rule("ask", "git push*")), run("git push"))
    assert isinstance(refused, CallRejected)
    assert "move the pattern to [allow]" in refused.reason
    assert isinstance(upcoming(begun(rule("ask", "git push*")), run("git pull"))[0], UseTool)


def test_in_a_conversation_ask_asks_even_if_approve_is_never_and_allow_does_not_ask_even_if_it_is_all():
    said = PersonSaid("Go on.")
    asked, _ = upcoming(begun(rule("ask", "make*"), approve="never"), said, run("make all"))
    assert isinstance(asked, AskPermission)
    assert asked.rule.startswith("the rule [ask] run_command")
    assert isinstance(upcoming(begun(rule("allow", "ls"), approve="all"), said, run("ls"))[0], UseTool)
    assert isinstance(upcoming(begun(rule("allow", "ls"), approve="all"), said, run("ls -a"))[0], AskPermission)


def test_the_users_answer_covers_ask_but_never_deny():
    rules, said = (rule("ask", "make*"), rule("deny", "make install*")), PersonSaid("Go on.")
    always = PersonDecided(True, "session")
    start = begun(*rules, approve="never")
    assert isinstance(upcoming(start, said, run("make all"), always)[0], UseTool)
    assert isinstance(upcoming(start, said, run("make install"), always)[0], CallRejected)
    refused, _ = upcoming(start, said, run("make all"), PersonDecided(False, words="not now"))
    assert isinstance(refused, CallRejected)
    assert "not now" in refused.reason


@pytest.mark.parametrize("effect", ["deny", "ask"])
def test_the_verify_command_of_a_frame_does_not_pass_a_rule(effect):
    start = replace(started("stackheap"), permissions=(rule(effect, "git push*"),))
    refused, _ = upcoming(start, push(verify="make && git push"))
    assert isinstance(refused, CallRejected)
    assert "verify" in refused.reason
    assert not isinstance(upcoming(start, push(verify="make"))[0], CallRejected)


def test_the_listing_names_each_rule_once_strictest_first_and_the_users_answers():
    start = begun(*GIT, approve="commands")
    _, state = upcoming(start, PersonSaid("Go on."), run("git push"), PersonDecided(True, "session", "git push"))
    lines = listing(state)
    assert [line.split()[0] for line in lines] == ["deny", "ask", "allow", "allow", "every"]
    assert lines[3].endswith("(your answer)")
    assert "--approve commands" in lines[-1]
