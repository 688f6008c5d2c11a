"""Random programs: a run and its replay agree, and killed runs end as they would have."""

import json
import random
from types import SimpleNamespace

import pytest

from stackmem.languages.running import python_process
from tests.languages.python.programs import killed, program, same_shape, story
from tests.stage import Stage

EFFECTS = (
    "{v} = stackmem.shell('echo {n} >> log.txt; cat log.txt').stdout",
    "stackmem.write_file('f{n}.txt', str({v}))",
    "{v} = stackmem.list_files('.')",
    "{v} = stackmem.ask('q{n}')",
    "{v} = stackmem.ask_user('u{n}?')",
    "stackmem.keep('c{n}', repr({v}))",
    "{v} = [each['name'] for each in stackmem.chunks()]",
    "{v} = stackmem.ask_all(['a{n}', 'b{n}'])",
    "stackmem.wait(0.001)",
    "print('says', {v})",
)
PLAIN = (
    "{v} = [random.randint(0, 9) for _ in range({n})]",
    "{v} = sorted(set(str({v})))[:5]",
    "{v} = list({{str({v}), 'a', 'b', 'c'}})[:2]",
    "{v} = {{'k{n}': {v}, 't': round(time.time())}} if len(str({v})) < 300 else {n}",
    "{v} = [uuid.uuid4().hex, random.random(), random.Random().random(), random.choice('abcdefgh')]",
    "{v} = helper({n}, {v}) if len(str({v})) < 300 else None",
)


class Writer:
    """Writes a random program."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._left = 14

    def text(self) -> str:
        steps = "".join(f"\n\n@stackmem.step\ndef s{number}(v):\n{self.block(1)}    return v\n" for number in range(2))
        body = self.block(1, calls=True)
        head = "import random, time, uuid\nimport stackmem\n\n\ndef helper(n, v):\n    return [n, v]\n"
        return f"{head}{steps}\n\n@stackmem.step\ndef main():\n    v = 0\n{body}    return str(v)[:500]\n"

    def block(self, depth: int, *, calls: bool = False) -> str:
        return "".join(self.statement(depth, calls=calls) for _ in range(self._random.randint(2, 4)))

    def statement(self, depth: int, *, calls: bool) -> str:
        pad, kind = "    " * depth, self._random.random()
        if self._left <= 0 or depth > 3:
            return f"{pad}v = [v] if len(str(v)) < 200 else 0\n"
        if kind < 0.12:
            return f"{pad}for i in range({self._random.randint(1, 2)}):\n{self.block(depth + 1, calls=calls)}"
        if kind < 0.22:
            return f"{pad}if len(str(v)) % 2:\n{self.block(depth + 1, calls=calls)}"
        if kind < 0.32:
            failing = f"{pad}    stackmem.read_file('missing')\n"
            return f"{pad}try:\n{failing}{pad}except stackmem.EffectFailed as error:\n{pad}    v = error.kind\n"
        if calls and kind < 0.5:
            return f"{pad}v = s{self._random.randint(0, 1)}(v)\n"
        self._left -= 1
        form = self._random.choice(EFFECTS if kind < 0.8 else PLAIN)
        return pad + form.format(v="v", n=self._random.randint(0, 5)) + "\n"


FIXED = "fixed"
REPLIES = json.dumps({"replies": [{"text": f"reply {number}"} for number in range(300)]})


def check(stage: Stage, seed: int) -> None:
    path = program(stage, Writer(seed).text(), replies=REPLIES)
    whole = killed(stage, path, 100_000, {}, FIXED)
    expected = story(whole)
    source = random.Random(seed)
    for _ in range(2):
        after = source.randrange(3, max(5, len(expected)))
        folder = killed(stage, path, after, {}, FIXED)
        ran = stage.call("resume", folder, "--json", *[word for _ in range(60) for word in ("--say", "Ann")])
        assert ran.returncode in (0, 1), ran.stderr
        assert stage.call("replay", folder).returncode == 0
        assert json.loads(ran.stdout)["outcome"] == "finished", (seed, after, ran.stdout)
        assert same_shape(story(folder), expected), (seed, after)


@pytest.fixture(autouse=True)
def entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_process, "os", SimpleNamespace(urandom=bytes))


@pytest.mark.parametrize("seed", range(3))
def test_a_random_program_survives_kills(stage: Stage, seed: int) -> None:
    check(stage, seed)


@pytest.mark.campaign
@pytest.mark.timeout(1_800)
def test_two_hundred_random_programs(stage: Stage) -> None:
    for seed in range(100, 300):
        check(stage, seed)
