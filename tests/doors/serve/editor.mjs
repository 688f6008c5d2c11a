// Debugs one program as an editor does, with the client of Visual Studio Code's own adapter tests, then walks backwards
// over its recorded run. Arguments: a script that starts the adapter, and a JSON file with the launch configuration,
// the line of a breakpoint, the reason of the stop there and a variable. It prints what it saw as one JSON object.
import { readFileSync } from "node:fs";
import testsupport from "@vscode/debugadapter-testsupport";

const [adapter, plan] = process.argv.slice(2);
const { launch, line, variable } = JSON.parse(readFileSync(plan, "utf8"));
const location = { path: launch.program, line };

async function open() {
  const client = new testsupport.DebugClient("/bin/sh", adapter, "stackmem", undefined, true);
  client.defaultTimeout = 60_000;
  await client.start();
  return client;
}

async function look(client) {
  const { stackFrames } = (await client.stackTraceRequest({ threadId: 1 })).body;
  const { scopes } = (await client.scopesRequest({ frameId: stackFrames[0].id })).body;
  const { variables } = (await client.variablesRequest({ variablesReference: scopes[0].variablesReference })).body;
  const found = variables.find((each) => each.name === variable);
  return { frames: stackFrames.length, line: stackFrames[0].line, scopes: scopes.map((each) => each.name), value: found?.value };
}

async function stopped(client, act) {
  const [event] = await Promise.all([client.waitForEvent("stopped"), act()]);
  return event.body.reason;
}

async function live() {
  const client = await open();
  await client.hitBreakpoint(launch, location);
  const there = await look(client);
  const stepped = await stopped(client, () => client.nextRequest({ threadId: 1 }));
  await client.setBreakpointsRequest({ source: { path: location.path }, breakpoints: [] });
  const [exited] = await Promise.all([
    client.waitForEvent("exited"), client.waitForEvent("terminated"), client.continueRequest({ threadId: 1 }),
  ]);
  await client.stop();
  return { there, stepped, code: exited.body.exitCode };
}

async function backwards() {
  const client = await open();
  await client.hitBreakpoint({ run: "last", runsDir: launch.runsDir }, location);
  const there = await look(client);
  await stopped(client, () => client.nextRequest({ threadId: 1 }));
  const back = await stopped(client, () => client.stepBackRequest({ threadId: 1 }));
  const again = await look(client);
  await client.setBreakpointsRequest({ source: { path: location.path }, breakpoints: [] });
  const begun = await stopped(client, () => client.reverseContinueRequest({ threadId: 1 }));
  await client.stop();
  return { there, back, again, begun };
}

console.log(JSON.stringify({ live: await live(), backwards: await backwards() }));
