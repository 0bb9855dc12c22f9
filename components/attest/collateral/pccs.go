package collateral

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// IntelURL is Intel's own service. Its root CRL is not part of the service but
// at the distribution point that the root certificate names.
const (
	IntelURL     = "https://api.trustedservices.intel.com"
	IntelRootCRL = "https://certificates.trustedservices.intel.com/IntelSGXRootCA.der"
)

const (
	// fetchTime bounds all requests for one bundle together.
	fetchTime = 20 * time.Second
	// refreshEvery is how long a fetched bundle is used without asking again.
	refreshEvery = 6 * time.Hour
	// patience is how long the caller that starts a fetch waits for it while the previous bundle is
	// still good; other callers take that bundle at once. Verifications are few at a time, and a
	// hanging service must not delay them (ATT-28).
	patience = 2 * time.Second
	// retryEvery is how soon after a failed fetch the next one may start: a caller that retries
	// again and again causes no load (ATT-28).
	retryEvery = 10 * time.Second
	// maxFamilies bounds the cache; families come from verified chains only.
	maxFamilies = 64
	// redirects within one host.
	maxRedirects = 3
)

// PCCSConfig makes a PCCS.
type PCCSConfig struct {
	// URL is the base: scheme and host, perhaps a path. IntelURL is Intel's own. The
	// paths of the service's own documents at its end, as other tools want them, are left out.
	URL string
	// CertSHA256 is the SHA-256 of the one certificate that the service may show, 64 hex
	// digits: Intel's caching service makes its own. Empty: one of the system's authorities.
	CertSHA256 string
	// Refresh is how long a bundle is used without asking again; 0 and more than 6
	// hours: 6 hours.
	Refresh time.Duration
	// Kept has the collateral fetched before this process began; it is asked once per family. While
	// the service does not answer, its collateral is used as long as its dates allow. nil: there is
	// none.
	Kept Source
	// Transport is the HTTP transport; nil: one without proxy, since the environment must not
	// decide where requests go.
	Transport http.RoundTripper
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// PCCS fetches collateral from a caching service in the form of Intel's provisioning certification
// service. URLs have one fixed form; only the FMSPC of a verified chain is put into them.
//
// A bundle is used until its refresh is due. If the refresh fails, the previous bundle is used on,
// as long as its dates allow (the caller judges these). A bundle kept from before this process
// counts as a previous bundle, and its refresh is due at once.
type PCCS struct {
	base, rootCRL string
	refresh       time.Duration
	kept          Source // nil: none
	client        *http.Client
	now           func() time.Time

	mu       sync.Mutex
	families map[string]*family // guarded by mu
}

// family is the cache of one FMSPC. One fetch runs at a time, for all callers.
type family struct {
	mu      sync.Mutex
	running chan struct{} // guarded by mu; closed at the end of the fetch that runs, nil: none does
	began   time.Time     // guarded by mu; when the last fetch began
	bundle  Bundle        // guarded by mu
	fetched time.Time     // guarded by mu; zero: not by this process
	until   time.Time     // guarded by mu; when the first part of bundle expires; zero: there is none
	tried   time.Time     // guarded by mu; when the last fetch ended
	passed  bool          // guarded by mu; a newer bundle was seen elsewhere, none was fetched since
	renewed time.Time     // guarded by mu; when passed was set last
	err     error         // guarded by mu; of the last try; nil after success

	early        Bundle        // guarded by mu; the early set that came with the last fetch; Version 0: none did yet
	earlyRunning chan struct{} // guarded by mu; closed when the early set that is fetched is there or is not; nil: none is fetched
}

// NewPCCS checks cfg; nothing is fetched yet.
func NewPCCS(cfg PCCSConfig) (*PCCS, error) {
	base, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("pccs url %q: %w", cfg.URL, err)
	}
	if base.Scheme != "https" && base.Scheme != "http" || base.Host == "" || base.RawQuery != "" || base.Fragment != "" || base.User != nil {
		return nil, fmt.Errorf("pccs url %q: want http(s)://host, without user, query and fragment", cfg.URL)
	}
	if cfg.CertSHA256 != "" && (base.Scheme != "https" || !isHex(cfg.CertSHA256, 64)) {
		return nil, fmt.Errorf("pccs certificate %.80q: want 64 lower-case hex digits, and an https url", cfg.CertSHA256)
	}
	p := &PCCS{
		base: bare(base.String()), refresh: cfg.Refresh, kept: cfg.Kept, now: cfg.Now, families: map[string]*family{},
		client: &http.Client{Transport: cfg.Transport, CheckRedirect: sameHost, Timeout: fetchTime},
	}
	p.rootCRL = p.base + "/sgx/certification/v4/rootcacrl"
	if p.base == IntelURL {
		p.rootCRL = IntelRootCRL
	}
	if p.refresh <= 0 || p.refresh > refreshEvery {
		p.refresh = refreshEvery
	}
	if p.now == nil {
		p.now = time.Now
	}
	if p.client.Transport == nil {
		p.client.Transport = &http.Transport{
			TLSHandshakeTimeout: 5 * time.Second, ResponseHeaderTimeout: 10 * time.Second,
			MaxIdleConns: 2, IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 64 << 10,
			TLSClientConfig: pinned(cfg.CertSHA256),
		}
	}
	return p, nil
}

// bare is the base without the paths of Intel's documents.
func bare(base string) string {
	base = strings.TrimSuffix(base, "/")
	for _, suffix := range []string{"/tdx/certification/v4", "/sgx/certification/v4"} {
		base = strings.TrimSuffix(base, suffix)
	}
	return base
}

// pinned accepts one certificate by its digest and ignores its name, dates and issuer; nil for no
// digest. All of the service's answers are signed in addition, by Intel.
func pinned(digest string) *tls.Config {
	if digest == "" {
		return nil
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection compares the whole certificate
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return errors.New("the service showed no certificate")
			}
			sum := sha256.Sum256(state.PeerCertificates[0].Raw)
			if got := hex.EncodeToString(sum[:]); got != digest {
				return fmt.Errorf("the service showed certificate %s, the trust file pins %s", got, digest)
			}
			return nil
		},
	}
}

// Close ends idle connections.
func (p *PCCS) Close() { p.client.CloseIdleConnections() }

// sameHost keeps a service from sending this process somewhere else.
func sameHost(req *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	if from := via[0].URL; req.URL.Host != from.Host || req.URL.Scheme != from.Scheme {
		return fmt.Errorf("redirect from %s to another host, %s", from.Host, req.URL.Host)
	}
	return nil
}

// Bundle implements Source. Many callers at once cause one fetch.
func (p *PCCS) Bundle(ctx context.Context, fmspc string) (Bundle, error) {
	if err := checkFMSPC(fmspc); err != nil {
		return Bundle{}, asUnavailable("fetch collateral", err)
	}
	f := p.family(ctx, fmspc)
	if running, limit := p.ensure(ctx, f, fmspc); running != nil {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		select {
		case <-running:
		case <-timer.C:
		case <-ctx.Done():
			return Bundle{}, asUnavailable("wait for collateral", context.Cause(ctx))
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	// An expired bundle without a replacement counts as missing: another source may have one.
	if !f.fetched.IsZero() && f.err == nil || p.now().Before(f.until) {
		return f.bundle, nil
	}
	err := f.err
	if err == nil {
		err = errors.New("no answer yet")
	}
	return Bundle{}, asUnavailable("fetch collateral of FMSPC "+fmspc, err)
}

// Newer implements NewerSource. The service is asked at most as often as after a failure, so that a
// lagging service is not flooded.
func (p *PCCS) Newer(ctx context.Context, fmspc string) (Bundle, error) {
	if err := checkFMSPC(fmspc); err != nil {
		return Bundle{}, asUnavailable("fetch collateral", err)
	}
	f := p.family(ctx, fmspc)
	f.mu.Lock()
	if now := p.now(); now.Sub(f.renewed) >= retryEvery || now.Before(f.renewed) {
		f.passed, f.renewed = true, now
	}
	f.mu.Unlock()
	return p.Bundle(ctx, fmspc)
}

// ensure starts a fetch if one is due, and returns the fetch to wait for, at most limit; nil if the
// caller need not wait.
func (p *PCCS) ensure(ctx context.Context, f *family, fmspc string) (running <-chan struct{}, limit time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := p.now()
	// A clock that went back would make a bundle look fetched in the future.
	good, own := !now.Before(f.fetched) && now.Before(f.until), !f.fetched.IsZero() && !f.passed
	waiting := !f.tried.IsZero() && now.Sub(f.tried) < retryEvery && !now.Before(f.tried) && (f.err != nil || !f.passed)
	switch {
	// A kept bundle is used only after a fetch was tried, and an expired one never.
	case good && own && (now.Sub(f.fetched) < p.refresh || f.running != nil), f.running == nil && waiting:
		return nil, 0
	case f.running == nil:
		f.running, f.began = make(chan struct{}), now
		go p.fetchInto(ctx, f, fmspc, now, f.running)
	}
	if !good {
		return f.running, fetchTime
	}
	if limit = min(patience, patience-now.Sub(f.began)); limit <= 0 {
		return nil, 0
	}
	return f.running, limit
}

// fetchInto asks the service. The fetch outlives a caller that goes away: the next
// one needs it as well.
func (p *PCCS) fetchInto(ctx context.Context, f *family, fmspc string, began time.Time, done chan<- struct{}) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTime)
	defer cancel()
	bundle, err := p.fetch(ctx, fmspc)
	var until time.Time
	if err == nil {
		var of string
		if of, until, err = bundle.Claims(); err == nil && of != fmspc {
			err = fmt.Errorf("the answer is of FMSPC %s", of)
		}
	}
	early := make(chan struct{})
	f.mu.Lock()
	f.tried, f.err, f.running = p.now(), err, nil
	if err == nil {
		f.bundle, f.fetched, f.until, f.earlyRunning, f.passed = bundle, began, until, early, false
	}
	f.mu.Unlock()
	close(done)
	if err == nil {
		p.fetchEarly(ctx, f, fmspc, bundle, early)
	}
}

// fetchEarly fetches the early set after the standard set, which never waits for it. If the service
// has none, the previous early set stays: its dates are judged at each use.
func (p *PCCS) fetchEarly(ctx context.Context, f *family, fmspc string, standard Bundle, done chan struct{}) {
	early := standard
	d, err := p.documents(ctx, fmspc, "early")
	if err == nil {
		err = d.into(&early)
	}
	if err == nil {
		var of string
		if of, _, err = early.Claims(); err == nil && of != fmspc {
			err = fmt.Errorf("the answer is of FMSPC %s", of)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.early = early
	}
	if f.earlyRunning == done {
		f.earlyRunning = nil
	}
	close(done)
}

// Early implements EarlySource: the early set that came with the last fetch. Early makes no request.
func (p *PCCS) Early(ctx context.Context, fmspc string) (Bundle, bool) {
	p.mu.Lock()
	f := p.families[fmspc]
	p.mu.Unlock()
	if f == nil {
		return Bundle{}, false
	}
	f.mu.Lock()
	running, known := f.earlyRunning, f.early.Version != 0
	f.mu.Unlock()
	// Only the first early set of a family is waited for; later calls use the previous set.
	if running != nil && !known {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-running:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.early, f.early.Version != 0
}

// family returns the cache of fmspc. When there are too many, it drops an unused one.
func (p *PCCS) family(ctx context.Context, fmspc string) *family {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.families[fmspc]; f != nil {
		return f
	}
	if len(p.families) >= maxFamilies {
		for name, f := range p.families {
			if f.idle() {
				delete(p.families, name)
				break
			}
		}
	}
	f := p.restored(ctx, fmspc)
	p.families[fmspc] = f
	return f
}

// restored is the cache of fmspc as the process before this one left it.
func (p *PCCS) restored(ctx context.Context, fmspc string) *family {
	f := &family{}
	if p.kept == nil {
		return f
	}
	bundle, err := p.kept.Bundle(ctx, fmspc)
	if err != nil {
		return f
	}
	if of, until, err := bundle.Claims(); err == nil && of == fmspc {
		f.bundle, f.until = bundle, until
	}
	return f
}

func (f *family) idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running == nil
}

// documents are TCB info and QE identity as the service answered.
type documents struct{ tcb, qe reply }

// documents fetches both; update is the service's parameter for the set, "" for the standard set.
func (p *PCCS) documents(ctx context.Context, fmspc, update string) (d documents, err error) {
	ofTCB, ofQE := "/tdx/certification/v4/tcb?fmspc="+fmspc, "/tdx/certification/v4/qe/identity"
	if update != "" {
		ofTCB, ofQE = ofTCB+"&update="+update, ofQE+"?update="+update
	}
	if d.tcb, err = p.get(ctx, p.base+ofTCB, maxTCBInfo); err != nil {
		return d, err
	}
	d.qe, err = p.get(ctx, p.base+ofQE, maxQEIdentity)
	return d, err
}

// into puts them into b with their chains.
func (d documents) into(b *Bundle) (err error) {
	b.TCBInfo, b.QEIdentity = string(d.tcb.body), string(d.qe.body)
	// Version 3 of the service, and caches based on it, have the second name.
	if b.TCBInfoChain, err = d.tcb.chain("Tcb-Info-Issuer-Chain", "Sgx-Tcb-Info-Issuer-Chain"); err != nil {
		return err
	}
	b.QEIdentityChain, err = d.qe.chain("Sgx-Enclave-Identity-Issuer-Chain")
	return err
}

// fetch gets the four parts.
func (p *PCCS) fetch(ctx context.Context, fmspc string) (Bundle, error) {
	b := Bundle{Version: bundleVersion}
	d, err := p.documents(ctx, fmspc, "")
	if err != nil {
		return Bundle{}, err
	}
	pck, err := p.get(ctx, p.base+"/sgx/certification/v4/pckcrl?ca=platform&encoding=der", maxCRL)
	if err != nil {
		return Bundle{}, err
	}
	root, err := p.get(ctx, p.rootCRL, 2*maxCRL)
	if err != nil {
		return Bundle{}, err
	}
	b.PCKCRL, b.RootCRL = der(pck.body), der(root.body)
	if err := d.into(&b); err != nil {
		return Bundle{}, err
	}
	if b.PCKCRLChain, err = pck.chain("Sgx-Pck-Crl-Issuer-Chain"); err != nil {
		return Bundle{}, err
	}
	if err := b.check(); err != nil {
		return Bundle{}, err
	}
	return b, nil
}

// der is a revocation list as DER: some caches answer in hex, which no DER starts like.
func der(body []byte) []byte {
	if decoded, err := hex.DecodeString(strings.TrimSpace(string(body))); err == nil {
		return decoded
	}
	return body
}

// unescape decodes a chain in a header. Intel writes a blank as %20, so a raw '+' belongs to the
// certificate; form decoding would turn each '+' into a blank.
func unescape(header string) (string, error) {
	if strings.Contains(header, "BEGIN+CERTIFICATE") {
		return url.QueryUnescape(header)
	}
	return url.PathUnescape(header)
}

type reply struct {
	header http.Header
	body   []byte
}

// chain is the issuer chain in the one header that has one of these names.
func (r reply) chain(names ...string) (string, error) {
	var escaped []string
	for _, name := range names {
		escaped = append(escaped, r.header.Values(name)...)
	}
	if len(escaped) != 1 {
		return "", fmt.Errorf("%d headers %s, want 1", len(escaped), strings.Join(names, " or "))
	}
	chain, err := unescape(escaped[0])
	if err != nil {
		return "", fmt.Errorf("header %s: %w", strings.Join(names, " or "), err)
	}
	return chain, nil
}

func (p *PCCS) get(ctx context.Context, target string, limit int64) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return reply{}, err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode != http.StatusOK {
		return reply{}, fmt.Errorf("get %s: status %d", req.URL.Path, resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return reply{}, fmt.Errorf("get %s: %w", req.URL.Path, err)
	}
	if int64(len(body)) > limit {
		return reply{}, fmt.Errorf("get %s: the answer has more than %d bytes", req.URL.Path, limit)
	}
	return reply{header: resp.Header, body: body}, nil
}
