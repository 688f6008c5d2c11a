"""Situations from public reports about other agents and servers, each tried here.

A row is the kind, the report, what its user saw there, the situation, and words of the right ending. Reports are from
December 2025 to September 2026, found in the trackers by a search for each kind.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from stackmem.core.messages import Message, Thinking, ToolCall, ToolResult
from tests.providers.mending.situations import (
    arguments,
    call,
    chat,
    edits,
    reads,
    refused,
    schema,
    sent_ids,
    server,
    stream,
    unsigned,
    without,
)
from tests.providers.views import asking, user

Json = dict[str, Any]


class Report(NamedTuple):
    kind: str
    source: str
    sees: str
    play: Callable[[], Any]
    ends: Any
    """Words of the outcome, or the bytes of a file."""


A = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
B = {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}
IF = {"if": {"properties": {"k": {"const": 1}}}, "then": {"required": ["a"]}}
AT_TOP = "input_schema does not support oneOf, allOf, or anyOf at the top level"
SIGNATURE = "messages.1.content.0: Invalid `signature` in `thinking` block"
UNSIGNED_REPLIES = asking(
    user("Do it."),
    Message("assistant", (Thinking({"type": "thinking", "thinking": "hm"}), ToolCall("t", "read_file", {"path": "a"}))),
    Message("user", (ToolResult("t", "content", False),)),
)
GEMINI = "Function call is missing a thought_signature in functionCall parts. This is required for tools to work"
PASSED_BACK = "The `reasoning_content` in the thinking mode must be passed back to the API."
FINE: Json = {"content": [{"type": "text", "text": "rows: 3"}], "structuredContent": {"n": 3}}
COUNT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
COUNTED = {"name": "count", "inputSchema": {"type": "object"}, "outputSchema": COUNT}
READ = 'read_file {"path": "a"}'


def items(*events: Json, **end: Any) -> bytes:
    return stream(*events, {"type": "response.completed", "response": {"id": "r", **end}})


def item(kind: str, **more: Any) -> Json:
    function = {"type": "function_call", "id": "i", "call_id": "c", "name": "read_file", "arguments": "", **more}
    return {"type": f"response.output_item.{kind}", "output_index": 0, "item": function}


def piece(kind: str, **more: Any) -> Json:
    return {"type": f"response.{kind}", "item_id": "i", "output_index": 0, **more}


ARGUMENTS = piece("function_call_arguments.delta", delta='{"path": "a"}')
TEXT = piece("output_text.delta", delta="hello")

REPORTS = (
    Report("schema", "anthropics/claude-code#45106", "one tool with oneOf at its top: every request fails",
           lambda: server({"name": "odd", "inputSchema": {"oneOf": [A, B]}}), "good odd | "),
    Report("schema", "anthropics/claude-code#88049", "a tool without type object: all tools of the server are gone",
           lambda: server({"name": "odd", "inputSchema": {"anyOf": [A, B]}}), "good odd"),
    Report("schema", "anthropics/claude-code#95504", "allOf with if and then at the top: the tool is gone in silence",
           lambda: schema({**A, "allOf": [IF]}), "object of ['a']"),
    Report("schema", "anthropics/claude-code#34771", "a parameter named $.xgafv: the session cannot go on",
           lambda: schema({"type": "object", "properties": {"$.xgafv": {"type": "string"}}}),
           "renamed parameters: '$.xgafv' to _.xgafv"),
    Report("schema", "evoila/meho#905", "a choice of selectors as oneOf: no request is accepted",
           lambda: schema({"type": "object", "properties": {"x": {}}, "oneOf": [A, B]}), "object of ['a', 'b', 'x']"),
    Report("schema", "sandialabs/atlas-ui-3#727", "one schema of type string: every turn fails",
           lambda: server({"name": "odd", "inputSchema": {"type": "string"}}),
           "its tool odd was left out: its arguments are 'string', not an object"),
    Report("schema", "dodopayments/dodopayments-typescript#189", "a refusal that names a tool by its number only",
           lambda: refused("anthropic", f"tools.1.custom.input_schema: {AT_TOP}", without("files__find")),
           "left the tool files__find out"),
    Report("arguments", "NousResearch/hermes-agent#26053", "two different calls in one text: both are lost",
           lambda: arguments('{"path": "a"}{"path": "b"}'), "the arguments of read_file are not JSON"),
    Report("arguments", "mudler/cogito#66", "a proxy sends the whole arguments twice",
           lambda: arguments('{"path": "a"}', '{"path": "a"}'), READ),
    Report("arguments", "openai/openai-agents-js#712", "Bedrock sends {} before the arguments",
           lambda: arguments('{}{"path": "a"}'), READ),
    Report("arguments", "microsoft/autogen#7549", "Gemini sends {} and then whole arguments as pieces",
           lambda: arguments("{}", '{"path": "a"}'), READ),
    Report("arguments", "QwenLM/Qwen-Agent#881", "an empty object of arguments is cut",
           lambda: arguments("{", "}"), "read_file {}"),
    Report("arguments", "intrafind/ihub-apps#1802", "a repair changes }{ inside a string",
           lambda: arguments('{"path": "a}{b"}'), 'read_file {"path": "a}{b"}'),
    Report("arguments", "anthropics/claude-code#67765", "arguments that break off become an empty object",
           lambda: arguments('{"path": "a'), "the arguments of read_file are not JSON"),
    Report("arguments", "1jehuang/jcode#226", "null in place of arguments: refused without saying how to go on",
           lambda: arguments("null"), "the arguments of read_file must be"),
    Report("arguments", "netease-lcap/wave-agent#275", "text in place of arguments becomes an empty object",
           lambda: arguments("the file a"), "the arguments of read_file are not JSON"),
    Report("arguments", "wanxingai/LightAgent#31", "quotes inside a string end the call",
           lambda: arguments('{"path": "what is \\"a\\""}'), 'read_file {"path": "what is \\"a\\""}'),
    Report("thinking", "openclaw/openclaw#84430", "a thought stored without its signature: each request is refused",
           lambda: unsigned("anthropic"), "not sent"),
    Report("thinking", "anthropics/claude-code#21726", "signatures are empty after resuming: refused",
           lambda: refused("anthropic", SIGNATURE, without("c2ln")), "sent no thoughts back"),
    Report("thinking", "caozhiyuan/copilot-api#63", "signatures of another account are refused",
           lambda: refused("anthropic", "messages.1.content.0: Invalid signature in thinking block",
                           without("c2ln")), "then 1 request: Done."),
    Report("thinking", "github/copilot-cli#3407", "the same refusal returns with each turn",
           lambda: refused("anthropic", f"CAPIError: 400 {SIGNATURE}", without("c2ln")), "then 1 request: Done."),
    Report("thinking", "openclaw/openclaw#88020", "Bedrock wraps the refusal, and it is not recognized",
           lambda: refused("anthropic", f"The model returned the following errors: {SIGNATURE}", without("c2ln")),
           "sent no thoughts back"),
    Report("thinking", "openclaw/openclaw#107221", "thoughts of the model before may not be changed",
           lambda: refused("anthropic", "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest "
                           "assistant message cannot be modified.", without("c2ln")), "sent no thoughts back"),
    Report("thinking", "openclaw/openclaw#120596", "one unsigned thought blocks a session for good",
           lambda: refused("anthropic", SIGNATURE, without('"thinking": "hm"'), UNSIGNED_REPLIES), "Done. | stop end"),
    Report("ids", "QwenLM/qwen-code#8382", "run_shell_command:0 in every turn: calls are ignored",
           lambda: sent_ids("chat", "run:0", "run:0", "run:0"), "unique: run:0 run:0_2 run:0_3"),
    Report("ids", "ducks/claux#40", "empty ids are sent to the provider",
           lambda: sent_ids("anthropic", "", "", "a"), "unique: call call_2 a"),
    Report("ids", "anthropics/claude-code#28515", "tool_use ids must be unique: refused again and again",
           lambda: sent_ids("anthropic", "toolu_1", "toolu_1"), "unique: toolu_1 toolu_1_2"),
    Report("ids", "echoVic/orca-agent#67", "an id of an earlier turn ends the session",
           lambda: sent_ids("chat", "c", "d", "c"), "unique: c d c_2"),
    Report("ids", "earendil-works/pi#6854", "ids with an item after a bar collapse into one",
           lambda: sent_ids("chat", "call_1|fc_1", "call_1|fc_2"), "unique: call_1_fc_1 call_1_fc_2"),
    Report("ids", "NousResearch/hermes-agent#11722", "a model repeats a short id for the same call",
           lambda: sent_ids("chat", "b9mgIC84m", "b9mgIC84m"), "unique: b9mgIC84m b9mgIC84m_2"),
    Report("ids", "editor-code-assistant/eca#233", "a provider wants ids of nine letters and digits",
           lambda: " ".join(str(len(one)) for one in sent_ids("chat", "2968-LWy3uasib", "b", refusal="Tool call id was "
                            "2968-LWy3uasib but must be a-z, A-Z, 0-9, with a length of 9.").split()[1:]), "9 9"),
    Report("ids", "NousResearch/hermes-agent#102629", "terminal:0 twice: Duplicate function_call_output",
           lambda: sent_ids("responses", "terminal:0", "terminal:0"), "unique: terminal:0 terminal:0_2"),
    Report("ids", "VicBilibily/GCMP#120", "a provider refuses a long id that repeats",
           lambda: sent_ids("chat", "x" * 80, "x" * 80), "unique: "),
    Report("results", "NousResearch/hermes-agent#101330", "a result that breaks its own schema is thrown away",
           lambda: server(COUNTED, result={**FINE, "structuredContent": {"n": "x"}}), "result: rows: 3\n[note: "),
    Report("results", "anthropics/claude-code#76257", "a right result is refused because of the fields around it",
           lambda: server(COUNTED, result={**FINE, "isError": False}), '"n": 3'),
    Report("results", "ArcadeAI/arcade-mcp#817", "an error with other structured content is refused",
           lambda: server(COUNTED, result={"content": [{"type": "text", "text": "no such table"}], "isError": True,
                                           "structuredContent": {"error": "x"}}), "no such table"),
    Report("results", "mongodb-js/mongodb-mcp-server#869", "an error without structured content is refused",
           lambda: server(COUNTED, result={"content": [{"type": "text", "text": "no such table"}], "isError": True}),
           "no such table"),
    Report("results", "IBM/mcp-context-forge#4042", "content and structured content together are refused",
           lambda: server(COUNTED, result=FINE), "rows: 3"),
    Report("results", "langchain-ai/deepagents#6276", "an explanation without structured content ends the turn",
           lambda: server(COUNTED, result={"content": [{"type": "text", "text": "filter expects an integer"}]}),
           "filter expects an integer\n[note: "),
    Report("responses", "NousResearch/hermes-agent#92764", "a call without output_item.done is dropped",
           lambda: reads("responses", items(item("added"), ARGUMENTS, output=[])), READ),
    Report("responses", "Oaklight/llm-rosetta#56", "text without an announced item is lost",
           lambda: reads("responses", items({"type": "response.output_text.delta", "delta": "hel"},
                                            {"type": "response.output_text.delta", "delta": "lo"})), "hello | "),
    Report("responses", "NousResearch/hermes-agent#5758", "the last event has no output: the text is lost",
           lambda: reads("responses", items(TEXT, output=[])), "hello | "),
    Report("responses", "NousResearch/hermes-agent#5678", "the last event has no output: the call is lost",
           lambda: reads("responses", items(item("added"), ARGUMENTS,
                                            item("done", arguments='{"path": "a"}'), output=[])), READ),
    Report("responses", "iii-hq/workers#1020", "arguments that only the done event has become {}",
           lambda: reads("responses", items(item("added"), piece("function_call_arguments.done",
                                                                 arguments='{"path": "a"}'))), READ),
    Report("responses", "router-for-me/CLIProxyAPI#2626", "the call is only in output_item.done",
           lambda: reads("responses", items(item("done", arguments='{"path": "a"}'), output=[])), READ),
    Report("responses", "sipeed/picoclaw#2674", "a reply with 95 tokens is shown as empty",
           lambda: reads("responses", items({"type": "response.output_item.done", "output_index": 0, "item": {
               "type": "message", "id": "m", "content": [{"type": "output_text", "text": "hello"}]}}, output=[])),
           "hello | "),
    Report("signatures", "nearai/ironclaw#1510", "a missing signature, three equal attempts, then the end",
           lambda: refused("gemini", GEMINI, lambda body: "skip_thought" in body or "c2tpcF90aG91Z2h0" in body),
           "Done."),
    Report("signatures", "nanbingxyz/5ire#405", "the first result of a tool cannot be sent",
           lambda: refused("gemini", GEMINI + ", function call default_api:t , position 2."), "changed the signatures"),
    Report("signatures", "securo-finance/securo#884", "the same through Google's address for Chat Completions",
           lambda: refused("chat", GEMINI, lambda body: "thought_signature" in body), "Done."),
    Report("reasoning", "AgentiLoop/Agent#22", "the request after the first call is refused",
           lambda: refused("chat", PASSED_BACK, lambda body: "reasoning_content" in body), "Done."),
    Report("reasoning", "crewAIInc/crewAI#5878", "a run ends because thoughts were not kept",
           lambda: refused("chat", PASSED_BACK, lambda body: body.count("reasoning_content") >= 1,
                           asking(user("Do it."), Message("assistant", (ToolCall("c", "read_file", {"path": "a"}),)),
                                  Message("user", (ToolResult("c", "content", False),)))), "Done."),
    Report("reasoning", "langbot-app/LangBot#2223", "thoughts are lost between calls",
           lambda: refused("chat", "no", lambda body: '"reasoning_content":"hm"' in body.replace(": ", ":")), "Done."),
    Report("streams", "earendil-works/pi#8496", "a stream without its end counts as a whole reply",
           lambda: chat({"content": "hel"}, finish=None, done=False), "incomplete: the reply's stream ended before"),
    Report("streams", "CommandCodeAI/command-code#785", "a stream ends within a call's arguments",
           lambda: chat(call('{"path": "a'), finish=None, done=False), "incomplete: "),
    Report("streams", "griffinwork40/agent-afk#87", "half a call with the reason stop: the terminal hangs",
           lambda: chat(call('{"path": "a'), finish="stop"), "are not JSON"),
    Report("streams", "Blaizzy/mlx-vlm#1014", "a call with the reason stop is not performed",
           lambda: chat(call('{"path": "a"}'), finish="stop"), f"{READ} | stop call"),
    Report("streams", "ENTERPILOT/GoModel#411", "a whole JSON body in place of a stream: the client waits",
           lambda: reads("chat", json.dumps({"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]})
                         .encode()), "hello | stop end"),
    Report("streams", "NousResearch/hermes-agent#30988", "a reply that was cut counts as the end",
           lambda: chat({"content": "hel"}, finish="length"), "stop truncated"),
    Report("lines", "thingsboard/thingsboard-mcp#17", "log lines on stdout: no tools",
           lambda: server(noise=("2025-12-20 INFO Registered tools: 118",)), "good | result: fine"),
    Report("lines", "ZubeidHendricks/youtube-mcp-server#26", "a banner on stdout: the connection is dropped",
           lambda: server(noise=("[MCP] list_tools requested", "")), "good | result: fine"),
    Report("lines", "AgentDeskAI/browser-tools-mcp#239", "36 lines before the first answer",
           lambda: server(noise=tuple(f"Checking 127.0.0.1:{port}..." for port in range(36))), "good | result: fine"),
    Report("lines", "TSavo/printify-mcp#3", "lines that begin like JSON between the answers",
           lambda: server(noise=("Shops response: [", "{}", "[1, 2")), "good | result: fine"),
    Report("versions", "just-every/code#611", "a server of an older revision is refused",
           lambda: server(version="2024-11-05"), "good | result: fine"),
    Report("versions", "jonnyzzz/mcp-steroid#482", "a server answers with its own revision",
           lambda: server(version="2025-11-25"), "good | result: fine"),
    Report("versions", "ronak-create/FableCut#59", "a server returns a revision that nobody knows",
           lambda: server(version="2099-01-01"), "speaks the unknown revision '2099-01-01'"),
    Report("versions", "sickn33/agentic-awesome-skills#1003", "a server accepts only one revision: no reason is shown",
           lambda: server(refuses={"code": -32602, "message": "Unsupported protocol version"}),
           "Unsupported protocol version"),
    Report("line ends", "openclaw/openclaw#116011", "an edit of one line changes the ends of all others",
           lambda: edits(b"a\r\nb\nc\r\n", "b", "B"), b"a\r\nB\nc\r\n"),
    Report("line ends", "Kuberwastaken/claurst#225", "an edit turns CR LF into LF",
           lambda: edits(b"a\r\nb\r\nc\r\n", "a\nb", "a\nB"), b"a\r\nB\r\nc\r\n"),
    Report("line ends", "Yeachan-Heo/gajae-code#1436", "an edit removes the byte order mark",
           lambda: edits(b"\xef\xbb\xbfa\r\nb\r\n", "b", "B"), b"\xef\xbb\xbfa\r\nB\r\n"),
    Report("line ends", "github/copilot-cli#3389", "an edit adds a byte order mark",
           lambda: edits(b"one\r\n", "one", "two"), b"two\r\n"),
    Report("line ends", "anomalyco/opencode#23797", "the first line cannot be edited because of its mark",
           lambda: edits(b"\xef\xbb\xbfusing A;\n", "using A;", "using B;"), b"\xef\xbb\xbfusing B;\n"),
)  # fmt: skip


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: f"{report.kind} {report.source}")
def test_the_situation_of_a_report_ends_right(report: Report) -> None:
    outcome = report.play()
    assert (outcome == report.ends) if isinstance(report.ends, bytes) else report.ends in outcome, outcome


def test_each_report_is_there_once_and_says_what_its_user_sees() -> None:
    sources = [report.source for report in REPORTS]
    assert len(set(sources)) == len(sources) >= 60
    assert all(report.sees and "#" in report.source for report in REPORTS)
