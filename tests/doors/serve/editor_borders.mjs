// Debugs a program that calls programs of other languages, with the client of Visual Studio Code's own adapter tests.
// Arguments: a script that starts the adapter, and a JSON file with the launch configuration, the lines of the
// breakpoints by file, and the requests to make at the stops, one after another. It prints each stop as JSON: the
// request that led there, the reason, and the frames as [name, file, line].
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import testsupport from "@vscode/debugadapter-testsupport";

const [adapter, plan] = process.argv.slice(2);
const { launch, breakpoints, requests } = JSON.parse(readFileSync(plan, "utf8"));

const client = new testsupport.DebugClient("/bin/sh", adapter, "stackmem", undefined, true);
client.defaultTimeout = 60_000;
await client.start();
const verified = [];

async function configure() {
  await client.waitForEvent("initialized");
  for (const [path, lines] of Object.entries(breakpoints)) {
    const wanted = lines.map((line) => ({ line }));
    const { body } = await client.setBreakpointsRequest({ source: { path }, breakpoints: wanted });
    verified.push(...body.breakpoints.map((each) => each.verified));
  }
  await client.configurationDoneRequest();
}

async function stop(by, act) {
  const [event] = await Promise.all([client.waitForEvent("stopped"), act()]);
  const { stackFrames } = (await client.stackTraceRequest({ threadId: 1 })).body;
  const { scopes } = (await client.scopesRequest({ frameId: stackFrames[0].id })).body;
  const { variables } = (await client.variablesRequest({ variablesReference: scopes[0].variablesReference })).body;
  const frames = stackFrames.map((each) => [each.name, basename(each.source.path), each.line]);
  return { by, reason: event.body.reason, frames, variables: Object.fromEntries(variables.map((each) => [each.name, each.value])) };
}

const stops = [await stop("launch", () => Promise.all([configure(), client.launch(launch)]))];
for (const request of requests) {
  stops.push(await stop(request, () => client[`${request}Request`]({ threadId: 1 })));
}
for (const path of Object.keys(breakpoints)) {
  await client.setBreakpointsRequest({ source: { path }, breakpoints: [] });
}
let code = null;
if (!("run" in launch)) {
  const [exited] = await Promise.all([
    client.waitForEvent("exited"), client.waitForEvent("terminated"), client.continueRequest({ threadId: 1 }),
  ]);
  code = exited.body.exitCode;
}
await client.stop();
console.log(JSON.stringify({ verified, stops, code }));
