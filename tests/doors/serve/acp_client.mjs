// An editor made of the protocol's TypeScript library: plays one conversation, and prints what it was told as JSON.
// node acp_client.mjs PLAY FOLDER SESSION COMMAND [ARGUMENT...]; PLAY is "first" or "again".

import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";

const [play, folder, known, command, ...args] = process.argv.slice(2);
const agent = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const ended = new Promise((done) => agent.on("exit", (code) => done(code)));
const told = [];
const asked = [];
const choices = ["allow_once", "reject_once", "allow_once"];
let wake = () => {};
const running = new Promise((done) => { wake = done; });

const editor = client({ name: "tests" })
  .onRequest(methods.client.session.requestPermission, ({ params }) => {
    asked.push(params.toolCall.title);
    const choice = choices.shift();
    if (choices.length === 0) wake();
    return { outcome: choice ? { outcome: "selected", optionId: choice } : { outcome: "cancelled" } };
  })
  .onNotification(methods.client.session.update, ({ params }) => { told.push(params.update); });

const text = (words) => [{ type: "text", text: words }];

async function first(agent) {
  const { sessionId, modes } = await agent.request(methods.agent.session.new, { cwd: folder, mcpServers: [] });
  await agent.request(methods.agent.session.setMode, { sessionId, modeId: "commands" });
  const done = await agent.request(methods.agent.session.prompt, { sessionId, prompt: text("Change a.txt.") });
  const cut = agent.request(methods.agent.session.prompt, { sessionId, prompt: text("Wait.") });
  await running;
  await agent.notify(methods.agent.session.cancel, { sessionId });
  const cancelled = await cut;
  return { sessionId, modes: modes.availableModes.length, stops: [done.stopReason, cancelled.stopReason] };
}

async function again(agent) {
  const { sessions } = await agent.request(methods.agent.session.list, { cwd: folder });
  await agent.request(methods.agent.session.load, { sessionId: known, cwd: folder, mcpServers: [] });
  const before = told.length;
  const done = await agent.request(methods.agent.session.prompt, { sessionId: known, prompt: text("And?") });
  return { sessions: sessions.map((each) => each.sessionId), before, stops: [done.stopReason] };
}

const stream = ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const result = await editor.connectWith(stream, async (agent) => {
  const capabilities = { protocolVersion: PROTOCOL_VERSION, clientCapabilities: {} };
  const { protocolVersion } = await agent.request(methods.agent.initialize, capabilities);
  return { protocolVersion, ...(await (play === "first" ? first(agent) : again(agent))) };
});
agent.stdin.end();
console.log(JSON.stringify({ ...result, asked, told, exit: await ended }));
