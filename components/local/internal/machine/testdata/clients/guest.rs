// Makes every call of the crate dstack-sdk at the socket of a guest. Each step is one line of JSON on standard output;
// TestOfficialGuestClients reads them. scripts/test-clients.sh builds it.
use dstack_sdk::dstack_client::{DstackClient, TlsKeyConfig};
use dstack_sdk::tappd_client::TappdClient;
use serde_json::json;
use std::fmt::Debug;

fn say(name: &str, unserved: bool, error: Option<String>) {
    println!("{}", json!({"step": name, "unserved": unserved, "ok": error.is_none(), "error": error}));
}

fn step<T, E: Debug>(name: &str, result: Result<T, E>) -> Option<T> {
    match result {
        Ok(value) => {
            say(name, false, None);
            Some(value)
        }
        Err(err) => {
            say(name, false, Some(format!("{err:?}")));
            None
        }
    }
}

fn same<T: PartialEq + Debug>(name: &str, got: T, want: T) {
    step(name, if got == want { Ok(()) } else { Err(format!("got {got:?}, want {want:?}")) });
}

// A call that this version of the guest has not, or a request that it refuses. The client (0.1.3) shows the status alone.
fn refused<T, E: Debug>(name: &str, result: Result<T, E>, shown: &str) {
    let error = match result {
        Ok(_) => "was answered".to_string(),
        Err(err) => format!("{err:?}"),
    };
    say(name, true, if error.contains(shown) { None } else { Some(error) });
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map(|n| n.parse().expect("a version")).collect()
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (socket, version, compose_hash) = (variable("SOCKET"), variable("VERSION"), variable("COMPOSE_HASH"));
    let since = |want: &str| numbers(&version) >= numbers(want);
    let client = DstackClient::new(Some(&socket));

    let info = step("info", client.info().await).expect("no step is left without it");
    same("the ids of info", (&info.app_id, &info.instance_id, &info.compose_hash), (&variable("APP_ID"), &variable("INSTANCE_ID"), &compose_hash));
    same("the hashes of tcb_info", (&info.tcb_info.compose_hash, &info.tcb_info.os_image_hash), (&compose_hash, &info.os_image_hash));

    let (path, purpose) = (Some("path/of".to_string()), Some("purpose".to_string()));
    let key = step("key", client.get_key(path.clone(), purpose.clone()).await).expect("no step is left without it");
    same("the same key again", client.get_key(path, purpose).await.ok().map(|k| k.key), Some(key.key.clone()));
    same("the bytes of a key", key.decode_key().ok().map(|k| k.len()), Some(32));
    same("the signatures of a key", key.decode_signature_chain().ok().map(|c| c.iter().map(Vec::len).collect()), Some(vec![65, 65]));
    step("a key without a path", client.get_key(None, None).await);
    step("an account of Ethereum", dstack_sdk::ethereum::to_account(&key));

    let config = TlsKeyConfig::builder()
        .subject("x.test")
        .alt_names(vec!["x.test".to_string(), "y.test".to_string()])
        .usage_ra_tls(true)
        .usage_server_auth(true)
        .usage_client_auth(true)
        .build();
    let tls = step("tls key", client.get_tls_key(config).await);
    same("the certificates of a tls key", tls.map(|t| t.certificate_chain.len()), Some(3));
    step("tls key without options", client.get_tls_key(TlsKeyConfig::builder().build()).await);

    if let Some(quote) = step("quote", client.get_quote(b"hello".to_vec()).await) {
        same("the report data of a quote", quote.report_data.starts_with("68656c6c6f00"), true);
        step("the bytes of a quote", quote.decode_quote());
        step("the events of a quote", quote.decode_event_log());
        // Guests from 0.5.6 on show the runtime events without digests: the SDK's replay of RTMR3 is another value.
        let replayed = step("the replay of a quote", quote.replay_rtmrs()).unwrap_or_default();
        same("the registers of the events", (replayed[&0] == info.tcb_info.rtmr0, replayed[&3] == info.tcb_info.rtmr3), (true, !since("0.5.6")));
    }
    refused("quote over 65 bytes", client.get_quote(vec![7; 65]).await, "Invalid report data length");

    let event = client.emit_event("my-event".to_string(), b"payload".to_vec()).await;
    if since("0.6.0") {
        refused("event", event, "404 Not Found");
    } else {
        step("event", event);
        let now = client.info().await.ok().map(|i| i.tcb_info.rtmr3 != info.tcb_info.rtmr3);
        same("an event is measured", now, Some(true));
    }

    for algorithm in ["ed25519", "secp256k1", "secp256k1_prehashed"] {
        let data = vec![7; 32];
        let signed = client.sign(algorithm, data.clone()).await;
        if !since("0.5.6") {
            refused(&format!("sign {algorithm}"), signed, "404 Not Found");
            refused(&format!("verify {algorithm}"), client.verify(algorithm, data.clone(), data.clone(), data).await, "404 Not Found");
            continue;
        }
        let Some(signed) = step(&format!("sign {algorithm}"), signed) else { continue };
        let (signature, public) = (signed.decode_signature().unwrap_or_default(), signed.decode_public_key().unwrap_or_default());
        for (words, valid) in [(data, true), (vec![8; 32], false)] {
            let said = client.verify(algorithm, words, signature.clone(), public.clone()).await;
            same(&format!("verify {algorithm}: {valid}"), said.ok().map(|v| v.valid), Some(valid));
        }
    }
    let attested = client.attest(b"hello".to_vec()).await;
    if since("0.5.6") {
        refused("sign with an unknown algorithm", client.sign("rsa", b"data".to_vec()).await, "400 Bad Request");
        let bytes = step("attest", attested).and_then(|a| a.decode_attestation().ok()).unwrap_or_default();
        same("the version of an attestation", bytes.first(), Some(&0));
    } else {
        refused("attest", attested, "404 Not Found");
    }
    let said = client.version().await;
    if since("0.5.7") {
        same("version", said.ok().map(|v| v.version), Some(version.clone()));
    } else {
        refused("version", said, "404 Not Found");
    }

    // The legacy client asks for /prpc/Tappd.*, which guests serve at another socket and the local cloud does not. It names
    // no host, and an HTTP server of Go answers that in plain text, which the client cannot read.
    let legacy = TappdClient::new(Some(&socket));
    refused("info of the legacy client", legacy.info().await, "Failed to parse http json response");
    refused("derive_key of the legacy client", legacy.derive_key("p").await, "Failed to parse http json response");
    refused("get_quote of the legacy client", legacy.get_quote(vec![7; 64]).await, "Failed to parse http json response");
}
