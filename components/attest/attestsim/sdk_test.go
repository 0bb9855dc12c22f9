package attestsim_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Dstack-TEE/dstack/sdk/go/dstack"

	"cadre.dev/attest"
	"cadre.dev/attest/attestsim"
)

// sdkClient drives a booted guest with the official SDK.
func sdkClient(t *testing.T, c *attestsim.Cloud, cfg attestsim.BootConfig) (*dstack.DstackClient, *attestsim.Guest, string) {
	t.Helper()
	g, socket := serve(t, c, cfg)
	return dstack.NewDstackClient(dstack.WithEndpoint(socket)), g, socket
}

func TestSDKGetQuote(t *testing.T) {
	ctx := context.Background()
	cloud := openCloud(t)
	cfg := bootConfig(t)
	client, _, _ := sdkClient(t, cloud, cfg)
	reply, err := client.GetQuote(ctx, []byte{0x12, 0x34})
	if err != nil {
		t.Fatal(err)
	}
	if want := "1234" + strings.Repeat("00", 62); reply.ReportData != want {
		t.Errorf("report data %s", reply.ReportData)
	}
	quote, err := reply.DecodeQuote()
	if err != nil {
		t.Fatal(err)
	}
	ev := attest.Evidence{Quote: quote, EventLog: reply.EventLog, AppCompose: cfg.AppCompose}
	if _, err := newVerifier(t, cloud.RootPEM()).Verify(ctx, ev, [64]byte{0x12, 0x34}); err != nil {
		t.Error(err)
	}
	var config map[string]any
	if err := json.Unmarshal([]byte(reply.VmConfig), &config); err != nil || len(config["os_image_hash"].(string)) != 64 {
		t.Errorf("vm_config %s: %v", reply.VmConfig, err)
	}
}

// TestLogStyles: the SDK replays old agents' logs correctly. Its replay is wrong for logs of newer
// agents, which leave the runtime digests out.
func TestLogStyles(t *testing.T) {
	ctx := context.Background()
	for version, stripped := range map[string]bool{"0.5.5": false, "0.5.6": true} {
		cfg := bootConfig(t)
		cfg.AgentVersion = version
		client, _, _ := sdkClient(t, openCloud(t), cfg)
		reply, err := client.GetQuote(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		info, err := client.Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		tcb, err := info.DecodeTcbInfo()
		if err != nil {
			t.Fatal(err)
		}
		registers, err := reply.ReplayRTMRs()
		if err != nil {
			t.Fatal(err)
		}
		if registers[0] != tcb.Rtmr0 || registers[1] != tcb.Rtmr1 || registers[2] != tcb.Rtmr2 {
			t.Errorf("%s: RTMR0 to 2 do not replay", version)
		}
		if (registers[3] == tcb.Rtmr3) == stripped {
			t.Errorf("%s: RTMR3 replays from the digests: %t", version, !stripped)
		}
		events, err := reply.DecodeEventLog()
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range events {
			if (ev.IMR == 3) == stripped && (ev.Digest == "") != (ev.IMR == 3) {
				t.Errorf("%s: event %+v", version, ev)
			}
		}
	}
}

func TestSDKInfo(t *testing.T) {
	ctx := context.Background()
	cloud := openCloud(t)
	cfg := bootConfig(t)
	emptyHash := sha256.Sum256(nil)
	for version, quirk := range map[string]bool{"0.5.4": false, "0.5.6": true, "0.5.11": true, "0.5.12": false} {
		cfg.AgentVersion = version
		client, guest, socket := sdkClient(t, cloud, cfg)
		info, err := client.Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		composeHash := sha256.Sum256(cfg.AppCompose)
		if info.AppID != testAppID || info.InstanceID != guest.InstanceID() || info.ComposeHash != hex.EncodeToString(composeHash[:]) || info.AppName != "web-0" {
			t.Errorf("info %+v", info)
		}
		tcb, err := info.DecodeTcbInfo()
		if err != nil {
			t.Fatal(err)
		}
		if tcb.AppCompose != string(cfg.AppCompose) {
			t.Errorf("app_compose %q", tcb.AppCompose)
		}
		if (info.DeviceID == hex.EncodeToString(emptyHash[:])) != quirk {
			t.Errorf("%s: device id %s", version, info.DeviceID)
		}
		if !strings.Contains(info.KeyProviderInfo, cloud.KeyProviderID()) || !strings.HasPrefix(cloud.KeyProviderID(), "3059301306072a8648ce3d") {
			t.Errorf("key provider %s", info.KeyProviderInfo)
		}
		if block, _ := pem.Decode([]byte(info.AppCert)); block == nil {
			t.Error("app_cert is no PEM")
		}
		ours, err := attest.NewGuestClient(socket).Info(ctx)
		if err != nil || ours.InstanceID != info.InstanceID || !bytes.Equal(ours.AppCompose, cfg.AppCompose) || ours.OSImageHash != info.OsImageHash {
			t.Errorf("our client's info %+v, error %v", ours, err)
		}
	}
}

func TestSDKGetKey(t *testing.T) {
	ctx := context.Background()
	cloud := openCloud(t)
	cfg := bootConfig(t)
	first, _, socket := sdkClient(t, cloud, cfg)
	cfg.InstanceIDSeed = bytes.Repeat([]byte{0xbb}, 20)
	cfg.AppCompose = appCompose(t, func(f map[string]any) { f["name"] = "updated" })
	replica, _, _ := sdkClient(t, cloud, cfg)
	cfg.AppID = strings.Repeat("02", 20)
	otherApp, _, _ := sdkClient(t, cloud, cfg)

	get := func(c *dstack.DstackClient, path, purpose, algorithm string) *dstack.GetKeyResponse {
		t.Helper()
		key, err := c.GetKey(ctx, path, purpose, algorithm)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	base := get(first, "cadre/v1/ca", "ca", "")
	if get(replica, "cadre/v1/ca", "ca", "").Key != base.Key {
		t.Error("a replica of the app has another key")
	}
	if get(first, "cadre/v1/ca", "other", "ed25519").Key != base.Key {
		t.Error("purpose or algorithm changed the key")
	}
	if get(first, "cadre/v1/gossip", "ca", "").Key == base.Key || get(otherApp, "cadre/v1/ca", "ca", "").Key == base.Key {
		t.Error("another path or app has the same key")
	}
	if _, err := first.GetKey(ctx, "p", "", "rsa"); err == nil || !strings.Contains(err.Error(), "400") {
		t.Errorf("algorithm rsa: %v", err)
	}
	ours, err := attest.NewGuestClient(socket).GetKey(ctx, "cadre/v1/ca", "ca")
	if err != nil || hex.EncodeToString(ours) != base.Key {
		t.Errorf("our client's key %x, error %v", ours, err)
	}
	chain, err := base.DecodeSignatureChain()
	if err != nil || len(chain) != 2 || len(chain[0]) != 65 || len(chain[1]) != 65 {
		t.Errorf("signature chain %v, error %v", base.SignatureChain, err)
	}
}

func TestSDKSignAndVerify(t *testing.T) {
	ctx := context.Background()
	client, _, _ := sdkClient(t, openCloud(t), bootConfig(t))
	digest := sha256.Sum256([]byte("message"))
	for algorithm, data := range map[string][]byte{"ed25519": []byte("message"), "secp256k1": []byte("message"), "secp256k1_prehashed": digest[:]} {
		signed, err := client.Sign(ctx, algorithm, data)
		if err != nil {
			t.Fatal(err)
		}
		if len(signed.SignatureChain) != 3 || !bytes.Equal(signed.SignatureChain[0], signed.Signature) {
			t.Errorf("%s: signature chain of %d", algorithm, len(signed.SignatureChain))
		}
		if algorithm == "ed25519" && !ed25519.Verify(signed.PublicKey, data, signed.Signature) {
			t.Error("the ed25519 signature does not verify")
		}
		for _, c := range []struct {
			data []byte
			want bool
		}{{data, true}, {append(bytes.Clone(data[:len(data)-1]), 'x'), false}} {
			reply, err := client.Verify(ctx, algorithm, c.data, signed.Signature, signed.PublicKey)
			if err != nil || reply.Valid != c.want {
				t.Errorf("%s: valid %+v, error %v, want %t", algorithm, reply, err, c.want)
			}
		}
	}
	if _, err := client.Sign(ctx, "secp256k1_prehashed", []byte("short")); err == nil {
		t.Error("a digest of 5 bytes was signed")
	}
}

func TestSDKGetTLSKey(t *testing.T) {
	ctx := context.Background()
	cfg := bootConfig(t)
	client, _, _ := sdkClient(t, openCloud(t), cfg)
	reply, err := client.GetTlsKey(ctx, dstack.WithSubject("web"), dstack.WithAltNames([]string{"web.test"}),
		dstack.WithUsageServerAuth(true), dstack.WithNotAfter(uint64(time.Now().Add(time.Hour).Unix())))
	if err != nil {
		t.Fatal(err)
	}
	if len(reply.CertificateChain) != 3 {
		t.Fatalf("chain of %d certificates", len(reply.CertificateChain))
	}
	pair, err := tls.X509KeyPair([]byte(strings.Join(reply.CertificateChain, "")), []byte(reply.Key))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := pair.PrivateKey.(*ecdsa.PrivateKey); !ok {
		t.Errorf("key of type %T", pair.PrivateKey)
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(reply.CertificateChain[2]))
	between.AppendCertsFromPEM([]byte(reply.CertificateChain[1]))
	leaf := pair.Leaf
	if _, err := leaf.Verify(x509.VerifyOptions{DNSName: "web.test", Roots: roots, Intermediates: between}); err != nil {
		t.Error(err)
	}
	if leaf.NotAfter.After(time.Now().Add(2 * time.Hour)) {
		t.Errorf("not_after is ignored: %s", leaf.NotAfter)
	}
	if again, err := client.GetTlsKey(ctx); err != nil || again.Key == reply.Key {
		t.Errorf("the key is not a new one each time: %v", err)
	}
	cfg.AgentVersion = "0.5.4"
	old, _, _ := sdkClient(t, openCloud(t), cfg)
	if reply, err = old.GetTlsKey(ctx, dstack.WithUsageRaTls(true)); err != nil {
		t.Fatal(err)
	}
	if pair, err = tls.X509KeyPair([]byte(reply.CertificateChain[0]), []byte(reply.Key)); err != nil || len(pair.Leaf.Extensions) < 4 {
		t.Errorf("RA-TLS certificate: %v", err)
	}
}

func TestSDKVersionAndOldAgents(t *testing.T) {
	ctx := context.Background()
	cfg := bootConfig(t)
	client, _, socket := sdkClient(t, openCloud(t), cfg)
	if v, err := client.GetVersion(ctx); err != nil || v.Version != attestsim.DefaultAgentVersion {
		t.Errorf("version %+v, error %v", v, err)
	}
	if v, err := attest.NewGuestClient(socket).Version(ctx); err != nil || v != attestsim.DefaultAgentVersion {
		t.Errorf("our client's version %q, error %v", v, err)
	}
	cfg.AgentVersion = "0.5.4"
	old, _, _ := sdkClient(t, openCloud(t), cfg)
	if _, err := old.GetVersion(ctx); err == nil {
		t.Error("an agent before 0.5.7 knows Version")
	}
	if _, err := old.Attest(ctx, nil); err == nil {
		t.Error("an agent before 0.5.6 knows Attest")
	}
	if _, err := old.Sign(ctx, "ed25519", nil); err == nil {
		t.Error("an agent before 0.5.6 knows Sign")
	}
	if _, err := old.GetKey(ctx, "p", "", "ed25519"); err == nil {
		t.Error("the SDK asked an old agent for ed25519")
	}
}

func TestSDKEmitEventExtendsRTMR3(t *testing.T) {
	ctx := context.Background()
	cloud := openCloud(t)
	cfg := bootConfig(t)
	client, _, socket := sdkClient(t, cloud, cfg)
	verify := func() error {
		ours := attest.NewGuestClient(socket)
		defer ours.Close()
		ev, err := ours.GetQuote(ctx, make([]byte, 64))
		if err != nil {
			t.Fatal(err)
		}
		_, err = newVerifier(t, cloud.RootPEM()).Verify(ctx, ev, [64]byte{})
		return err
	}
	before, err := client.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.EmitEvent(ctx, "my-app", []byte("payload")); err != nil {
		t.Fatal(err)
	}
	after, err := client.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if before.MrAggregated == after.MrAggregated {
		t.Error("EmitEvent did not change the registers")
	}
	if err := verify(); err != nil {
		t.Errorf("after an app's event: %v", err)
	}
	// ATT-19: software in the CVM can emit boot names too.
	if err := client.EmitEvent(ctx, "app-id", bytes.Repeat([]byte{9}, 20)); err != nil {
		t.Fatal(err)
	}
	wantCode(t, verify(), attest.CodeEventLogAmbiguous)
}

// raw sends one request as written.
func raw(t *testing.T, socket, method, path, body string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestWire(t *testing.T) {
	_, socket := serve(t, openCloud(t), bootConfig(t))
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		want                     string
	}{
		{"GET with query", "GET", "/GetQuote?report_data=1234", "", 200, `"report_data":"1234000000`},
		{"GET without arguments", "GET", "/Version", "", 200, `"version"`},
		{"POST without body", "POST", "/Info", "", 200, `"tcb_info":"{`},
		{"no report data", "POST", "/GetQuote", "{}", 200, `"report_data":"000000`},
		{"64 bytes", "POST", "/GetQuote", `{"report_data":"` + strings.Repeat("ab", 64) + `"}`, 200, strings.Repeat("ab", 64)},
		{"65 bytes", "POST", "/GetQuote", `{"report_data":"` + strings.Repeat("ab", 65) + `"}`, 400, "{\n  \"error\": \"Report data is too long\"\n}"},
		{"0x", "POST", "/GetQuote", `{"report_data":"0x12"}`, 400, `"error": "invalid hex`},
		{"no JSON", "POST", "/GetQuote", `{`, 400, `"error"`},
		{"unknown method", "POST", "/Nothing", `{}`, 404, `"error"`},
		{"GetKey by query", "GET", "/GetKey?path=test", "", 200, `"signature_chain":["`},
		{"EmitEvent", "POST", "/EmitEvent", `{"event":"e","payload":""}`, 200, `null`},
	} {
		status, body := raw(t, socket, c.method, c.path, c.body)
		if status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: status %d, body %.200s", c.name, status, body)
		}
	}
}

func TestManyQuotesAtOnce(t *testing.T) {
	cloud := openCloud(t)
	_, socket := serve(t, cloud, bootConfig(t))
	client := attest.NewGuestClient(socket)
	defer client.Close()
	v := newVerifier(t, cloud.RootPEM())
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			data := [64]byte{byte(i)}
			ev, err := client.GetQuote(context.Background(), data[:])
			if err == nil {
				_, err = v.Verify(context.Background(), ev, data)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
