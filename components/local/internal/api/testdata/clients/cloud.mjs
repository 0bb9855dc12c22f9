// Calls the actions of npm @phala/cloud with its own schemas switched on. Each step is one
// line of JSON on standard output; TestOfficialClients reads them.
import * as sdk from '@phala/cloud';
import { encryptEnvVars } from '@phala/dstack-sdk/encrypt-env-vars';

const { CLOUD_URL, CLOUD_KEY, IMAGE, OTHER_IMAGE } = process.env;
const client = sdk.createClient({ apiKey: CLOUD_KEY, baseURL: CLOUD_URL, version: '2026-01-21' });

const say = (line) => console.log(JSON.stringify(line));
const reason = (err) => (err.issues ? err.issues.map((i) => `${i.path.join('.')}: ${i.message} ${i.unionErrors ? JSON.stringify(i.unionErrors) : ''}`).join('; ') : `${err.status ?? ''} ${err.message}`);

async function step(name, call) {
  try {
    const result = await call();
    say({ step: name, ok: true });
    return result;
  } catch (err) {
    say({ step: name, ok: false, error: reason(err).slice(0, 500) });
    return undefined;
  }
}

// An endpoint that is not served has to fail with a status and a message that a client shows.
async function unserved(name, call) {
  try {
    await call();
    say({ step: name, unserved: true, ok: false, error: 'was answered' });
  } catch (err) {
    say({ step: name, unserved: true, ok: err.status === 404 && /not found/i.test(JSON.stringify(err.detail ?? '')), error: reason(err).slice(0, 300) });
  }
}

async function still(id) {
  for (;;) {
    const now = await client.get(`/cvms/${id}`).catch(() => undefined);
    if (now && !now.in_progress && ['running', 'stopped'].includes(now.status)) return now;
    await new Promise((done) => setTimeout(done, 50));
  }
}

const expect = (condition, text) => {
  if (!condition) throw new Error(text);
};

await step('current user', () => sdk.getCurrentUser(client));
await step('nodes', () => sdk.getAvailableNodes(client));
await step('instance type families', () => sdk.listAllInstanceTypeFamilies(client));
await step('instance types of a family', () => sdk.listFamilyInstanceTypes(client, { family: 'cpu' }));
await step('workspaces', () => sdk.listWorkspaces(client));
await step('workspace', () => sdk.getWorkspace(client, 'local'));
await step('workspace nodes', () => sdk.getWorkspaceNodes(client, { teamSlug: 'local' }));
await step('workspace quotas', () => sdk.getWorkspaceQuotas(client, { teamSlug: 'local' }));
await step('os images', () => sdk.getOsImages(client));
await step('key services', () => sdk.getKmsList(client));
await step('key service', () => sdk.getKmsInfo(client, { kms_id: 'phala' }));
await step('ssh keys', () => sdk.listSshKeys(client));
const allotted = await step('app ids', () => sdk.nextAppIds(client, { counts: 2 }));

const text = (release) => `services: {web: {image: "x@sha256:${'1'.repeat(64)}", environment: {RELEASE: "${release}", SECRET: "\${SECRET}"}}}`;
const name = 'client-js';
const request = {
  name, instance_type: 'tdx.small', image: IMAGE, disk_size: 20, kms: 'PHALA', env_keys: ['SECRET'],
  compose_file: { name, docker_compose_file: text(1), allowed_envs: ['SECRET'] },
};
await step('provision with an allotted app id', async () => {
  const want = allotted.app_ids[0];
  const got = await sdk.provisionCvm(client, { ...request, app_id: want.app_id, nonce: want.nonce });
  expect(got.app_id === want.app_id, `asked for app ${want.app_id}, got ${got.app_id}`);
});
const provisioned = await step('provision', () => sdk.provisionCvm(client, request));
const sealed = await encryptEnvVars([{ key: 'SECRET', value: 'value' }], provisioned.app_env_encrypt_pubkey);
const commit = { app_id: provisioned.app_id, compose_hash: provisioned.compose_hash, encrypted_env: sealed, env_keys: ['SECRET'] };
const made = await step('create', () => sdk.commitCvmProvision(client, commit));
await step('the same create again', async () => {
  const again = await sdk.commitCvmProvision(client, commit);
  expect(again.vm_uuid === made.vm_uuid, `${again.vm_uuid} is another CVM than ${made.vm_uuid}`);
});
const uuid = made.vm_uuid;
const vm = { uuid };
const app = { appId: provisioned.app_id };
const running = await still(name);
await step('list', () => sdk.getCvmList(client));
await step('cvm by uuid', () => sdk.getCvmInfo(client, vm));
await step('cvm by app id', () => sdk.getCvmInfo(client, { app_id: provisioned.app_id }));
await step('cvm by name', () => sdk.getCvmInfo(client, { name }));
await step('cvm by instance id', () => sdk.getCvmInfo(client, { id: `instance_${running.instance_id}` }));
await step('state', () => sdk.getCvmState(client, vm));
await step('states', () => sdk.getCvmStatusBatch(client, { vmUuids: [uuid] }));
await step('compose file', () => sdk.getCvmComposeFile(client, vm));
await step('docker compose text', () => sdk.getCvmDockerCompose(client, vm));
await step('pre-launch script', () => sdk.getCvmPreLaunchScript(client, vm));
await step('network', () => sdk.getCvmNetwork(client, vm));
await step('user config', () => sdk.getCvmUserConfig(client, vm));
await step('images of a cvm', () => sdk.getAvailableOsImages(client, vm));
await step('env key', () => sdk.getAppEnvEncryptPubKey(client, { kms: 'phala', app_id: provisioned.app_id }));
await step('apps', () => sdk.getAppList(client));
await step('app', () => sdk.getAppInfo(client, app));
await step('cvms of an app', () => sdk.getAppCvms(client, app));
const revisions = await step('revisions', () => sdk.getAppRevisions(client, app));
await step('revision', () => sdk.getAppRevisionDetail(client, { ...app, revisionId: revisions.revisions[0].revision_id }));
await step('filters', () => sdk.getAppFilterOptions(client));
await step('devices of an app', () => sdk.getAppDeviceAllowlist(client, app));

const document = await client.get(`/cvms/${uuid.replace(/-/g, '')}/compose_file`);
const update = await step('provision an update', () => sdk.provisionCvmComposeFileUpdate(client, { ...vm, app_compose: { ...document, docker_compose_file: text(2) } }));
await step('update', () => sdk.commitCvmComposeFileUpdate(client, { ...vm, compose_hash: update.compose_hash }));
await still(name);
for (const [what, call] of [
  ['env', () => sdk.updateCvmEnvs(client, { ...vm, encrypted_env: sealed, env_keys: ['SECRET'] })],
  ['docker compose text replaced', () => sdk.updateDockerCompose(client, { ...vm, docker_compose_file: text(3) })],
  ['pre-launch script replaced', () => sdk.updatePreLaunchScript(client, { ...vm, pre_launch_script: document.pre_launch_script + '\n' })],
  ['pre-launch script put back', () => sdk.updatePreLaunchScript(client, { ...vm, pre_launch_script: document.pre_launch_script })],
  ['patch of a disk', () => sdk.patchCvm(client, { ...vm, disk_size: 30 })],
  ['patch of several things', () => sdk.patchCvm(client, { ...vm, vcpu: 2, memory: 4096, shutdown_timeout: 30, docker_compose_file: text(4) })],
  ['instance type', () => sdk.updateCvmResources(client, { ...vm, instance_type: 'tdx.large', allow_restart: true })],
  ['disk', () => sdk.updateCvmResources(client, { ...vm, disk_size: 40 })],
  ['os image', () => sdk.updateOsImage(client, { ...vm, os_image_name: OTHER_IMAGE })],
  ['visibility', () => sdk.updateCvmVisibility(client, { ...vm, public_sysinfo: false, public_logs: false })],
  ['instance id', () => sdk.refreshCvmInstanceId(client, vm)],
  ['stop', () => sdk.stopCvm(client, vm)],
  ['start', () => sdk.startCvm(client, vm)],
  ['restart', () => sdk.restartCvm(client, vm)],
  ['shutdown', () => sdk.shutdownCvm(client, vm)],
]) {
  await step(what, call);
  await still(name);
}
await step('watch', async () => {
  await sdk.startCvm(client, vm);
  await sdk.watchCvmState(client, { ...vm, target: 'running', interval: 5, timeout: 30 });
});
await still(name);
await step('an instance of an app', () => sdk.createAppInstance(client, { ...app, node_id: 1 }));
await step('an instance with another text', () => sdk.createAppInstance(client, { ...app, docker_compose_file: text(9) }));
await step('replica', () => sdk.replicateCvm(client, vm));
await step('a refused image', async () => {
  const got = await sdk.safeProvisionCvm(client, { ...request, name: 'client-bad', image: 'dstack-0.5.7' });
  expect(!got.success && got.error.errorCode === 'ERR-02-010', JSON.stringify(got));
});
await step('a refused field', async () => {
  const got = await sdk.safeProvisionCvm(client, { ...request, name: 'client-bad', nonce: 7 });
  expect(!got.success && got.error.status === 422, JSON.stringify(got));
});
await step('no such cvm', async () => {
  const got = await sdk.safeGetCvmInfo(client, { name: 'not-there' });
  expect(!got.success && got.error.status === 404, JSON.stringify(got));
});

await unserved('stats', () => sdk.getCvmStats(client, vm));
await unserved('containers', () => sdk.getCvmContainersStats(client, vm));
await unserved('attestation of a cvm', () => sdk.getCvmAttestation(client, vm));
await unserved('attestation of an app', () => sdk.getAppAttestation(client, { ...app }));
await unserved('key services on a chain', () => sdk.getKmsOnChainDetail(client, { chain: 'base' }));
await unserved('new ssh key', () => sdk.createSshKey(client, { name: 'key', public_key: 'ssh-ed25519 AAAA' }));
await unserved('instance ids of many', () => sdk.refreshCvmInstanceIds(client, {}));
await unserved('commit of a prepared update', () => sdk.commitCvmUpdate(client, { ...vm, token: 't', composeHash: 'h', transactionHash: 'x' }));
await unserved('allowed on a chain', () => sdk.checkCvmIsAllowed(client, { cvmId: uuid }));

await step('delete', () => sdk.deleteCvm(client, vm));
