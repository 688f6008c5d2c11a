"""Reads steps (tools, loops, switches, ``try``) and checks the shape of a YAML tree."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, get_args

from stackmem.languages.frame.yaml_tree import Items, Place, Scalar, Table, Tree, duplicate_keys, kind_of, plain

from .tree import DIRECTIVES, AsType, Fault, Foreach, Head, RunStep, Step, Switch, ToolStep, Try, WhileStep


class Shapes:
    """Reads parts of a tree. A part of the wrong shape becomes a fault, and reading continues with a default."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._notes: list[Fault] = []

    @property
    def notes(self) -> tuple[Fault, ...]:
        """Faults that do not prevent a run."""
        return tuple(self._notes)

    def note(self, position: Place, title: str, message: str) -> None:
        self._notes.append(Fault(position, title, message))

    def fault(self, position: Place, title: str, message: str) -> None:
        self.faults.append(Fault(position, title, message))

    def table(self, tree: Tree | None, label: str, title: str) -> Table | None:
        """Return a mapping. Duplicate keys are faults."""
        if tree is None:
            return None
        if not isinstance(tree, Table):
            self.fault(tree.position, title, f"{label} is a mapping, not {kind_of(tree)}.")
            return None
        for key in duplicate_keys(tree):
            self.fault(key.position, "Duplicate Key", f"The key `{key.value}` stands twice in {label}.")
        return tree

    def items(self, tree: Tree | None, label: str, title: str, kind: str = "a list") -> tuple[Tree, ...]:
        if tree is None or (isinstance(tree, Scalar) and tree.value is None):
            return ()
        if not isinstance(tree, Items):
            self.fault(tree.position, title, f"{label} is {kind}, not {kind_of(tree)}.")
            return ()
        return tree.items

    def text(self, table: Table, key: str, label: str, title: str) -> str:
        """Return a non-empty text. A missing one is also a fault."""
        value = table.get(key)
        if isinstance(value, Scalar) and isinstance(value.value, str) and value.value.strip():
            return value.value
        if value is None:
            self.fault(table.position, title, f"{label} has no `{key}`.")
        else:
            self.fault(value.position, title, f"`{key}` of {label} is a text that is not empty, not {kind_of(value)}.")
        return ""

    def description(self, table: Table, label: str, undescribed: str) -> str:
        """Return the description in a table. A missing one is noted under the title ``undescribed``."""
        value = table.get("description")
        if isinstance(value, Scalar) and value.value is not None and value.literal.strip():
            return str(value.value)
        if undescribed:
            self.note(value.position if value else table.position, undescribed, f"{label} has no `description`.")
        return ""

    def flag(self, table: Table, key: str, title: str) -> bool:
        value = table.get(key)
        if value is None:
            return False
        if isinstance(value, Scalar) and isinstance(value.value, bool):
            return value.value
        text = value.literal if isinstance(value, Scalar) else kind_of(value)
        self.fault(value.position, title, f"`{key}` is true or false, not {text[:40]}.")
        return False

    def values(self, table: Table, key: str, title: str) -> dict[str, Any]:
        """Return a mapping of arbitrary values, in order."""
        inner = self.table(table.get(key), f"`{key}`", title)
        return plain(inner) if inner else {}

    def refuse_unknown(
        self, table: Table, valid_keys: Collection[str], label: str, title: str, hint: str | None = None
    ) -> None:
        """Add a fault for every unknown key. ``hint`` replaces the list of known keys in the message."""
        for key, _ in table.pairs:
            if key.value not in valid_keys:
                rest = f"; known: {', '.join(sorted(valid_keys))}" if hint is None else hint
                self.fault(key.position, title, f"`{str(key.value)[:60]}` is not a {label}{rest}.")

    def texts(self, table: Table, key: str, title: str) -> Iterator[tuple[str, Place]]:
        """Yield a single text or each text of a list."""
        value = table.get(key)
        single = isinstance(value, Scalar) and isinstance(value.value, str)
        for item in (value,) if single else self.items(value, f"`{key}`", title):
            if isinstance(item, Scalar) and isinstance(item.value, str):
                yield item.value, item.position
            elif item is not None:
                self.fault(item.position, title, f"`{key}` holds texts, not {kind_of(item)}.")


MAX_NESTED = 20

_STEP = "Invalid Step"
_MISSING = "Missing Required Field"
_FOREACH = "Invalid `foreach` Loop"
_WHILE = "Invalid `while` Loop"
_KINDS = ("foreach", "parallel_foreach", "while", "switch", "try", "run_step")
_SHARED = {"name", "if", "directives", "description"}
_TOOL_KEYS = _SHARED | {
    "tool", "register", "as_type", "using", "with_inputs", "vars", "env", "allow_failure", "timeout_seconds",
}  # fmt: skip
_ALLOWED: dict[str, set[str]] = {
    "foreach": {"foreach", "run"},
    "parallel_foreach": {"parallel_foreach", "run", "register"},
    "while": {"while", "run"},
    "switch": {"switch", "cases", "default"},
    "try": {"try", "catch"},
    "run_step": {"run_step"},
}


class Steps:
    """Reads lists of steps. ``shapes`` collects their faults."""

    def __init__(self, shapes: Shapes) -> None:
        self._shapes = shapes

    def read(self, tree: Tree | None, label: str, depth: int = 0) -> tuple[Step, ...]:
        if depth > MAX_NESTED and tree is not None:
            self._shapes.fault(tree.position, _STEP, f"Steps are nested deeper than {MAX_NESTED}.")
            return ()
        steps = (self._step(item, depth) for item in self._shapes.items(tree, label, _STEP))
        return tuple(step for step in steps if step is not None)

    def loop(self, table: Table, kind: str, head: Head, depth: int) -> Step | None:
        """Read the loop of a phase or step with ``foreach``, ``parallel_foreach`` or ``while``."""
        title = _WHILE if kind == "while" else _FOREACH
        body_tree = table.get("run")
        body = self.read(body_tree, "`run`", depth + 1)
        if body_tree is None:
            self._shapes.fault(head.at(kind), title, f"The `{kind}` loop has no `run`.")
        if kind == "while":
            test = table.get("while")
            if not isinstance(test, Scalar) or not isinstance(test.value, str) or not test.value.strip():
                self._shapes.fault(head.at("while"), title, "`while` is a condition in quotes.")
                return None
            return WhileStep(head, test.value, body)
        return self._foreach(table, kind, head, body)

    def _foreach(self, table: Table, kind: str, head: Head, body: tuple[Step, ...]) -> Step | None:
        shapes = self._shapes
        inner = shapes.table(table.get(kind), f"`{kind}`", _FOREACH)
        if inner is None:
            return None
        keys = {"in", "loop_var", "directives"} | ({"max_concurrency"} if kind == "parallel_foreach" else set())
        shapes.refuse_unknown(inner, keys, f"key of `{kind}`", _FOREACH)
        items = inner.get("in")
        good = isinstance(items, Items) or (isinstance(items, Scalar) and isinstance(items.value, str) and items.value)
        if not good:
            position = items.position if items else inner.position
            shapes.fault(position, _FOREACH, "`in` is the name of a variable, a template, or a list.")
        loop_var = shapes.text(inner, "loop_var", f"the `{kind}` loop", _FOREACH)
        if loop_var and not loop_var.isidentifier():
            shapes.fault(inner.position, _FOREACH, f"`loop_var` is the name of a variable, not `{loop_var[:40]}`.")
            loop_var = ""
        most = 0
        if kind == "parallel_foreach":
            most = self._count(inner.get("max_concurrency"), 8)
        if not good or not loop_var or items is None:
            return None
        directives = self._directives(inner)
        looped = Head(head.name, head.position, head.condition, (*head.directives, *directives), head.places)
        return Foreach(looped, plain(items), loop_var, body, most, self._register(table, head))

    def _count(self, tree: Tree | None, default: int) -> int:
        if tree is None:
            return default
        if isinstance(tree, Scalar) and isinstance(tree.value, int) and tree.value is not True and tree.value > 0:
            return min(tree.value, 64)
        self._shapes.fault(tree.position, _FOREACH, "`max_concurrency` is a whole number from 1.")
        return default

    def _step(self, tree: Tree, depth: int) -> Step | None:
        shapes = self._shapes
        if not isinstance(tree, Table):
            shapes.fault(tree.position, _STEP, f"A step is a mapping with `name` and `tool`, not {kind_of(tree)}.")
            return None
        names = [value for key, value in tree.pairs if key.value == "name"]
        kinds = [kind for kind in _KINDS if tree.get(kind) is not None]
        has_tool = tree.get("tool") is not None
        self._refuse_doubled(tree, allowed=2 if has_tool else 1)
        places = {str(key.value): key.position for key, _ in reversed(tree.pairs)}
        head = Head(
            name=self._name(tree, names),
            position=tree.position,
            condition=self._condition(tree),
            directives=self._directives(tree),
            places=places,
        )
        if len(kinds) + has_tool != 1:
            self._say_what_is_missing(tree, kinds, has_tool=has_tool)
            return None
        if has_tool:
            return self._tool_step(tree, head, names)
        shapes.refuse_unknown(tree, _SHARED | _ALLOWED[kinds[0]], f"key of a `{kinds[0]}` step", _STEP)
        return self._control(tree, kinds[0], head, depth)

    def _say_what_is_missing(self, tree: Table, kinds: list[str], *, has_tool: bool) -> None:
        if kinds:
            several = ", ".join(f"`{kind}`" for kind in [*kinds, *(["tool"] if has_tool else [])])
            self._shapes.fault(tree.position, _STEP, f"A step is one thing: it has {several}.")
        else:
            self._shapes.fault(tree.position, _MISSING, "The step has no `tool`.")

    def _name(self, tree: Table, names: list[Tree]) -> str:
        if not names:
            self._shapes.fault(tree.position, _MISSING, "The step has no `name`.")
            return "(unnamed step)"
        first = names[0]
        if isinstance(first, Scalar) and first.value is not None and str(first.literal).strip():
            return str(first.literal)
        self._shapes.fault(first.position, _MISSING, f"`name` is a text that is not empty, not {kind_of(first)}.")
        return "(unnamed step)"

    def _condition(self, tree: Table) -> str:
        value = tree.get("if")
        match value:
            case None:
                return ""
            case Scalar(value=bool() as truth):
                return "true" if truth else "false"
            case Scalar(value=str() as text) if text.strip():
                return text
        self._shapes.fault(value.position, _STEP, f"`if` is a condition in quotes, not {kind_of(value)}.")
        return ""

    def _directives(self, table: Table) -> tuple[str, ...]:
        directives = []
        for directive, position in self._shapes.texts(table, "directives", "Unknown Directive"):
            if directive not in DIRECTIVES:
                allowed = ", ".join(DIRECTIVES)
                self._shapes.fault(
                    position, "Unknown Directive", f"`{directive[:60]}` is not a directive; known: {allowed}."
                )
            directives.append(directive)
        return tuple(directives)

    def _control(self, tree: Table, kind: str, head: Head, depth: int) -> Step | None:
        match kind:
            case "foreach" | "parallel_foreach" | "while":
                return self.loop(tree, kind, head, depth)
            case "switch":
                return self._switch(tree, head, depth)
            case "try":
                body = self.read(tree.get("try"), "`try`", depth + 1)
                if tree.get("catch") is None:
                    self._shapes.fault(head.position, _STEP, "A `try` step has a `catch`.")
                return Try(head, body, self.read(tree.get("catch"), "`catch`", depth + 1))
            case _:
                return RunStep(head, self._shapes.text(tree, "run_step", "the step", _STEP))

    def _switch(self, tree: Table, head: Head, depth: int) -> Step | None:
        value = tree.get("switch")
        cases = self._shapes.table(tree.get("cases"), "`cases`", _STEP)
        if cases is None:
            self._shapes.fault(head.position, _STEP, "A `switch` step has `cases`.")
            return None
        if not isinstance(value, Scalar) or value.value is None:
            self._shapes.fault(head.at("switch"), _STEP, "`switch` is an expression in quotes.")
            return None
        read = tuple((str(key.value), self.read(body, f"case `{key.value}`", depth + 1)) for key, body in cases.pairs)
        return Switch(head, value.literal, read, self.read(tree.get("default"), "`default`", depth + 1))

    def _tool_step(self, tree: Table, head: Head, names: list[Tree]) -> ToolStep:
        shapes = self._shapes
        params = {str(key.value): plain(value) for key, value in tree.pairs if key.value not in _TOOL_KEYS}
        if len(names) > 1:
            params["name"] = plain(names[1])
        register = self._register(tree, head)
        hints = tree.get("using")
        is_text = isinstance(hints, Scalar) and isinstance(hints.value, str)
        using = (hints,) if hints and is_text else shapes.items(hints, "`using`", _STEP, "a text or a list")
        timeout = tree.get("timeout_seconds")
        return ToolStep(
            head=head,
            tool=shapes.text(tree, "tool", "the step", _MISSING),
            params=params,
            inputs=shapes.values(tree, "with_inputs", _STEP),
            variables=shapes.values(tree, "vars", _STEP),
            using=tuple(plain(hint) for hint in using),
            env=shapes.values(tree, "env", _STEP),
            register=register,
            as_type=self._as_type(tree),
            allow_failure=shapes.flag(tree, "allow_failure", _STEP),
            timeout_seconds=self._seconds(timeout),
            doubled_name=len(names) > 1,
        )

    def _register(self, tree: Table, head: Head) -> str:
        if tree.get("register") is None:
            return ""
        register = self._shapes.text(tree, "register", "the step", _STEP)
        if register and not register.isidentifier():
            position = head.at("register")
            self._shapes.fault(position, _STEP, f"`register` is the name of a variable, not `{register[:40]}`.")
            return ""
        return register

    def _seconds(self, tree: Tree | None) -> Any:
        """Read a number, or a template for one."""
        if tree is None:
            return None
        if isinstance(tree, Scalar) and not isinstance(tree.value, bool) and tree.value is not None:
            try:
                fits = "{" in str(tree.value) or 0 < float(tree.value) <= 3_600
            except (ValueError, OverflowError):
                fits = False
            if fits:
                return tree.value
        self._shapes.fault(tree.position, _STEP, "`timeout_seconds` is a number above 0, at most 3600.")
        return None

    def _as_type(self, tree: Table) -> AsType | None:
        value = tree.get("as_type")
        if value is None:
            return None
        kinds: tuple[AsType, ...] = get_args(AsType)
        for kind in kinds:
            if isinstance(value, Scalar) and value.value == kind:
                return kind
        self._shapes.fault(value.position, _STEP, f"`as_type` is one of {', '.join(kinds)}.")
        return None

    def _refuse_doubled(self, tree: Table, allowed: int) -> None:
        """Reject duplicate keys. ``name`` may occur twice in a step with a tool, whose parameter the second one is."""
        seen: dict[str, int] = {}
        for key, _ in tree.pairs:
            name = str(key.value)
            seen[name] = seen.get(name, 0) + 1
            if seen[name] > (allowed if name == "name" else 1):
                self._shapes.fault(key.position, "Duplicate Key", f"The key `{name[:60]}` stands twice in one step.")
