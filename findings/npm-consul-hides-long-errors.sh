#!/usr/bin/env bash
# npm consul 2.0.1 (by papi, its HTTP client): the text of an answer that is no success becomes the message of the error
# where it has fewer than 80 characters. Of a longer text the message is the name of the status alone, such as
# "forbidden". Consul's own refusals ("Permission denied: token with AccessorID ... lacks permission ...") are longer, so
# that a user never reads which permission a token lacks. The text is in err.response.body.
#
# Answers 403 with a text of 79 and with one of 80 characters, and prints the messages of both errors. Exits 1 when the
# longer text is shown.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --ignore-scripts --no-audit --no-fund --no-save consul@2.0.1
cat >finding.mjs <<'JS'
import http from 'node:http';
import Consul from 'consul';

const server = http.createServer((request, response) => {
  response.writeHead(403, { 'content-type': 'text/plain; charset=utf-8' });
  response.end('x'.repeat(Number(request.url.split('/').pop())));
});
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const client = new Consul({ host: '127.0.0.1', port: server.address().port });
const shown = {};
for (const length of [79, 80]) {
  const err = await client.kv.get(String(length)).catch((failed) => failed);
  shown[length] = err.message.includes('x'.repeat(length));
  console.log(`a text of ${length} characters: "${err.message}", and ${err.response.body.length} characters in err.response.body`);
}
client.destroy();
server.close();
const same = shown[79] && !shown[80];
console.log(same ? 'as found with consul 2.0.1: the longer text is not shown' : 'that has changed');
process.exit(same ? 0 : 1);
JS
node finding.mjs
