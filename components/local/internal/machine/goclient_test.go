package machine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/Dstack-TEE/dstack/sdk/go/dstack"
	"github.com/Dstack-TEE/dstack/sdk/go/tappd"

	"cadre.dev/attest/attestsim"
)

// goSteps are the steps of one version of the guest with dstack's Go SDK.
type goSteps struct {
	*testing.T
	passed, all int
}

func (s *goSteps) step(name string, err error) {
	s.Helper()
	s.all++
	if err != nil {
		s.Errorf("%s: %v", name, err)
		return
	}
	s.passed++
}

// refused is a step whose call fails, with an error of the client that has shown in it.
func (s *goSteps) refused(name string, err error, shown string) {
	s.Helper()
	switch {
	case err == nil:
		err = fmt.Errorf("it was answered; want an error with %q", shown)
	case strings.Contains(err.Error(), shown):
		err = nil
	default:
		err = fmt.Errorf("want an error with %q: %w", shown, err)
	}
	s.step(name, err)
}

func same[T comparable](got, want T, err error) error {
	if err == nil && got != want {
		err = fmt.Errorf("got %v, want %v", got, want)
	}
	return err
}

// goClient makes every call of the Go SDK. full is a guest with Attest, Sign, Verify and Version; events one with
// EmitEvent.
func goClient(t *testing.T, socket, version string, guest *attestsim.Guest, full, events bool) {
	ctx, s := t.Context(), &goSteps{T: t}
	log := dstack.WithLogger(slog.New(slog.DiscardHandler))
	c := dstack.NewDstackClient(dstack.WithEndpoint(socket), log)
	s.step("is reachable", same(c.IsReachable(ctx), true, nil))
	info, err := c.Info(ctx)
	s.step("info", err)
	if err != nil {
		return
	}
	s.step("the ids of info", same(info.InstanceID+info.ComposeHash, guest.InstanceID()+guest.ComposeHash(), nil))
	tcb, err := info.DecodeTcbInfo()
	s.step("tcb info", err)
	if err != nil {
		return
	}
	s.step("the document of info", same(fmt.Sprintf("%x", sha256.Sum256([]byte(tcb.AppCompose))), guest.ComposeHash(), nil))

	key, err := c.GetKey(ctx, "path/of", "purpose", "")
	s.step("key", err)
	again, err2 := c.GetKey(ctx, "path/of", "purpose", "k256")
	s.step("the same key again", errors.Join(err2, sameKey(key, again)))
	chain, err := key.DecodeSignatureChain()
	s.step("the signatures of a key", same(len(chain), 2, err))
	_, err = c.GetKey(ctx, "path/of", "purpose", "ed25519")
	s.served("key ed25519", full, err, "OS version too old")
	if full {
		_, err = c.GetKey(ctx, "p", "", "rsa")
		s.refused("a key of an unknown algorithm", err, "400")
	}

	cert, err := c.GetTlsKey(ctx, dstack.WithSubject("x.test"), dstack.WithAltNames([]string{"x.test", "y.test"}),
		dstack.WithUsageRaTls(true), dstack.WithUsageServerAuth(true), dstack.WithUsageClientAuth(true))
	s.step("tls key", err)
	if err == nil {
		leaf, err := tls.X509KeyPair([]byte(strings.Join(cert.CertificateChain, "")), []byte(cert.Key))
		s.step("the private key of a certificate", err)
		s.step("the names in a certificate", leaf.Leaf.VerifyHostname("y.test"))
		raw, err := cert.AsUint8Array(32)
		s.step("the bytes of a private key", same(len(raw), 32, err))
	}
	now := time.Now()
	_, err = c.GetTlsKey(ctx, dstack.WithNotBefore(uint64(now.Unix())), dstack.WithNotAfter(uint64(now.Add(time.Hour).Unix())), dstack.WithAppInfo(true))
	s.step("tls key with a time and app info", err)

	quote, err := c.GetQuote(ctx, []byte("hello"))
	s.step("quote", err)
	if err == nil {
		data, err := quote.DecodeReportData()
		s.step("the report data of a quote", same(string(bytes.TrimRight(data, "\x00")), "hello", err))
		_, err = quote.DecodeQuote()
		s.step("the bytes of a quote", err)
		log, err := quote.DecodeEventLog()
		s.step("the events of a quote", same(len(log) > 0, true, err))
		// Guests from 0.5.6 on show the runtime events without digests, so that the SDK's replay of RTMR3 is another value.
		replayed, err := quote.ReplayRTMRs()
		s.step("the registers of the events", same(replayed[0] == tcb.Rtmr0 && (replayed[3] == tcb.Rtmr3) == !full, true, err))
	}
	_, err = c.GetQuote(ctx, make([]byte, 65))
	s.refused("quote over 65 bytes", err, "too large")
	_, err = c.TdxQuote(ctx, []byte("hello"), "raw")
	s.step("TdxQuote", err)
	s.served("event", events, c.EmitEvent(ctx, "my-event", []byte("payload")), "404")
	goNewCalls(ctx, s, c, version, full)

	_, err = c.DeriveKey("p", "s", nil)
	s.refused("DeriveKey", err, "deprecated")
	legacy := dstack.NewTappdClient(dstack.WithEndpoint(socket), log)
	_, err = legacy.Info(ctx)
	s.step("info of the legacy client", err)
	_, err = legacy.DeriveKey(ctx, "p", "s", nil)
	s.refused("DeriveKey of the legacy client", err, "404")
	_, err = legacy.TdxQuote(ctx, []byte("hello"), "raw")
	s.refused("TdxQuote of the legacy client", err, "404")
	older := tappd.NewTappdClient(tappd.WithEndpoint(socket), tappd.WithLogger(slog.New(slog.DiscardHandler)))
	_, err = older.Info(ctx)
	s.refused("info of package tappd", err, "404")
	t.Logf("Go sdk/go v0.1.0 at dstack %s: %d of %d steps passed", version, s.passed, s.all)
}

// served is a step that passes when the guest serves the call, and is refused with shown when it does not.
func (s *goSteps) served(name string, served bool, err error, shown string) {
	s.Helper()
	if served {
		s.step(name, err)
		return
	}
	s.refused(name, err, shown)
}

// goNewCalls are the calls that dstack 0.5.6 and 0.5.7 added.
func goNewCalls(ctx context.Context, s *goSteps, c *dstack.DstackClient, version string, full bool) {
	said, err := c.GetVersion(ctx)
	s.served("version", full, err, "404")
	if full {
		s.step("the version that is named", same(said.Version, version, nil))
	}
	_, err = c.Attest(ctx, []byte("hello"))
	s.served("attest", full, err, "404")
	digest := sha256.Sum256([]byte("data"))
	for algorithm, data := range map[string][]byte{"ed25519": []byte("data"), "secp256k1": []byte("data"), "secp256k1_prehashed": digest[:]} {
		signed, err := c.Sign(ctx, algorithm, data)
		s.served("sign "+algorithm, full, err, "404")
		if err != nil {
			signed = &dstack.SignResponse{Signature: data, PublicKey: data}
		}
		valid, err := c.Verify(ctx, algorithm, data, signed.Signature, signed.PublicKey)
		if err == nil {
			err = same(valid.Valid, true, nil)
		}
		s.served("verify "+algorithm, full, err, "404")
	}
}

func sameKey(a, b *dstack.GetKeyResponse) error {
	if a == nil || b == nil {
		return errors.New("there is no key")
	}
	return same(a.Key, b.Key, nil)
}
