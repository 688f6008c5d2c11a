"""The program, as text, that runs a function of a Python block in its own process in the sandbox.

It reads ``order.json`` in its folder and calls playbooks and built-in tools through files. It ends with one marked line
that contains ``value``, ``failed`` or ``exit``, the printed output, and the changed variables of the agent.
"""

from __future__ import annotations

RUNNER = """\
import ast, asyncio, collections, collections.abc, inspect, io, json, linecache, os, sys, time, traceback
place = sys.argv[1]
with open(place + "/order.json", encoding="utf-8") as file: order = json.load(file)
true_out, held, asked, coroutine = sys.stdout, io.StringIO(), 0, False
mark = "\\x1estackmem "
class Failed(Exception): pass
class Ended(BaseException): pass
class Shown(io.TextIOBase):
    def write(self, text): return held.write(text)
    def writable(self): return True
sys.stdout = sys.stderr = Shown()
class Artifact:
    def __init__(self, name, summary, content): self.name, self.summary, self.content = name, summary, content
    value = property(lambda self: self.content)
    description = property(lambda self: self.summary)
    def __str__(self): return f"Artifact[{self.name}]"
class Variables(collections.UserDict):
    def bare(self, name): return name[1:] if name[:1] == "$" else name
    def __getitem__(self, name): return super().__getitem__(self.bare(name))
    def __setitem__(self, name, value): super().__setitem__(self.bare(name), value)
    def __delitem__(self, name): super().__delitem__(self.bare(name))
    def __contains__(self, name): return super().__contains__(self.bare(name))
class State:
    variables = Variables()
    def __getattr__(self, name):
        if name in self.variables: return self.variables[name]
        raise AttributeError(f"${name} has no value")
    def __setattr__(self, name, value): self.variables[name] = value
    def __getitem__(self, name): return self.variables[name]
    def __setitem__(self, name, value): self.variables[name] = value
class Agent:
    klass, state = order["agent"], State()
sent = {}
def known(values):
    State.variables.data = dict(values)
    sent.clear()
    sent.update({name: to_json(value) for name, value in values.items()})
def plain(value):
    if isinstance(value, Artifact): return str(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
def to_json(value): return json.dumps(value, allow_nan=False, default=plain)
def changes():
    texts = {name: to_json(value) for name, value in State.variables.items()}
    changed = {name: json.loads(text) for name, text in texts.items() if sent.get(name) != text}
    gone = [name for name in sent if name not in texts]
    return {"set": changed, "unset": gone} if changed or gone else {}
def take():
    text = held.getvalue(); held.seek(0); held.truncate(); return text
def finish(**said):
    try: said["state"] = changes()
    except (TypeError, ValueError) as error: said = {"failed": f"a variable of the agent is not a JSON value: {error}"}
    true_out.write("\\n" + mark + json.dumps({**said, "output": take()}) + "\\n"); true_out.flush(); os._exit(0)
def ask(name, values, named):
    global asked
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename != order["file"]: frame = frame.f_back
    line = frame.f_lineno if frame else order["line"]
    try: text = to_json(
        {"call": name, "values": values, "named": named, "output": take(), "line": line, "state": changes()})
    except (TypeError, ValueError) as error: raise Failed(f"arguments of {name} are not JSON values: {error}")
    with open(f"{place}/ask.tmp", "w", encoding="utf-8") as file: file.write(text)
    os.replace(f"{place}/ask.tmp", f"{place}/ask-{asked}.json")
    answer, pause = f"{place}/answer-{asked}.json", 0.001
    asked += 1
    while True:
        try:
            with open(answer, encoding="utf-8") as file: got = json.load(file)
            break
        except (OSError, ValueError): time.sleep(pause); pause = min(0.05, pause * 1.5)
    known(got.get("variables", {}))
    if "failed" in got: raise Failed(got["failed"])
    return Artifact(**got["value"]) if name == "LoadArtifact" else got["value"]
class Given(collections.abc.Coroutine):
    def __init__(self, value): self.value = value
    def __await__(self):
        return self.value
        yield
    def send(self, _): raise StopIteration(self.value)
    def throw(self, *error): raise error[0]
    def close(self): pass
    def __str__(self): return str(self.value)
def caller(name):
    def call(*values, **named):
        value = ask(name, values, named)
        return Given(value) if coroutine else value
    return call
def awaited(value): return value if inspect.isawaitable(value) else Given(value)
def parsed(text):
    tree = ast.parse(text, order["file"])
    for node in ast.walk(tree):
        if isinstance(node, ast.Await):
            at = {each: getattr(node, each) for each in node._attributes}
            node.value = ast.Call(ast.Name("stackmem awaited", ast.Load(), **at), [node.value], [], **at)
    return tree
def leave(): raise Ended
def playbook(*given, **_):
    return given[0] if given and callable(given[0]) else (lambda function: function)
runner, home = finish.__code__.co_filename, os.getcwd() + os.sep
def theirs(path):
    return path == order["file"] or (path != runner and os.path.abspath(path).startswith(home) and path[:1] != "<")
def told(error):
    while getattr(error, "exceptions", None): error = error.exceptions[0]
    rows = [row for row in traceback.extract_tb(error.__traceback__) if theirs(row.filename)]
    places = [f"{row.filename.removeprefix(home)}:{row.lineno} in {row.name}" for row in reversed(rows)]
    if isinstance(error, SyntaxError): places = [f"{error.filename}:{error.lineno}", *places]; error.filename = None
    what = str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {error}"
    return f"{what} (at {'; '.join(places[:5])})" if places else what
space = {"__name__": "playbook", "playbook": playbook, "agent": Agent, "Exit": leave, "stackmem awaited": awaited}
space.update({name: caller(name) for name in order["names"]})
try:
    known(order["variables"])
    text = "\\n" * (order["line"] - 1) + order["source"]
    linecache.cache[order["file"]] = (len(text), None, text.splitlines(True), order["file"])
    exec(compile(parsed(text), order["file"], "exec"), space)
    coroutine = inspect.iscoroutinefunction(space[order["function"]])
    value = space[order["function"]](**order["arguments"])
    if inspect.iscoroutine(value): value = asyncio.run(value)
    try: text = to_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise Failed(f"{order['function']} returned no JSON value: {error}") from None
except Ended: finish(exit=True)
except BaseException as error: finish(failed=told(error))
finish(value=json.loads(text))
"""
