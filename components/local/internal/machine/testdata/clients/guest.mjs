// Makes every call of npm @phala/dstack-sdk at the socket of a guest. Each step is one line of JSON on standard output;
// TestOfficialGuestClients reads them.
import { createHash, createPrivateKey, createPublicKey, X509Certificate } from 'node:crypto';
import { DstackClient, TappdClient, getComposeHash } from '@phala/dstack-sdk';
import { toKeypair, toKeypairSecure } from '@phala/dstack-sdk/solana';
import { toViemAccount, toViemAccountSecure } from '@phala/dstack-sdk/viem';

const { SOCKET, VERSION, APP_ID, INSTANCE_ID, COMPOSE_HASH } = process.env;
const client = new DstackClient(SOCKET);

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

// A call that this version of the guest has not, or a request that it refuses. shown is what the client makes of it.
async function refused(name, call, shown) {
  let error = 'was answered';
  try {
    await call();
  } catch (err) {
    error = err.message;
  }
  say({ step: name, unserved: true, ok: shown.test(error), error: error.slice(0, 300) });
}

const same = (got, want) => {
  const texts = [got, want].map((v) => (v instanceof Uint8Array ? Buffer.from(v).toString('hex') : JSON.stringify(v)));
  if (texts[0] !== texts[1]) throw new Error(`got ${texts[0]}, want ${texts[1]}`);
};
const differ = (a, b) => {
  if (Buffer.from(a).equals(Buffer.from(b))) throw new Error('both are the same');
};
const since = (version) => {
  const [have, want] = [VERSION, version].map((v) => v.split('.').map(Number));
  const at = have.findIndex((n, i) => n !== want[i]);
  return at < 0 || have[at] > want[at];
};
const registers = (info) => [0, 1, 2, 3].map((n) => info.tcb_info[`rtmr${n}`]);
const extension = (cert, arc) => cert.raw.includes(Buffer.from(`060a2b0601040183e73d01${arc}`, 'hex'));

await step('is reachable', async () => same(await client.isReachable(), true));
const info = await step('info', () => client.info());
await step('the ids of info', () => same([info.app_id, info.instance_id, info.compose_hash], [APP_ID, INSTANCE_ID, COMPOSE_HASH]));
await step('the document of info', () => same(createHash('sha256').update(info.tcb_info.app_compose).digest('hex'), COMPOSE_HASH));
await step('the hash of the parsed document', () => same(getComposeHash(JSON.parse(info.tcb_info.app_compose)), COMPOSE_HASH));
await step('the hashes of tcb_info', () => same([info.tcb_info.compose_hash, info.tcb_info.os_image_hash, info.tcb_info.device_id, info.tcb_info.mr_aggregated],
  [info.compose_hash, info.os_image_hash, info.device_id, info.mr_aggregated]));

const key = await step('key', () => client.getKey('path/of', 'purpose'));
await step('the same key again', async () => same((await client.getKey('path/of', 'purpose')).key, key.key));
await step('a key of another path', async () => differ((await client.getKey('path', 'purpose')).key, key.key));
await step('a key without a path', () => client.getKey());
await step('the signatures of a key', () => same(key.signature_chain.map((s) => s.length), [65, 65]));
await step('key k256', async () => same((await client.getKey('path/of', 'purpose', 'k256')).key, key.key));
await step('key ed25519', () => client.getKey('path/of', 'purpose', 'ed25519'));
await step('an account of Ethereum', () => same(toViemAccountSecure(key).address, toViemAccount(key).address));
await step('a pair of Solana', () => same(toKeypairSecure(key).publicKey.toBytes(), toKeypair(key).publicKey.toBytes()));
// Guests before 0.5.6 know one kind of key. The SDK (0.5.8) reads no error of a call for a key.
if (since('0.5.6')) await refused('a key of an unknown algorithm', () => client.getKey('p', '', 'rsa'), /undefined/);

const tls = await step('tls key', () => client.getTlsKey({ subject: 'x.test', altNames: ['x.test', 'y.test'], usageServerAuth: true, usageClientAuth: true, usageRaTls: true }));
await step('the certificates of a tls key', () => {
  const chain = tls.certificate_chain.map((pem) => new X509Certificate(pem));
  same([chain[0].subjectAltName, chain[0].checkHost('y.test')], ['DNS:x.test, DNS:y.test', 'y.test']);
  same(chain.slice(1).map((issuer, n) => chain[n].verify(issuer.publicKey)), chain.slice(1).map(() => true));
  same(chain[0].keyUsage, ['1.3.6.1.5.5.7.3.1', '1.3.6.1.5.5.7.3.2']);
});
await step('the evidence in a certificate', () => same(extension(new X509Certificate(tls.certificate_chain[0]), since('0.5.6') ? '08' : '01'), true));
await step('the private key of a certificate', () => {
  const spki = (k) => k.export({ type: 'spki', format: 'der' });
  same(spki(createPublicKey(createPrivateKey(tls.key))), spki(new X509Certificate(tls.certificate_chain[0]).publicKey));
  same(tls.asUint8Array(32).length, 32);
});
await step('tls key without options', async () => {
  const other = await client.getTlsKey();
  const cert = new X509Certificate(other.certificate_chain[0]);
  same([cert.keyUsage, extension(cert, '08') || extension(cert, '01')], [['1.3.6.1.5.5.7.3.1'], false]);
  differ(Buffer.from(other.key), Buffer.from(tls.key));
});
const from = Math.floor(Date.now() / 1000);
await step('tls key with a time', async () => {
  const cert = new X509Certificate((await client.getTlsKey({ notBefore: from, notAfter: from + 3600 })).certificate_chain[0]);
  if (since('0.5.6')) same([Date.parse(cert.validFrom), Date.parse(cert.validTo)], [from * 1000, (from + 3600) * 1000]);
});
await step('tls key with app info', () => client.getTlsKey({ withAppInfo: true }));
if (since('0.6.0')) await step('tls key whose time is over before it begins', async () => same((await client.getTlsKey({ notBefore: from, notAfter: from })).error, 'not_before must be earlier than not_after'));

// Guests from 0.5.6 on show the runtime events without digests, so that the SDK's replay of RTMR3 is another value.
const replayed = (quote, now) => same(quote.replayRtmrs().map((r, n) => r === registers(now)[n]), [true, true, true, !since('0.5.6')]);
const quote = await step('quote', () => client.getQuote('hello'));
await step('the report data of a quote', () => same(quote.report_data, Buffer.from('hello').toString('hex').padEnd(128, '0')));
await step('the registers of a quote', () => {
  for (const [n, register] of registers(info).entries()) same(quote.quote.includes(register), true, n);
  replayed(quote, info);
});
await step('the machine of a quote', () => same(JSON.parse(quote.vm_config).os_image_hash, info.os_image_hash));
await step('quote over 64 bytes', async () => same((await client.getQuote(Buffer.alloc(64, 7))).report_data, '07'.repeat(64)));
await refused('quote over 65 bytes', () => client.getQuote(Buffer.alloc(65)), /too large/);
await step('tdxQuote', () => client.tdxQuote('hello', 'raw'));

if (since('0.6.0')) {
  // The SDK (0.5.8) reads no error of this call: the guest refuses it, and the program goes on.
  await step('an event is refused, and measured nowhere', async () => {
    await client.emitEvent('my-event', 'payload');
    same(registers(await client.info()), registers(info));
  });
} else {
  await step('event', () => client.emitEvent('my-event', 'payload'));
  await step('an event is measured', async () => {
    const now = await client.info();
    same(registers(now).map((r, n) => r === registers(info)[n]), [true, true, true, false]);
    const last = now.tcb_info.event_log.at(-1);
    same([last.event, last.event_payload, last.imr], ['my-event', Buffer.from('payload').toString('hex'), 3]);
    replayed(await client.getQuote('again'), now);
  });
}

const digest = createHash('sha256').update('data').digest();
const algorithms = { ed25519: 'data', secp256k1: 'data', secp256k1_prehashed: digest };
if (since('0.5.6')) {
  await step('attest', async () => {
    const { attestation } = await client.attest('hello');
    same([attestation.startsWith('0000'), attestation.includes(Buffer.from('hello').toString('hex'))], [true, true]);
  });
  for (const [algorithm, data] of Object.entries(algorithms)) {
    const signed = await step(`sign ${algorithm}`, () => client.sign(algorithm, data));
    await step(`verify ${algorithm}`, async () => {
      same((await client.verify(algorithm, data, signed.signature, signed.public_key)).valid, true);
      same((await client.verify(algorithm, createHash('sha256').update('other').digest(), signed.signature, signed.public_key)).valid, false);
    });
  }
  await refused('sign with an unknown algorithm', () => client.sign('rsa', 'data'), /undefined/);
} else {
  await refused('attest', () => client.attest('hello'), /Method not found/);
  await refused('sign', () => client.sign('ed25519', 'data'), /undefined/);
  await step('verify is refused', async () => same((await client.verify('ed25519', 'data', digest, digest)).error, 'Method not found'));
}
await step('version', async () => {
  const said = await client.version();
  same(since('0.5.7') ? said.version : said.error, since('0.5.7') ? VERSION : 'Method not found');
});
await refused('deriveKey', () => client.deriveKey('p', 's'), /deprecated/);

const legacy = new TappdClient(SOCKET);
await step('info of the legacy client', async () => same((await legacy.info()).app_id, APP_ID));
await step('key of the legacy client', async () => same((await legacy.getKey('path/of', 'purpose')).key, key.key));
await step('deriveKey of the legacy client is refused', async () => same((await legacy.deriveKey('p', 's')).error, 'Method not found'));
await refused('tdxQuote of the legacy client', () => legacy.tdxQuote('hello', 'raw'), /Method not found/);
