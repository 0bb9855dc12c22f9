package attestsim

import (
	"encoding/hex"
	"net/http"
	"net/url"
	"sync"
	"time"

	"cadre.dev/attest/collateral"
)

// PCCS serves a Cloud's collateral in the form of Intel's caching service. Its answers can be
// changed while it runs. It is safe for concurrent use.
type PCCS struct {
	cloud *Cloud
	now   func() time.Time
	mux   *http.ServeMux

	mu       sync.Mutex
	posture  Posture // guarded by mu
	requests int     // guarded by mu
}

// NewPCCS returns a PCCS whose collateral is issued at the time of now.
func (c *Cloud) NewPCCS(now func() time.Time) *PCCS {
	p := &PCCS{cloud: c, now: now, mux: http.NewServeMux()}
	p.mux.HandleFunc("GET /tdx/certification/v4/tcb", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("fmspc") != FMSPC() {
			http.Error(w, "no cache data for this platform", http.StatusNotFound)
			return
		}
		p.answer(w, r, "TCB-Info-Issuer-Chain", "application/json", func(b collateral.Bundle) (string, []byte) { return b.TCBInfoChain, []byte(b.TCBInfo) })
	})
	p.mux.HandleFunc("GET /tdx/certification/v4/qe/identity", func(w http.ResponseWriter, r *http.Request) {
		p.answer(w, r, "SGX-Enclave-Identity-Issuer-Chain", "application/json", func(b collateral.Bundle) (string, []byte) { return b.QEIdentityChain, []byte(b.QEIdentity) })
	})
	p.mux.HandleFunc("GET /sgx/certification/v4/pckcrl", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("ca") != "platform" || r.URL.Query().Get("encoding") != "der" {
			http.Error(w, "only ca=platform&encoding=der is served", http.StatusBadRequest)
			return
		}
		p.answer(w, r, "SGX-PCK-CRL-Issuer-Chain", "application/pkix-crl", func(b collateral.Bundle) (string, []byte) { return b.PCKCRLChain, b.PCKCRL })
	})
	p.mux.HandleFunc("GET /sgx/certification/v4/rootcacrl", func(w http.ResponseWriter, r *http.Request) {
		p.answer(w, r, "", "text/plain", func(b collateral.Bundle) (string, []byte) { return "", []byte(hex.EncodeToString(b.RootCRL)) })
	})
	return p
}

// Set changes the service's answers from now on.
func (p *PCCS) Set(posture Posture) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.posture = posture
}

// Cloud is the manufacturer whose collateral the service serves.
func (p *PCCS) Cloud() *Cloud { return p.cloud }

// early reports that a caller asks for the early set.
func early(r *http.Request) bool { return r.URL.Query().Get("update") == "early" }

// Requests counts all requests, answered or not, except those for the early set, which run in the
// background.
func (p *PCCS) Requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

// ServeHTTP implements http.Handler; paths begin with /sgx/ or /tdx/.
func (p *PCCS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	if !early(r) {
		p.requests++
	}
	down := p.posture.Down
	p.mu.Unlock()
	if down {
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		return
	}
	p.mux.ServeHTTP(w, r)
}

func (p *PCCS) answer(w http.ResponseWriter, r *http.Request, header, contentType string, part func(collateral.Bundle) (chain string, body []byte)) {
	p.mu.Lock()
	posture := p.posture
	p.mu.Unlock()
	if posture.Early != nil && early(r) {
		posture = *posture.Early
	}
	b, err := p.cloud.Collateral(p.now(), posture)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	chain, body := part(b)
	if header != "" {
		w.Header().Set(header, url.QueryEscape(chain))
	}
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(body)
}
