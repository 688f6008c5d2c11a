"""An APL document as values that know their position, and static analysis of what a step reads and sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct, field

from stackmem.languages.frame.values import texts
from stackmem.languages.frame.yaml_tree import Place

from .templates import Mention, literal_stretches, mentions

PHASES = ("setup", "main", "finalize")
FULL_LOOP = "FORCE_FULL_LOOP_EXECUTION"
DIRECTIVES = (FULL_LOOP,)
AsType = Literal["json", "int", "float", "bool", "list", "str"]


class Fault(Struct, frozen=True):
    """A fault of a document."""

    position: Place
    title: str  # as the linter shows it, such as ``Unknown Tool``
    message: str


class Input(Struct, frozen=True):
    """A declared input of a program or tool."""

    name: str
    position: Place
    description: str = ""
    required: bool = False  # a default satisfies it
    default: Any = None  # may be a template
    has_default: bool = False


class Output(Struct, frozen=True):
    name: str
    description: str = ""


class Head(Struct, frozen=True):
    """The parts common to all steps."""

    name: str
    position: Place
    condition: str = ""  # the ``if`` condition; empty if there is none
    directives: tuple[str, ...] = ()
    places: dict[str, Place] = field(default_factory=dict)  # positions of the step's keys

    def at(self, key: str) -> Place:
        return self.places.get(key, self.position)


class ToolStep(Struct, frozen=True, tag=True):
    """A step that uses one tool."""

    head: Head
    tool: str
    params: dict[str, Any] = field(default_factory=dict)  # parameters written directly in the step
    inputs: dict[str, Any] = field(default_factory=dict)  # the values of ``with_inputs``
    variables: dict[str, Any] = field(default_factory=dict)  # the values of ``vars``, in order
    using: tuple[Any, ...] = ()  # hints for an agent
    env: dict[str, Any] = field(default_factory=dict)
    register: str = ""
    as_type: AsType | None = None
    allow_failure: bool = False
    timeout_seconds: Any = None
    doubled_name: bool = False  # whether the step has ``name`` twice; the second is the tool's parameter


class Foreach(Struct, frozen=True, tag=True):
    """A loop over a list."""

    head: Head
    items: Any  # a variable's name, a template, or the list itself
    loop_var: str
    body: tuple[Step, ...]
    max_concurrency: int = 0  # 0 runs the rounds one after another
    register: str = ""  # for a parallel loop: the variable for the list of each round's last value


class WhileStep(Struct, frozen=True, tag="While"):
    head: Head
    test: str
    body: tuple[Step, ...]


class Switch(Struct, frozen=True, tag=True):
    """Runs the first case whose key, as text, equals the value; otherwise the default."""

    head: Head
    value: str
    cases: tuple[tuple[str, tuple[Step, ...]], ...]
    default: tuple[Step, ...] = ()


class Try(Struct, frozen=True, tag=True):
    """Runs a body, and if it halts, the ``catch`` steps, which see ``error``."""

    head: Head
    body: tuple[Step, ...]
    catch: tuple[Step, ...]


class RunStep(Struct, frozen=True, tag=True):
    """Runs the steps that ``def_step`` stores under a name, in the current scope."""

    head: Head
    target: str


Step = ToolStep | Foreach | WhileStep | Switch | Try | RunStep


class Phase(Struct, frozen=True):
    """A list of steps, or one loop that makes up the whole phase."""

    name: str
    position: Place
    steps: tuple[Step, ...]
    looped: bool = False  # whether its single step is the phase's own loop


class Program(Struct, frozen=True):
    """A whole program, with phases in file order."""

    phases: tuple[Phase, ...]
    inputs: tuple[Input, ...] = ()
    local_tool_paths: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    constants: dict[str, Any] = field(default_factory=dict)
    steps: dict[str, tuple[Step, ...]] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    notes: tuple[Fault, ...] = ()  # remarks of the linter that do not prevent a run


class Tool(Struct, frozen=True):
    """A ``*.tool.apl`` file. ``notes`` is as in ``Program``."""

    name: str
    position: Place
    description: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    body: tuple[Step, ...]
    notes: tuple[Fault, ...] = ()


def bodies(step: Step) -> tuple[tuple[str, tuple[Step, ...]], ...]:
    """Return the step lists nested directly in a step, each with its title if it has one."""
    match step:
        case Foreach() | WhileStep():
            return (("", step.body),)
        case Switch():
            return (*step.cases, ("default", step.default))
        case Try():
            return (("", step.body), ("catch", step.catch))
        case ToolStep() | RunStep():
            return ()


def all_steps(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Yield every step, including nested ones."""
    for step in steps:
        yield step
        for _, body in bodies(step):
            yield from all_steps(body)


def conditions(step: Step) -> Iterator[str]:
    """Yield the step's own expressions, which have no braces."""
    if step.head.condition:
        yield step.head.condition
    match step:
        case WhileStep():
            yield step.test
        case Switch():
            yield step.value
        case _:
            pass


def templates(step: Step, *, variables: bool = True) -> Iterator[str]:
    """Yield the step's own texts that may contain templates."""
    match step:
        case ToolStep():
            for part in (step.params, step.inputs, step.using, step.env, step.timeout_seconds):
                yield from texts(part)
            yield from texts(step.variables) if variables else ()
        case Foreach():
            yield from texts(step.items)
        case _:
            pass


def own_mentions(
    step: Step, *, command: bool = False, variables: bool = True, expressions: bool = True
) -> Iterator[Mention]:
    """Yield the variables that the step's own texts need.

    Args:
        command: Skip the literal parts of a shell command.
        variables: Include variables in the values of ``vars``; each may use an earlier one.
        expressions: Include its conditions.
    """
    for condition in conditions(step) if expressions else ():
        yield from mentions(condition, expression=True)
    for text in templates(step, variables=variables):
        yield from command_mentions(text) if command else mentions(text)


def command_mentions(command: str) -> Iterator[Mention]:
    """Yield the variables that a shell command needs outside its literal parts."""
    done = 0
    for start, end in literal_stretches(command):
        yield from mentions(command[done:start])
        done = end
    yield from mentions(command[done:])


def exit_codes_read(step: Step) -> frozenset[str]:
    """Return the variables whose ``.exit_code`` is read anywhere in a step."""
    all_mentions = (mention for each in all_steps((step,)) for mention in own_mentions(each))
    return frozenset(mention.name for mention in all_mentions if mention.path == ("exit_code",))


def registers(step: Step) -> Iterator[str]:
    """Yield the names that a step certainly sets, not counting those in its branches."""
    if isinstance(step, ToolStep):
        if step.register:
            yield step.register
        if step.tool == "set_vars":
            yield from step.variables


def later_reads_exit_code(steps: tuple[Step, ...], index: int) -> bool:
    """Return whether a later step of the list reads the exit code of the output that step ``index`` registers.

    If so, the program handles a failure itself, and the command must not halt it. Steps after the name has been
    registered again do not count.
    """
    step = steps[index]
    register = step.register if isinstance(step, ToolStep) else ""
    if not register:
        return False
    for later in steps[index + 1 :]:
        if register in exit_codes_read(later):
            return True
        if register in registers(later):
            return False
    return False


def names_set(step: Step, stored_steps: Mapping[str, tuple[Step, ...]]) -> Iterator[str]:
    """Yield every name that a step may set."""
    match step:
        case ToolStep():
            yield from step.variables
            yield step.register
            for key in ("list", "list_name", "name"):
                value = step.params.get(key)
                if isinstance(value, str) and step.tool in ("append_to_list", "initialize_list"):
                    yield value
        case Foreach():
            yield step.loop_var
            yield step.register
        case RunStep():
            for each in all_steps(stored_steps.get(step.target, ())):
                if not isinstance(each, RunStep):
                    yield from names_set(each, stored_steps)
        case _:
            pass
