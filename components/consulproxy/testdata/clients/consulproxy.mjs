// Makes the calls of npm consul at the Consul of a member. Each step is one line of JSON on standard output;
// TestOfficialConsulClient reads them.
import Consul from 'consul';

const { PORT, TOKEN, FOREIGN_TOKEN, GROUP, SLOT, OTHER_SLOT, SERVICE_PORT } = process.env;
const at = (token) => new Consul({ host: '127.0.0.1', port: Number(PORT), defaults: { token } });
const client = at(TOKEN);
const folder = `service/${GROUP}`;

const say = (line) => console.log(JSON.stringify(line));

async function step(name, call) {
  try {
    const result = await call();
    say({ step: name, ok: true });
    return result;
  } catch (err) {
    say({ step: name, ok: false, error: String(err.stack).slice(0, 500) });
    return undefined;
  }
}

// A request that the Consul proxy refuses. The client (2.0.1) shows a text of fewer than 80 bytes as its message, and has a longer
// one in the response alone.
async function refused(name, code, call, text = (err) => err.response?.body) {
  let error = 'was answered';
  try {
    await call();
  } catch (err) {
    error = text(err) ?? err.message;
  }
  say({ step: name, unserved: true, ok: error.includes(code), error: error.slice(0, 300) });
}

const same = (got, want) => {
  if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
};

// The first answer of a watch that is as wanted. change is made once the watch waits.
const watched = (options, wanted, change) => new Promise((done, fail) => {
  const watch = client.watch({ ...options, maxAttempts: 0 });
  let waits = false;
  watch.on('error', (err) => { watch.end(); fail(err); });
  watch.on('change', (data) => {
    if (wanted(data)) { watch.end(); done(data); return; }
    if (!waits) { waits = true; change().catch(fail); }
  });
});

await step('status leader', async () => same(/:\d+$/.test(await client.status.leader()), true));
await step('agent self', async () => same((await client.agent.self()).Config.NodeName, SLOT));

// The client encodes the whole key, with its slashes.
await step('kv set', async () => same(await client.kv.set(`${folder}/js/a`, 'v'), true));
await step('kv get', async () => same((await client.kv.get(`${folder}/js/a`)).Value, 'v'));
await step('kv get of the key itself', async () => same((await client.kv.get(`${folder}/js/a`)).Key, `${folder}/js/a`));
await step('kv get raw', async () => same(String(await client.kv.get({ key: `${folder}/js/a`, raw: true })), 'v'));
await step('kv get of a key that is not there', async () => same(await client.kv.get(`${folder}/js/none`), undefined));
await step('kv set of a key with letters that are encoded', async () => same(await client.kv.set(`${folder}/js/ü +?#&`, 'w'), true));
await step('kv keys', async () => same(await client.kv.keys(`${folder}/js/`), [`${folder}/js/a`, `${folder}/js/ü +?#&`]));
await step('kv keys with a separator', async () => same(await client.kv.keys({ key: `${folder}/`, separator: '/' }), [`${folder}/js/`]));
await step('kv get recurse', async () => same((await client.kv.get({ key: `${folder}/js/`, recurse: true })).map((pair) => pair.Value), ['v', 'w']));
await step('kv keys of the folder without its slash', async () => same((await client.kv.keys(folder)).length, 2));
await step('kv get recurse of the folder without its slash', async () => same((await client.kv.get({ key: folder, recurse: true })).length, 2));
await step('kv set with cas', async () => {
  const { ModifyIndex } = await client.kv.get(`${folder}/js/a`);
  const set = (value) => client.kv.set({ key: `${folder}/js/a`, value, cas: ModifyIndex, flags: 7 });
  // The client makes undefined of false.
  same([await set('x'), await set('y')], [true, undefined]);
  same((await client.kv.get(`${folder}/js/a`)).Flags, 7);
});
await refused('kv set outside of the group', 'CONSUL_PROXY_FORBIDDEN', () => client.kv.set('service/other/a', 'v'));
await refused('kv keys of a prefix of other groups as well', 'CONSUL_PROXY_FORBIDDEN', () => client.kv.keys(folder.slice(0, -1)));
await refused('kv keys of all', 'CONSUL_PROXY_FORBIDDEN', () => client.kv.keys(''));
await refused('kv get with dots', 'CONSUL_PROXY_INVALID', () => client.kv.get(`${folder}/../other/a`));
await refused('kv get of a key that is encoded twice', 'CONSUL_PROXY_INVALID', () => client.kv.get(`${folder}%2Fjs%2Fa`));

const session = await step('session create', async () => (await client.session.create({ name: 'js', ttl: '15s', behavior: 'delete', lockdelay: '1ms' })).ID);
await step('session info', async () => {
  const found = await client.session.info(session);
  same([found.Node, found.TTL, found.Behavior, found.Name], [SLOT, '15s', 'delete', 'js']);
});
await step('session node', async () => same((await client.session.node(SLOT)).map((s) => s.ID), [session]));
await step('session list', async () => same((await client.session.list()).map((s) => s.ID), [session]));
await step('session renew', async () => same((await client.session.renew(session))[0].ID, session));
await step('acquire', async () => same(await client.kv.set({ key: `${folder}/js/lock`, value: 'held', acquire: session }), true));
await step('another session does not acquire', async () => {
  const { ID } = await client.session.create({ ttl: '15s' });
  same(await client.kv.set({ key: `${folder}/js/lock`, value: 'other', acquire: ID }), undefined);
  await client.session.destroy(ID);
});
await step('the lock names its session', async () => same((await client.kv.get(`${folder}/js/lock`)).Session, session));
await step('release', async () => same(await client.kv.set({ key: `${folder}/js/lock`, value: 'free', release: session }), true));
await step('watch of a key', () => watched({ method: client.kv.get, options: { key: `${folder}/js/lock`, wait: '20s' } }, (pair) => pair?.Value === 'new',
  () => client.kv.set(`${folder}/js/lock`, 'new')));
await step('the end of a session deletes its key', async () => {
  same(await client.kv.set({ key: `${folder}/js/lock`, value: 'held', acquire: session }), true);
  await client.session.destroy(session);
  same([await client.kv.get(`${folder}/js/lock`), await client.session.info(session)], [undefined, undefined]);
});
await refused('sessions of another node', 'CONSUL_PROXY_FORBIDDEN', () => client.session.node(OTHER_SLOT));

const encoded = (text) => Buffer.from(text).toString('base64');
await step('transaction', async () => {
  const { Results } = await client.transaction.create([
    { KV: { Verb: 'set', Key: `${folder}/js/t`, Value: encoded('t') } }, { KV: { Verb: 'get', Key: `${folder}/js/a` } }]);
  same([Results.length, Results[1].KV.Value], [2, encoded('x')]);
});
await refused('transaction outside of the group', 'CONSUL_PROXY_FORBIDDEN', () => client.transaction.create([{ KV: { Verb: 'set', Key: 'service/other/a', Value: '' } }]));

const own = { [SLOT]: Number(SERVICE_PORT), [OTHER_SLOT]: Number(SERVICE_PORT) };
const ports = (entries, node, port) => Object.fromEntries(entries.map((entry) => [node(entry), port(entry)]).sort());
await step('health service', async () => same(ports(await client.health.service({ service: GROUP, passing: true }), (e) => e.Node.Node, (e) => e.Service.Port), own));
await step('health service with a tag', async () => same((await client.health.service({ service: GROUP, tag: 'leader' })).map((e) => e.Node.Node), [SLOT]));
await step('health checks', async () => same((await client.health.checks(GROUP)).map((check) => check.Status), ['passing', 'passing']));
await step('health node', async () => same((await client.health.node(SLOT)).every((check) => check.Node === SLOT), true));
await step('health state', async () => same((await client.health.state('critical')).length, 0));
await step('catalog datacenters', async () => same(await client.catalog.datacenters(), ['dc1']));
await step('catalog nodes', async () => same((await client.catalog.node.list()).some((node) => node.Node === OTHER_SLOT), true));
await step('catalog node services', async () => same(Object.values((await client.catalog.node.services(SLOT)).Services).find((s) => s.Service === GROUP).Port, Number(SERVICE_PORT)));
await step('catalog services', async () => same(Object.keys(await client.catalog.service.list()).includes(GROUP), true));
await step('the port of the own service in the catalog', async () => same(ports(await client.catalog.service.nodes(GROUP), (e) => e.Node, (e) => e.ServicePort), own));
await step('watch of a service', () => watched({ method: client.health.service, options: { service: GROUP, passing: true } }, (entries) => entries.length === 2, async () => {}));

await refused('a request without a token', 'CONSUL_PROXY_TOKEN_MISSING', () => at(undefined).kv.get(`${folder}/js/a`), (err) => err.message);
await refused('a token of another member', 'CONSUL_PROXY_TOKEN_FOREIGN', () => at(FOREIGN_TOKEN).kv.get(`${folder}/js/a`), (err) => err.message);
await step('status leader without a token', () => at(undefined).status.leader());

for (const [name, call] of Object.entries({
  'agent members': () => client.agent.members(),
  'agent reload': () => client.agent.reload(),
  'agent maintenance': () => client.agent.maintenance(true),
  'agent join': () => client.agent.join('127.0.0.1'),
  'agent check list': () => client.agent.check.list(),
  'agent check register': () => client.agent.check.register({ name: 'x', ttl: '10s' }),
  'agent check pass': () => client.agent.check.pass('x'),
  'agent service list': () => client.agent.service.list(),
  'agent service register': () => client.agent.service.register('x'),
  'agent service deregister': () => client.agent.service.deregister('x'),
  'catalog register': () => client.catalog.register({ node: 'x', address: '127.0.0.1' }),
  'catalog deregister': () => client.catalog.deregister(OTHER_SLOT),
  'catalog connect nodes': () => client.catalog.connect.nodes(GROUP),
  'event fire': () => client.event.fire('x'),
  'event list': () => client.event.list(),
  'prepared query list': () => client.query.list(),
  'prepared query create': () => client.query.create({ name: 'x', service: { service: GROUP } }),
  'prepared query execute': () => client.query.execute('x'),
  'status peers': () => client.status.peers(),
  'acl bootstrap': () => client.acl.bootstrap(),
  'acl replication': () => client.acl.replication(),
})) await refused(name, 'CONSUL_PROXY_FORBIDDEN', call);

await step('kv del', async () => same(await client.kv.del(`${folder}/js/t`), true));
await step('kv del recurse', async () => {
  same(await client.kv.del({ key: `${folder}/js/`, recurse: true }), true);
  same(await client.kv.get({ key: folder, recurse: true }), undefined);
});
client.destroy();
