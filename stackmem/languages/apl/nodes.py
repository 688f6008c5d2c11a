"""An APL document as values that know where they stand."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from stackmem.languages.frame.yaml_tree import Place

PHASES = ("setup", "main", "finalize")
FULL_LOOP = "FORCE_FULL_LOOP_EXECUTION"
DIRECTIVES = (FULL_LOOP,)
AsType = Literal["json", "int", "float", "bool", "list", "str"]


class Fault(Struct, frozen=True):
    """What is wrong with a document.

    Attributes:
        title: In the linter's words, such as ``Unknown Tool``.

    """

    place: Place
    title: str
    message: str


class Input(Struct, frozen=True):
    """A declared input of a program or a tool.

    Attributes:
        required: A default satisfies it.
        default: May be a template.

    """

    name: str
    place: Place
    description: str = ""
    required: bool = False
    default: Any = None
    has_default: bool = False


class Output(Struct, frozen=True):
    name: str
    description: str = ""


class Head(Struct, frozen=True):
    """What every step has.

    Attributes:
        condition: Its ``if``; empty where it has none.
        places: Of each of its keys.

    """

    name: str
    place: Place
    condition: str = ""
    directives: tuple[str, ...] = ()
    places: dict[str, Place] = field(default_factory=dict)

    def at(self, key: str) -> Place:
        return self.places.get(key, self.place)


class ToolStep(Struct, frozen=True, tag=True):
    """A step that uses one tool.

    Attributes:
        params: The parameters that stand in the step itself.
        inputs: Its ``with_inputs``.
        variables: Its ``vars``, in their order.
        using: Hints for an agent.
        doubled_name: The step has ``name`` twice, and the second is the tool's parameter.

    """

    head: Head
    tool: str
    params: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)
    using: tuple[Any, ...] = ()
    env: dict[str, Any] = field(default_factory=dict)
    register: str = ""
    as_type: AsType | None = None
    allow_failure: bool = False
    timeout_seconds: Any = None
    doubled_name: bool = False


class Foreach(Struct, frozen=True, tag=True):
    """A loop over a list.

    Attributes:
        items: The name of a variable, a template, or the list itself.
        max_concurrency: 0 for one after another.
        register: Of a parallel loop: takes the list of what each round's last step gave.

    """

    head: Head
    items: Any
    loop_var: str
    body: tuple[Step, ...]
    max_concurrency: int = 0
    register: str = ""


class While(Struct, frozen=True, tag=True):
    head: Head
    test: str
    body: tuple[Step, ...]


class Switch(Struct, frozen=True, tag=True):
    """The first case whose key, as text, equals the value; else the default."""

    head: Head
    value: str
    cases: tuple[tuple[str, tuple[Step, ...]], ...]
    default: tuple[Step, ...] = ()


class Try(Struct, frozen=True, tag=True):
    """A body, and the steps that run when it halts; they see ``error``."""

    head: Head
    body: tuple[Step, ...]
    catch: tuple[Step, ...]


class RunStep(Struct, frozen=True, tag=True):
    """The steps that ``def_step`` keeps under a name, in the scope of this place."""

    head: Head
    named: str


Step = ToolStep | Foreach | While | Switch | Try | RunStep


class Phase(Struct, frozen=True):
    """Plain steps, or one loop that stands for the whole phase.

    Attributes:
        looped: Its one step is the phase's own loop.

    """

    name: str
    place: Place
    steps: tuple[Step, ...]
    looped: bool = False


class Program(Struct, frozen=True):
    """A whole program; phases in the order of the file."""

    phases: tuple[Phase, ...]
    inputs: tuple[Input, ...] = ()
    local_tool_paths: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    constants: dict[str, Any] = field(default_factory=dict)
    steps: dict[str, tuple[Step, ...]] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)


class Tool(Struct, frozen=True):
    """A ``*.tool.apl``."""

    name: str
    place: Place
    description: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    body: tuple[Step, ...]
