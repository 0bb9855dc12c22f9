package collateral_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"cadre.dev/attest/attestsim"
	"cadre.dev/attest/collateral"
)

// rewritten returns next's answers, with headers and body edited.
func rewritten(edit func(path string, header http.Header, body []byte) []byte) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			body := edit(r.URL.Path, rec.Header(), rec.Body.Bytes())
			for name, values := range rec.Header() {
				w.Header()[name] = values
			}
			w.WriteHeader(rec.Code)
			_, _ = w.Write(body)
		})
	}
}

// TestPCCSReadsAnswersOfRealCaches: each deviation that real caches have gives the same bundle,
// byte for byte; two answers for one chain give none.
func TestPCCSReadsAnswersOfRealCaches(t *testing.T) {
	const tcb = "Tcb-Info-Issuer-Chain"
	for name, c := range map[string]struct {
		edit func(path string, header http.Header, body []byte) []byte
		want string // the error's text; "": none
	}{
		"a list in hex": {func(path string, _ http.Header, body []byte) []byte {
			if strings.HasSuffix(path, "/pckcrl") {
				return []byte(hex.EncodeToString(body) + "\n")
			}
			return body
		}, ""},
		"the header of version 3": {func(_ string, header http.Header, body []byte) []byte {
			if chain := header.Get(tcb); chain != "" {
				header.Del(tcb)
				header.Set("SGX-TCB-Info-Issuer-Chain", chain)
			}
			return body
		}, ""},
		"both headers": {func(_ string, header http.Header, body []byte) []byte {
			if chain := header.Get(tcb); chain != "" {
				header.Set("SGX-TCB-Info-Issuer-Chain", chain)
			}
			return body
		}, "2 headers"},
		"no header": {func(_ string, header http.Header, body []byte) []byte {
			header.Del(tcb)
			return body
		}, "0 headers"},
		"blanks as %20": {func(_ string, header http.Header, body []byte) []byte {
			for name := range header {
				if strings.HasSuffix(name, "-Issuer-Chain") {
					header.Set(name, strings.ReplaceAll(header.Get(name), "+", "%20"))
				}
			}
			return body
		}, ""},
		"a raw plus": {func(_ string, header http.Header, body []byte) []byte {
			for name := range header {
				if strings.HasSuffix(name, "-Issuer-Chain") {
					header.Set(name, strings.ReplaceAll(strings.ReplaceAll(header.Get(name), "+", "%20"), "%2B", "+"))
				}
			}
			return body
		}, ""},
		"a broken escape": {func(_ string, header http.Header, body []byte) []byte {
			if header.Get(tcb) != "" {
				header.Set(tcb, "%zz")
			}
			return body
		}, "header Tcb-Info-Issuer-Chain"},
	} {
		s := newService(t, rewritten(c.edit))
		want, err := s.sim.Cloud().Collateral(s.now(), attestsim.Posture{})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(url.QueryEscape(want.TCBInfoChain+want.PCKCRLChain), "%2B") {
			t.Fatal("no chain of this cloud has a plus, so that nothing is tried")
		}
		got, err := s.get()
		switch {
		case c.want != "":
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: error %v, want %q", name, err, c.want)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case got.TCBInfoChain != want.TCBInfoChain || got.QEIdentityChain != want.QEIdentityChain || got.PCKCRLChain != want.PCKCRLChain || len(got.PCKCRL) == 0 || got.PCKCRL[0] != 0x30:
			t.Errorf("%s: another bundle came out", name)
		}
	}
}

// TestPCCSTakesTheURLsOfOtherTools: with the paths of the documents at its end, or a slash.
func TestPCCSTakesTheURLsOfOtherTools(t *testing.T) {
	s := newService(t, nil)
	for _, suffix := range []string{"", "/", "/tdx/certification/v4", "/tdx/certification/v4/", "/sgx/certification/v4", "/sgx/certification/v4/"} {
		client, err := collateral.NewPCCS(collateral.PCCSConfig{URL: s.server.URL + suffix, Now: s.now})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Bundle(t.Context(), attestsim.FMSPC()); err != nil {
			t.Errorf("%s: %v", suffix, err)
		}
		client.Close()
	}
	other, err := collateral.NewPCCS(collateral.PCCSConfig{URL: s.server.URL + "/tdx/certification/v3", Now: s.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	if _, err := other.Bundle(t.Context(), attestsim.FMSPC()); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("another version: %v", err)
	}
}

// TestPCCSPinsOneCertificate: the pinned certificate is accepted without an authority, and all
// others are rejected.
func TestPCCSPinsOneCertificate(t *testing.T) {
	c := newClock()
	server := httptest.NewTLSServer(openCloud(t).NewPCCS(c.now))
	t.Cleanup(server.Close)
	sum := sha256.Sum256(server.Certificate().Raw)
	own := hex.EncodeToString(sum[:])
	for name, step := range map[string]struct{ pin, want string }{
		"pinned":       {own, ""},
		"another":      {strings.Repeat("00", 32), "the trust file pins"},
		"not pinned":   {"", "certificate"},
		"no digest":    {"abcd", "64 lower-case hex"},
		"other digits": {strings.ToUpper(own), "64 lower-case hex"},
	} {
		client, err := collateral.NewPCCS(collateral.PCCSConfig{URL: server.URL, CertSHA256: step.pin, Now: c.now})
		if err == nil {
			t.Cleanup(client.Close)
			_, err = client.Bundle(t.Context(), attestsim.FMSPC())
		}
		if step.want == "" && err != nil || step.want != "" && (err == nil || !strings.Contains(err.Error(), step.want)) {
			t.Errorf("%s: %v, want %q", name, err, step.want)
		}
	}
	if _, err := collateral.NewPCCS(collateral.PCCSConfig{URL: "http://127.0.0.1:1", CertSHA256: own}); err == nil || !strings.Contains(err.Error(), "https") {
		t.Errorf("a pin of a plain connection: %v", err)
	}
}
