"""Run the machine by hand, without files, sandbox or provider.

``advance`` returns the next fact or effect, and ``evolve`` applies a fact to the state. This is the harness's loop
with an invented world.
"""

from msgspec import structs

from stackmem import Budgets, Event, Limits, RunStarted, State, Usage, advance, evolve, fold, open_strategy
from stackmem.core.facts import CallRejected, ModelReplied, ToolReturned
from stackmem.core.messages import ToolCall
from stackmem.core.requests import AskModel, Effect, UseTool
from stackmem.core.tool_schemas import spec

budgets = Budgets()
slots = {name: str(value) for name, value in structs.asdict(budgets).items()} | {"command_seconds": "30"}
strategy = open_strategy("stackheap")

start = RunStarted(
    task="Say what the answer is.",
    task_name="answer",
    model="made up",
    strategy=strategy.name,
    system="You are the model in this example.",
    tools=tuple(spec(tool, slots) for tool in strategy.tools),
    workspace="/workspace",
    isolation="memory",
    network="none",
    budgets=budgets,
    limits=Limits(steps=20),
    window_tokens=200_000,
    price=None,
    checked=False,
    command_seconds=30.0,
    version="example",
)

# The model's calls, in order. The second exceeds a budget, so the machine refuses it and the run continues.
calls = [
    ("heap_alloc", {"name": "answer", "content": "42", "description": "the answer"}),
    ("push_frame", {"name": "tell", "objective": "x" * 201, "context": "none", "return_spec": "the answer"}),
    ("push_frame", {"name": "tell", "objective": "Read heap 'answer'.", "context": "none", "return_spec": "it"}),
    ("heap_read", {"name": "answer"}),
    ("run_command", {"command": "echo 42"}),
    ("pop_frame", {"result": "It is 42, on heap 'answer'."}),
    ("pop_frame", {"result": "The answer is 42."}),
]


def perform(effect: Effect) -> Event:
    """Play the world: a model that reads its calls from a list, and one command."""
    match effect:
        case AskModel(facts=facts, view=view):
            tool, arguments = calls[facts]
            call = ToolCall(f"call_{facts}", tool, arguments)
            return ModelReplied((call,), "call", Usage(uncached=100, output=20), view.digest)
        case UseTool():
            return ToolReturned("42\n[exit 0]", exit_code=0)
        case _:
            raise AssertionError(f"unexpected effect: {effect}")


state = evolve(State(), start)
events: list[Event] = [start]
while (upcoming := advance(state, strategy)) is not None:
    event = perform(upcoming) if isinstance(upcoming, Effect) else upcoming
    events.append(event)
    state = evolve(state, event)
    if isinstance(event, CallRejected):
        print(f"refused: {event.reason}")

print(" -> ".join(type(event).__name__ for event in events))
print(f"outcome {state.outcome}: {state.result}")

if fold(events) != state:  # the facts determine the state
    raise SystemExit("folding the facts gives a different state")
