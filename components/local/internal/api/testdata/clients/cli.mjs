// Runs npm phala, the command line of Phala Cloud, as its users type it. Each step is one line
// of JSON on standard output; TestOfficialClients reads them.
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const { CLOUD_URL, CLOUD_KEY } = process.env;
const program = fileURLToPath(import.meta.resolve('phala'));
const home = mkdtempSync(join(tmpdir(), 'phala-cli-'));
// Nothing of the caller's own settings reaches the command line, and nothing of it stays.
const env = { PATH: process.env.PATH, HOME: home, PHALA_CLOUD_API_PREFIX: CLOUD_URL, PHALA_CLOUD_API_KEY: CLOUD_KEY, NO_COLOR: '1', CI: '1' };

const say = (line) => console.log(JSON.stringify(line));
const run = (...args) => new Promise((done) => {
  const child = execFile(process.execPath, [program, ...args], { cwd: home, env, timeout: 60000 }, (err, out, problems) => done({ code: err ? (err.code ?? 1) : 0, out, problems }));
  child.stdin.end();
});

const expect = (condition, text) => {
  if (!condition) throw new Error(text);
};

async function step(name, args, check = () => {}) {
  const got = await run(...args);
  try {
    expect(got.code === 0, `exit code ${got.code}: ${(got.problems || got.out).trim()}`);
    await check(got.out);
    say({ step: name, ok: true });
  } catch (err) {
    say({ step: name, ok: false, error: String(err.message).slice(0, 600) });
  }
  return got.out;
}

// A command whose endpoint is not served has to end with a status that the user sees.
async function unserved(name, args) {
  const got = await run(...args);
  const text = got.out + got.problems;
  say({ step: name, unserved: true, ok: got.code !== 0 && /not found|404/i.test(text), error: `exit code ${got.code}: ${text.trim().slice(0, 300)}` });
}

async function cvm(id) {
  const reply = await fetch(`${CLOUD_URL}/cvms/${id}`, { headers: { 'X-API-Key': CLOUD_KEY } });
  return reply.ok ? reply.json() : undefined;
}

async function still(id, status = 'running') {
  for (;;) {
    const now = await cvm(id);
    if (now && !now.in_progress && now.status === status) return now;
    await new Promise((done) => setTimeout(done, 50));
  }
}

const compose = join(home, 'docker-compose.yml');
const release = (n) => writeFileSync(compose, `services: {web: {image: "x@sha256:${'1'.repeat(64)}", environment: {RELEASE: "${n}", SECRET: "\${SECRET}"}}}\n`);
release(1);
const key = join(home, 'id.pub');
writeFileSync(key, 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ7CVs8K2cXr0yTzDjXo1q8m9w1o9Xb0Zk3kq1mFq6Zb cli\n');
const name = 'client-cli';

await step('whoami', ['whoami']);
await step('status', ['status', '--json']);
await step('nodes', ['nodes', 'list']);
await step('instance types', ['instance-types']);
await step('os images', ['os-images']);
await step('ssh keys', ['ssh-keys', 'list']);
await step('deploy', ['deploy', '-n', name, '-c', compose, '-t', 'tdx.small', '-e', 'SECRET=value', '--no-public-logs', '--disk-size', '20G', '--ssh-pubkey', key, '--json'], async (out) => {
  const got = JSON.parse(out.slice(out.indexOf('{')));
  expect(got.success, out);
});
const made = await still(name);
await step('list', ['cvms', 'list', '--json'], (out) => expect(out.includes(made.vm_uuid) || out.includes(name), out));
await step('list as a table', ['cvms', 'list']);
await step('get by name', ['cvms', 'get', name, '--json'], (out) => expect(out.includes(name), out));
await step('get by uuid', ['cvms', 'get', made.vm_uuid]);
await step('get by app id', ['cvms', 'get', made.app_id]);
await step('apps', ['apps', '--json'], (out) => expect(out.includes(made.app_id.replace('app_', '')), out));
await step('instances of an app', ['instances', 'ls', '--app-id', made.app_id.replace('app_', '')]);
await step('devices of an app', ['cvms', 'device-allowlist', name]);
release(2);
await step('deploy an update', ['deploy', '--cvm-id', name, '-c', compose, '-e', 'SECRET=other', '--json'], async () => {
  const now = await still(name);
  expect(now.compose_hash !== made.compose_hash, 'the compose hash did not change');
});
await step('env', ['envs', 'update', name, '-e', 'SECRET=third']);
await still(name);
await step('resize', ['cvms', 'resize', name, '--vcpu', '2', '--memory', '4096', '--disk-size', '30', '--allow-restart', 'true', '--yes'], async () => {
  const { resource } = await still(name);
  expect(resource.instance_type === 'tdx.medium' && resource.disk_in_gb === 30, JSON.stringify(resource));
});
await step('restart', ['cvms', 'restart', name]);
await still(name);
await step('stop', ['cvms', 'stop', name]);
await still(name, 'stopped');
await step('start', ['cvms', 'start', name]);
await still(name);
await step('replicate', ['cvms', 'replicate', made.vm_uuid, '--node-id', '1', '--json']);
await step('an instance more', ['instances', 'add', '--app-id', made.app_id.replace('app_', ''), '--node-id', '1', '--json']);
await unserved('attestation', ['cvms', 'attestation', name]);
await unserved('containers', ['ps', name]);
await step('delete', ['cvms', 'delete', made.vm_uuid, '--force'], async () => {
  for (let n = 0; (await cvm(made.vm_uuid)) !== undefined; n++) {
    expect(n < 200, 'the CVM is still there');
    await new Promise((done) => setTimeout(done, 50));
  }
});
rmSync(home, { recursive: true });
