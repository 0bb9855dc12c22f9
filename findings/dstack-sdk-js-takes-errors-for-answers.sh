#!/usr/bin/env bash
# npm @phala/dstack-sdk 0.5.8: the client does not look at the status of an answer, and looks for an `error` in the
# answers to quotes and attest only. A guest agent of dstack 0.6 has no EmitEvent and answers 404 with
# {"error": "Method not found"}. emitEvent then returns as if the event was measured into RTMR3. version of an agent
# before 0.5.7 returns the error as its result, so that the SDK's own check of the version of the guest always passes.
#
# Serves that answer to each call at a unix socket, and prints what emitEvent and version return. Exits 1 when one of
# them fails, which means that the SDK reads the error by now.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --ignore-scripts --no-audit --no-fund --no-save @phala/dstack-sdk@0.5.8 @noble/curves@1.9.7
cat >finding.mjs <<'JS'
import http from 'node:http';
import { DstackClient } from '@phala/dstack-sdk';

const body = JSON.stringify({ error: 'Method not found' });
const server = http.createServer((request, response) => {
  request.resume();
  response.writeHead(404, { 'content-type': 'application/json', 'content-length': body.length });
  response.end(body);
});
await new Promise((done) => server.listen('guest.sock', done));
const client = new DstackClient('guest.sock');
let changed = false;
for (const [name, call] of Object.entries({ emitEvent: () => client.emitEvent('event', 'payload'), version: () => client.version() })) {
  try {
    console.log(`${name} returned ${JSON.stringify(await call())}`);
  } catch (err) {
    console.log(`${name} failed: ${err.message}`);
    changed = true;
  }
}
server.close();
console.log(changed ? 'that has changed' : 'as found with @phala/dstack-sdk 0.5.8: both calls were refused, and neither fails');
process.exit(changed ? 1 : 0);
JS
node finding.mjs
