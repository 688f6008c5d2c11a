"""A recording is billed by what it states: token counts, times, marks, models, compactions, thinking, subagents."""

import json
from functools import partial

import pytest

from stackmem.formats.import_ import facts_of, read_sessions
from stackmem.lab.bench.conversations import conversations, is_timed
from stackmem.lab.bench.evidence import PRICED_AS, entries_of, study
from stackmem.lab.whatif.recorded import WhatIfQuestion, tell_again
from stackmem.review.measure.moments import moments
from tests.lab.bench.claude_sessions import HIDDEN, ClaudeSession, working


def written(tmp_path, session, name="s1.jsonl"):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(session if isinstance(session, str) else session.text(), "utf-8")
    return path


def rows(path, strategies, latency=None):
    """Return the outcome of each strategy for the only conversation of a file."""
    ((conversation,),) = (tuple(conversations(session)) for session in read_sessions(path))
    events = tuple((fact.at, fact.event) for fact in facts_of(conversation))
    told = tell_again("it", partial(moments, events), WhatIfQuestion(strategies, PRICED_AS, latency))
    return {row.strategy.split(":")[0]: row for row in told.rows}


def recorded_prompts(path):
    (session,) = read_sessions(path)
    return [reply.usage.prompt for reply in session.replies()]


def test_every_prompt_is_as_long_as_the_provider_counted_although_the_agents_own_prompt_is_missing(tmp_path):
    path = written(tmp_path, working())
    full = rows(path, ())["full"].outcome
    prompts = recorded_prompts(path)
    assert prompts[0] > HIDDEN
    assert full.peak_tokens == pytest.approx(max(prompts), abs=len(prompts))
    assert full.mean_tokens == pytest.approx(sum(prompts) / len(prompts), abs=len(prompts))


def test_the_simulated_bill_of_the_whole_history_is_the_recorded_one(tmp_path):
    path = written(tmp_path, working())
    (entry,) = entries_of(tmp_path, path, ("mask",))
    assert entry.recorded_bill
    assert entry.bills["full"].usd == pytest.approx(entry.recorded_bill, rel=0.02)


def test_a_recording_that_contains_its_prompt_has_no_hidden_part(tmp_path):
    path = written(tmp_path, working(hidden=0, chars_per_token=2.5))
    assert rows(path, ())["full"].outcome.peak_tokens < 1.1 * max(recorded_prompts(path))


def test_a_pause_of_six_minutes_writes_the_whole_prompt_again_and_one_of_four_does_not(tmp_path):
    outcomes = {
        pause: rows(written(tmp_path, working(pause=pause), f"{pause}.jsonl"), ())["full"].outcome.usage
        for pause in (240, 360)
    }
    assert outcomes[360].cache_write_5m > outcomes[240].cache_write_5m + 2 * HIDDEN


def test_a_recording_with_hour_marks_is_billed_with_them_and_survives_pauses(tmp_path):
    usage = rows(written(tmp_path, working(pause=360, life="1h")), ())["full"].outcome.usage
    assert usage.cache_write_5m == 0
    assert usage.cache_write_1h < 3 * HIDDEN


def test_frames_are_billed_with_the_marks_of_the_recorded_agent(tmp_path):
    path = written(tmp_path, working(steps=60, size=6_000, life="1h"))
    found = rows(path, ("stackheap", "adaptive"))
    for name in found:
        usage = found[name].outcome.usage
        assert usage.cache_write_5m == 0, name
        assert usage.cache_write_1h > HIDDEN, name


@pytest.mark.parametrize("warm", [1, 30_000, HIDDEN])
def test_a_prompt_that_an_earlier_session_cached_is_read_under_every_strategy(tmp_path, warm):
    cold = rows(written(tmp_path, working(steps=3), "cold.jsonl"), ("mask", "stackheap"))
    found = rows(written(tmp_path, working(steps=3, warm=warm), "warm.jsonl"), ("mask", "stackheap"))
    for name in found:
        usage, before = found[name].outcome.usage, cold[name].outcome.usage
        assert usage.cache_read == before.cache_read + warm, name
        assert usage.cache_write_5m == before.cache_write_5m - warm, name


def test_a_recording_that_states_more_cached_tokens_than_its_prompt_has_is_not_read_twice(tmp_path):
    session = working(steps=2)
    session.lines[1]["message"]["usage"]["cache_read_input_tokens"] = 900_000
    usage = rows(written(tmp_path, session), ("mask",))["mask"].outcome.usage
    assert min(usage.cache_write_5m, usage.cache_read, usage.uncached) >= 0


def test_times_count_in_a_study_and_recordings_without_times_are_ten_seconds_apart(tmp_path):
    written(tmp_path, working("quick"), "quick.jsonl")
    written(tmp_path, working("slow", pause=400), "slow.jsonl")
    timeless = working("none", pause=400)
    for line in timeless.lines:
        del line["timestamp"]
    written(tmp_path, timeless, "none.jsonl")
    found = {entry.session: entry for entry in study(tmp_path, tmp_path / "rows.x", 1, print, ("mask",))}
    assert [found[name].timed for name in ("quick", "slow", "none")] == [True, True, False]
    quick, slow, none = (found[name].bills["full"].usd[0] for name in ("quick", "slow", "none"))
    assert slow > 1.5 * quick
    assert none == pytest.approx(quick, rel=0.02)


def test_each_session_of_an_interactive_agent_is_a_task_of_its_own(tmp_path):
    for name in "abc":
        written(tmp_path, working(name), f"projects/p/{name}.jsonl")
    found = study(tmp_path, tmp_path / "rows.x", 1, print, ("mask",))
    assert len({entry.task for entry in found}) == 3
    assert {entry.agent for entry in found} == {"claude-code"}


def test_a_compaction_that_happened_ends_a_conversation_and_its_summary_begins_the_next(tmp_path):
    session = working(steps=6)
    session.wait(5).compact("Until now: the totals are in src/part_003.py.")
    for number in range(4):
        session.step("cat src/part_003.py", f"part {number}\n" * 40)
    path = written(tmp_path, session.end())
    first, second = conversations(read_sessions(path)[0])
    assert second.task == "Until now: the totals are in src/part_003.py."
    assert [sum(1 for _ in part.replies()) for part in (first, second)] == [8, 5]  # the summary is a reply
    (entry,) = entries_of(tmp_path, path, ("mask",))
    assert (entry.conversations, entry.steps) == (2, 13)
    assert entry.bills["full"].usd == pytest.approx(entry.recorded_bill, rel=0.1)


def test_a_much_shorter_prompt_after_a_text_is_a_compaction_although_nothing_says_so(tmp_path):
    session = working(steps=12, hidden=3_000)
    session.wait(5).compact("Until now: the totals are in src/part_003.py.")
    for line in session.lines:
        line.pop("isCompactSummary", None)
    path = written(tmp_path, session.step("cat src/part_003.py", "a part\n").end())
    first, second = conversations(read_sessions(path)[0])
    assert second.task.endswith("Until now: the totals are in src/part_003.py.")
    assert [sum(1 for _ in part.replies()) for part in (first, second)] == [13, 2]


def test_a_side_job_of_a_small_model_is_not_a_compaction(tmp_path):
    session = ClaudeSession().user("Begin.").step("ls", "a file\n" * 4_000).user("And now?")
    line = json.loads(json.dumps(session.lines[1]))
    line["uuid"], line["message"]["id"], line["message"]["model"] = "side", "side", "claude-haiku-4-5"
    line["message"]["content"] = [{"type": "text", "text": "A title"}]
    line["message"]["usage"] = {"input_tokens": 300, "output_tokens": 5}
    session.lines.append(line)
    (session_read,) = read_sessions(written(tmp_path, session.end()))
    assert len(list(conversations(session_read))) == 1


def test_subagents_are_conversations_of_the_same_session_and_their_files_are_read_once(tmp_path):
    main = working("main", steps=3)
    child = working("main-child", steps=3, hidden=9_000)
    for line in child.lines:
        later = line["timestamp"].replace("T09:", "T10:")
        line.update(isSidechain=True, agentId="abc", sessionId="main", timestamp=later)
    spawned = next(line for line in main.lines if line["type"] == "assistant")
    spawned["message"]["content"][0].update(name="Task", input={"prompt": "Mend the totals.", "subagent_type": "x"})
    written(tmp_path, main, "p/main.jsonl")
    written(tmp_path, child, "p/main/subagents/agent-abc.jsonl")
    (entry,) = study(tmp_path, tmp_path / "rows.x", 1, print, ("mask", "adaptive"))
    assert (entry.conversations, entry.steps) == (2, 8)
    assert {"full", "mask middle", "adaptive middle"} <= set(entry.bills)
    assert entry.bills["full"].usd == pytest.approx(entry.recorded_bill, rel=0.05)


@pytest.mark.parametrize("thought", ["", "I think about src/part_002.py. " * 30])
def test_a_strategy_that_never_acts_costs_the_same_whatever_the_model_thought(tmp_path, thought):
    session = ClaudeSession().user("Mend the totals.")
    for number in range(8):
        session.step("ls src", f"see src/part_{number:03}.py\n" * 30, thought)
    found = rows(written(tmp_path, session.end()), ("clear_cold", "clear", "mask"))
    assert found["clear_cold"].ratio == pytest.approx(1.0, abs=0.005)
    assert found["clear"].ratio == pytest.approx(1.0, abs=0.005)
    assert found["clear_cold"].outcome.usage.output == found["full"].outcome.usage.output


def test_clearing_after_a_pause_acts_at_recorded_times_only(tmp_path):
    path = written(tmp_path, working(steps=24, size=6_000, pause=4_000))
    assert rows(path, ("clear_cold",))["clear_cold"].ratio < 0.95
    assert rows(path, ("clear_cold",), latency=10.0)["clear_cold"].ratio == pytest.approx(1.0, abs=0.005)


def test_a_strategy_without_frames_pays_for_the_facts_that_it_lost(tmp_path):
    path = written(tmp_path, working(steps=30))
    row = rows(path, ("mask:turns=4,poll=1",))["mask"]
    best, middle, worst = row.bands
    assert best.handed.rereads == 0 < middle.handed.rereads < worst.handed.rereads
    assert best.outcome.usd < middle.outcome.usd < worst.outcome.usd
    assert row.outcome == middle.outcome
    looked = worst.outcome.requests - best.outcome.requests
    assert looked == worst.outcome.lookups == worst.handed.rereads


def test_a_conversation_that_clears_its_results_pays_for_the_facts_too(tmp_path):
    path = written(tmp_path, working(steps=40, size=6_000, hidden=2_000))
    for name in ("clear_paying:read=0.25", "adaptive:read=0.25,results=cleared"):
        best, middle, worst = rows(path, (name,))[name.split(":")[0]].bands
        assert best.handed.rereads == 0 < middle.handed.rereads <= worst.handed.rereads
        assert best.outcome.usd < middle.outcome.usd <= worst.outcome.usd


def test_triggers_count_the_prompt_and_tools_that_the_recording_lacks(tmp_path):
    name = "clear:tokens=40000,keep=1"
    paths = {
        hidden: written(tmp_path, working(steps=30, size=2_500, hidden=hidden), f"{hidden}.jsonl")
        for hidden in (1_000, 30_000)
    }
    lost = {hidden: rows(path, (name,))["clear"].outcome.loss.lost for hidden, path in paths.items()}
    assert lost[1_000] == 0 < lost[30_000]


def test_a_strategy_that_knows_pauses_knows_the_life_of_the_recorded_cache(tmp_path):
    read = "clear_paying:again=10,read=0.025"
    ratios = {
        life: rows(written(tmp_path, working(steps=24, size=4_000, pause=400, life=life), life), (read,))
        for life in ("5m", "1h")
    }
    assert ratios["5m"]["clear_paying"].outcome.loss.lost > 0
    assert ratios["1h"]["clear_paying"].outcome.loss.lost == 0


def test_a_strategy_that_loses_nothing_pays_nothing(tmp_path):
    row = rows(written(tmp_path, working()), ("clear",))["clear"]
    assert [band.outcome.lookups for band in row.bands] == [0, 0, 0]


def test_a_reply_of_another_model_reads_nothing_of_the_first_ones_cache(tmp_path):
    session = working(steps=6)
    for line in session.lines[9:]:
        if line["type"] == "assistant":
            line["message"]["model"] = "claude-opus-4-5"
    path = written(tmp_path, session)
    same = rows(written(tmp_path, working(steps=6), "same.jsonl"), ())["full"].outcome.usage
    assert rows(path, ())["full"].outcome.usage.cache_write_5m > same.cache_write_5m + HIDDEN


def test_a_session_without_times_in_one_reply_is_not_timed(tmp_path):
    session = working(steps=2)
    assert is_timed(read_sessions(written(tmp_path, session))[0])
    for line in session.lines:
        if line["type"] == "assistant":
            del line["timestamp"]
            break
    assert not is_timed(read_sessions(written(tmp_path, session))[0])


def test_any_strategies_can_be_studied_and_other_figures_are_not_mixed_with_them(tmp_path, stage):
    folder = tmp_path / "recordings"
    written(folder, working(steps=6))
    out = tmp_path / "out.csv"
    ran = stage.call("evidence", folder, "-o", out, "--jobs", "1", "--strategies", "compact,clear_cold:60,handoff")
    assert ran.returncode == 0, ran.stderr
    names = {line.split(",")[4] for line in out.read_text("utf-8").splitlines()[1:]}
    assert names == {"full", "compact", "clear_cold:seconds=60", "handoff"}
    ran = stage.call("evidence", folder, "-o", out, "--jobs", "1", "--strategies", "mask")
    assert ran.returncode == 2
    assert "figures of other strategies" in ran.stderr
    assert stage.call("evidence", folder, "-o", out, "--strategies", "stak").returncode == 2
