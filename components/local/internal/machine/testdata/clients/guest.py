# Makes every call of PyPI dstack-sdk at the socket of a guest. Each step is one line of JSON on standard output;
# TestOfficialGuestClients reads them.
import asyncio
import hashlib
import json
import os
import time
import warnings

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from dstack_sdk import AsyncDstackClient, AsyncTappdClient, DstackClient, TappdClient, get_compose_hash

warnings.simplefilter("ignore", DeprecationWarning)
SOCKET, VERSION, APP_ID = (os.environ[name] for name in ("SOCKET", "VERSION", "APP_ID"))
INSTANCE_ID, COMPOSE_HASH = os.environ["INSTANCE_ID"], os.environ["COMPOSE_HASH"]
client = DstackClient(SOCKET, timeout=30)


def say(**line):
    print(json.dumps(line), flush=True)


def step(name, call):
    try:
        result = call()
    except Exception as err:  # a step that fails is reported, and the next one runs
        say(step=name, ok=False, error=f"{type(err).__name__} {' '.join(str(err).split())}"[:500])
        return None
    say(step=name, ok=True)
    return result


# A call that this version of the guest has not, or a request that it refuses. The SDK (0.5.4) shows the status alone.
def refused(name, call, shown):
    error = "was answered"
    try:
        call()
    except Exception as err:
        error = str(err)
    say(step=name, unserved=True, ok=shown in error, error=error[:300])


def same(got, want):
    if got != want:
        raise ValueError(f"got {got}, want {want}")


def since(version):
    return [int(n) for n in VERSION.split(".")] >= [int(n) for n in version.split(".")]


def registers(info):
    return [info.tcb_info.rtmr0, info.tcb_info.rtmr1, info.tcb_info.rtmr2, info.tcb_info.rtmr3]


# Guests from 0.5.6 on show the runtime events without digests, so that the SDK's replay of RTMR3 is another value.
def replayed(quote, info):
    same([quote.replay_rtmrs()[n] == r for n, r in enumerate(registers(info))], [True, True, True, not since("0.5.6")])


step("is reachable", lambda: same(client.is_reachable(), True))
info = step("info", client.info)
step("the ids of info", lambda: same([info.app_id, info.instance_id, info.compose_hash], [APP_ID, INSTANCE_ID, COMPOSE_HASH]))
step("the document of info", lambda: same(hashlib.sha256(info.tcb_info.app_compose.encode()).hexdigest(), COMPOSE_HASH))
step("the hash of the parsed document", lambda: same(get_compose_hash(json.loads(info.tcb_info.app_compose)), COMPOSE_HASH))

key = step("key", lambda: client.get_key("path/of", "purpose"))
step("the same key again", lambda: same(client.get_key("path/of", "purpose").decode_key(), key.decode_key()))
step("a key of another path", lambda: same(client.get_key("path", "purpose").key == key.key, False))
step("a key without a path", client.get_key)
step("the signatures of a key", lambda: same([len(s) for s in key.decode_signature_chain()], [65, 65]))
step("key k256", lambda: same(client.get_key("path/of", "purpose", "k256").key, key.key))
if since("0.5.7"):
    step("key ed25519", lambda: client.get_key("path/of", "purpose", "ed25519"))
    refused("a key of an unknown algorithm", lambda: client.get_key("p", "", "rsa"), "400 Bad Request")
else:
    refused("key ed25519", lambda: client.get_key("path/of", "purpose", "ed25519"), "OS version too old")


def certificates(reply):
    return [x509.load_pem_x509_certificate(pem.encode()) for pem in reply.certificate_chain]


def extension(cert, arc):
    return any(e.oid.dotted_string == f"1.3.6.1.4.1.62397.1.{arc}" for e in cert.extensions)


def chained(reply):
    chain = certificates(reply)
    same(chain[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName), ["x.test", "y.test"])
    for cert, issuer in zip(chain, chain[1:]):
        cert.verify_directly_issued_by(issuer)


def spki(public):
    return public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


tls = step("tls key", lambda: client.get_tls_key(
    subject="x.test", alt_names=["x.test", "y.test"], usage_ra_tls=True, usage_server_auth=True, usage_client_auth=True))
step("the certificates of a tls key", lambda: chained(tls))
step("the evidence in a certificate", lambda: same(extension(certificates(tls)[0], 8 if since("0.5.6") else 1), True))
step("the private key of a certificate", lambda: same(
    spki(load_pem_private_key(tls.key.encode(), None).public_key()), spki(certificates(tls)[0].public_key())))
step("the bytes of a private key", lambda: same(len(tls.as_uint8array(32)), 32))
step("tls key without options", lambda: same(extension(certificates(client.get_tls_key())[0], 8), False))
start = int(time.time())


def timed():
    cert = certificates(client.get_tls_key(not_before=start, not_after=start + 3600))[0]
    same([int(cert.not_valid_before_utc.timestamp()), int(cert.not_valid_after_utc.timestamp())], [start, start + 3600])


if since("0.5.7"):
    step("tls key with a time", timed)
    step("tls key with app info", lambda: client.get_tls_key(with_app_info=True))
else:
    refused("tls key with a time", timed, "OS version too old")
    refused("tls key with app info", lambda: client.get_tls_key(with_app_info=True), "OS version too old")

quote = step("quote", lambda: client.get_quote("hello"))
step("the report data of a quote", lambda: same(bytes.fromhex(quote.report_data), b"hello".ljust(64, b"\0")))
step("the registers of a quote", lambda: [same(bytes.fromhex(r) in quote.decode_quote(), True) for r in registers(info)])
step("the events of a quote", lambda: same("compose-hash" in [e.event for e in quote.decode_event_log()], True))
step("the registers of the events", lambda: replayed(quote, info))
step("quote over 64 bytes", lambda: same(client.get_quote(b"\7" * 64).report_data, "07" * 64))
refused("quote over 65 bytes", lambda: client.get_quote(b"\7" * 65), "less than 64 bytes")


def measured():
    now = client.info()
    same([a == b for a, b in zip(registers(now), registers(info))], [True, True, True, False])
    last = now.tcb_info.event_log[-1]
    same([last.event, bytes.fromhex(last.event_payload), last.imr], ["my-event", b"payload", 3])
    replayed(client.get_quote("again"), now)


if since("0.6.0"):
    refused("event", lambda: client.emit_event("my-event", "payload"), "404 Not Found")
else:
    step("event", lambda: client.emit_event("my-event", "payload"))
    step("an event is measured", measured)

for algorithm, data in {"ed25519": b"data", "secp256k1": b"data", "secp256k1_prehashed": hashlib.sha256(b"data").digest()}.items():
    if not since("0.5.6"):
        refused(f"sign {algorithm}", lambda: client.sign(algorithm, data), "404 Not Found")
        refused(f"verify {algorithm}", lambda: client.verify(algorithm, data, data, data), "404 Not Found")
        continue
    signed = step(f"sign {algorithm}", lambda: client.sign(algorithm, data))
    step(f"the signatures of {algorithm}", lambda: same(signed.decode_signature_chain()[0], signed.decode_signature()))
    for words, valid in ((data, True), (hashlib.sha256(b"other").digest(), False)):
        step(f"verify {algorithm}: {valid}", lambda: same(
            client.verify(algorithm, words, signed.decode_signature(), signed.decode_public_key()).valid, valid))
if since("0.5.6"):
    refused("sign with an unknown algorithm", lambda: client.sign("rsa", b"data"), "400 Bad Request")
    step("attest", lambda: same(b"hello" in client.attest("hello").decode_attestation(), True))
else:
    refused("attest", lambda: client.attest("hello"), "404 Not Found")
if since("0.5.7"):
    step("version", lambda: same(client.version().version, VERSION))
else:
    refused("version", client.version, "404 Not Found")


async def asynchronous():
    async with AsyncDstackClient(SOCKET, timeout=30) as other:
        same((await other.info()).app_id, APP_ID)
        same((await other.get_key("path/of", "purpose")).key, key.key)
        await asyncio.gather(*(other.get_quote(f"quote {n}") for n in range(4)))


step("the asynchronous client", lambda: asyncio.run(asynchronous()))

# The legacy clients ask for /prpc/Tappd.*, which guests serve at another socket and the local cloud does not.
legacy = TappdClient(SOCKET, timeout=30)
refused("info of the legacy client", legacy.info, "404 Not Found")
refused("derive_key of the legacy client", lambda: legacy.derive_key("p", "s"), "404 Not Found")
refused("tdx_quote of the legacy client", lambda: legacy.tdx_quote("hello", "raw"), "404 Not Found")
refused("info of the asynchronous legacy client", lambda: asyncio.run(AsyncTappdClient(SOCKET).info()), "404 Not Found")
