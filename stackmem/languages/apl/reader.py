"""Parses the text of a program, a tool file or a library into a tree.

A document is read as far as possible. Everything wrong with it becomes a fault at its position.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec.structs import replace

from stackmem.languages.frame.yaml_tree import Scalar, Table, Tree, YamlError, kind_of, parse_yaml, plain

from .step_reader import Shapes, Steps
from .tree import PHASES, Fault, Head, Input, Output, Phase, Program, Step, Tool

_TOP = ("inputs", "local_tool_paths", "import", "constants", "def_step")
_TOOL_KEYS = ("name", "description", "inputs", "outputs", "run")
_INPUT_KEYS = {"name", "description", "required", "default"}
_LOOPS = ("foreach", "parallel_foreach", "while")
_PHASE = "Invalid Phase Structure"
_INPUT = "Invalid Input Definition"
_TOOL = "Invalid Tool Definition"
_YAML = "Invalid YAML"
_ESCAPE = "unknown escape character"
_MAX_REPAIRED = 20
UNDESCRIBED = "Missing Description"


@lru_cache(maxsize=32)
def load_program(text: str) -> tuple[Program | None, tuple[Fault, ...]]:
    """Read as much of a program as possible. Returns it with its faults; None if the document is not a mapping."""
    shapes = Shapes()
    table = _document(text, "A program", shapes)
    if table is None:
        return None, tuple(shapes.faults)
    steps = Steps(shapes)
    shapes.refuse_unknown(table, (*PHASES, *_TOP), "phase", _PHASE, f"; the phases are {', '.join(PHASES)}")
    phases = tuple(_phase(str(key.value), key, body, steps, shapes) for key, body in table.pairs if key.value in PHASES)
    step_table = shapes.table(table.get("def_step"), "`def_step`", "Invalid Step")
    program = Program(
        phases=phases,
        inputs=inputs(table, shapes),
        local_tool_paths=tuple(path for path, _ in shapes.texts(table, "local_tool_paths", "Invalid Program")),
        imports=tuple(path for path, _ in shapes.texts(table, "import", "Invalid Program")),
        constants=shapes.values(table, "constants", "Invalid Program"),
        steps={str(key.value): steps.read(body, f"`{key.value}`", 1) for key, body in step_table.pairs}
        if step_table
        else {},
        places={str(key.value): key.position for key, _ in table.pairs},
    )
    return replace(program, notes=shapes.notes), tuple(shapes.faults)


@lru_cache(maxsize=32)
def load_tool(text: str) -> tuple[Tool | None, tuple[Fault, ...]]:
    """Read a ``*.tool.apl`` file. The tool is None if it has no name or the document is not a mapping."""
    shapes = Shapes()
    document = _document(text, "A tool file", shapes)
    if document is None:
        return None, tuple(shapes.faults)
    alone = "; it has `tool_definition` alone"
    shapes.refuse_unknown(document, ("tool_definition",), "key of a tool file", _TOOL, alone)
    table = shapes.table(document.get("tool_definition"), "`tool_definition`", _TOOL)
    if table is None:
        if document.get("tool_definition") is None:
            shapes.fault(document.position, _TOOL, "A tool file has `tool_definition`.")
        return None, tuple(shapes.faults)
    shapes.refuse_unknown(table, _TOOL_KEYS, "key of a tool definition", _TOOL, "")
    name = shapes.text(table, "name", "the tool", _TOOL)
    description = shapes.description(table, f"The tool `{name}`", UNDESCRIBED)
    tool_inputs = inputs(table, shapes, undescribed=UNDESCRIBED)
    tool_outputs = outputs(table, shapes, undescribed=UNDESCRIBED)
    tool = Tool(
        name, table.position, description, tool_inputs, tool_outputs, Steps(shapes).read(table.get("run"), "`run`")
    )
    if table.get("run") is None:
        shapes.fault(table.position, _TOOL, "The tool has no `run`.")
    return (replace(tool, notes=shapes.notes) if name else None), tuple(shapes.faults)


@lru_cache(maxsize=32)
def load_library(text: str) -> tuple[tuple[Tool, ...], tuple[Fault, ...]]:
    """Read an ``APL_STL.yml``. Its tools have only an interface; their ``body`` is empty."""
    shapes = Shapes()
    try:
        tree = parse_yaml(text)
    except YamlError as error:
        return (), (Fault(error.position, _YAML, _sentence(error.message)),)
    tools = []
    for item in shapes.items(tree, "A standard library", _TOOL):
        table = shapes.table(item, "A tool", _TOOL)
        if table is None:
            continue
        name = shapes.text(table, "name", "the tool", _TOOL)
        description = shapes.description(table, f"The tool `{name}`", "")
        tool_inputs = inputs(table, shapes, undescribed="")
        tools.append(Tool(name, table.position, description, tool_inputs, outputs(table, shapes, undescribed=""), ()))
    return tuple(tool for tool in tools if tool.name), tuple(shapes.faults)


def inputs(table: Table, shapes: Shapes, *, undescribed: str = _INPUT) -> tuple[Input, ...]:
    """Read the declared inputs.

    ``undescribed`` is the title of the linter's note about a missing description; if empty, none is expected.
    """
    by_name: dict[str, Input] = {}
    for item in shapes.items(table.get("inputs"), "`inputs`", _INPUT):
        entry = shapes.table(item, "An input", _INPUT)
        if entry is None:
            continue
        name = shapes.text(entry, "name", "an input", _INPUT)
        description = shapes.description(entry, f"The input `{name}`" if name else "An input", undescribed)
        shapes.refuse_unknown(entry, _INPUT_KEYS, "key of an input", _INPUT)
        if name in by_name:
            shapes.fault(entry.position, _INPUT, f"The input `{name}` is declared twice.")
        default = entry.get("default")
        if name and (not name.isidentifier() or name == "module_path"):
            message = f"`{name[:60]}` cannot be an input's name; it is letters, digits and _, and not `module_path`."
            shapes.fault(entry.position, _INPUT, message)
        if name:
            by_name[name] = Input(
                name=name,
                position=entry.position,
                description=description,
                required=shapes.flag(entry, "required", _INPUT),
                default=plain(default) if default is not None else None,
                has_default=default is not None,
            )
    return tuple(by_name.values())


def outputs(table: Table, shapes: Shapes, *, undescribed: str) -> tuple[Output, ...]:
    results = []
    for item in shapes.items(table.get("outputs"), "`outputs`", _TOOL):
        entry = shapes.table(item, "An output", _TOOL)
        if entry is not None and (name := shapes.text(entry, "name", "an output", _TOOL)):
            results.append(Output(name, shapes.description(entry, f"The output `{name}`", undescribed)))
    return tuple(results)


def _document(text: str, subject: str, shapes: Shapes) -> Table | None:
    try:
        tree = _lenient(text, shapes)
    except YamlError as error:
        shapes.fault(error.position, _YAML, _sentence(error.message))
        return None
    if not isinstance(tree, Table):
        shapes.fault(tree.position, _PHASE, f"{subject} is a mapping, not {kind_of(tree)}.")
        return None
    return shapes.table(tree, subject.lower(), _PHASE)


def _lenient(text: str, shapes: Shapes) -> Tree:
    r"""Parse a document and tolerate invalid escapes in double quotes, as in ``sed 's/\.git$//'``.

    A backslash that does not begin a YAML escape is read as a plain backslash and noted.
    """
    for _ in range(_MAX_REPAIRED):
        try:
            return parse_yaml(text)
        except YamlError as error:
            lines = text.splitlines(keepends=True)
            line, at = error.position.line - 1, error.position.column - 2
            if _ESCAPE not in error.message or lines[line][at : at + 1] != "\\":
                raise
            message = f"`{lines[line][at : at + 2]}` is not a YAML escape and is read literally; double the backslash."
            shapes.note(error.position, "Unknown Escape", message)
            lines[line] = f"{lines[line][:at]}\\{lines[line][at:]}"
            text = "".join(lines)
    return parse_yaml(text)


def _sentence(message: str) -> str:
    return f"{message[:1].upper()}{message[1:].rstrip('.')}."


def _phase(name: str, key: Scalar, body: Tree, steps: Steps, shapes: Shapes) -> Phase:
    """Read a phase, which is a list of steps or a single loop."""
    if not isinstance(body, Table):
        return Phase(name, key.position, steps.read(body, f"The phase `{name}`"))
    kinds = [kind for kind in _LOOPS if body.get(kind) is not None]
    if len(kinds) != 1:
        shapes.fault(key.position, _PHASE, f"The phase `{name}` is a list of steps, or one loop with `run`.")
        return Phase(name, key.position, ())
    more = ("register",) if kinds == ["parallel_foreach"] else ()
    shapes.refuse_unknown(body, (kinds[0], "run", "directives", *more), "key of a phase that is a loop", _PHASE, "")
    shapes.table(body, f"the phase `{name}`", _PHASE)
    places = {str(inner.value): inner.position for inner, _ in body.pairs}
    directives = tuple(directive for directive, _ in shapes.texts(body, "directives", "Unknown Directive"))
    head = Head(name=f"{name} loop", position=key.position, directives=directives, places=places)
    loop: Step | None = steps.loop(body, kinds[0], head, 0)
    return Phase(name, key.position, (loop,) if loop else (), looped=True)
