package dstackverifier

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cadre.dev/attest/internal/refusal"
	"cadre.dev/core/policy"
)

const (
	// maxAnswer bounds an answer. Real ones have about 3 KiB.
	maxAnswer = 256 << 10
	// defaultTimeout of one verification: the service needs long for an OS image that it has not
	// seen, and Cadre only sends evidence of known images.
	defaultTimeout = 30 * time.Second
)

// Config of a Client.
type Config struct {
	// URL is the service: unix:/absolute/path, http:// with a loopback address, or
	// https:// anywhere. An answer over plain HTTP from elsewhere is anybody's.
	URL string
	// Timeout of one verification; 0: 30 seconds.
	Timeout time.Duration
	// Transport is for tests; nil: one without proxy.
	Transport http.RoundTripper
}

// Client asks one service. It is safe for concurrent use.
type Client struct {
	target string
	http   *http.Client
}

// New checks cfg; nothing is asked yet.
func New(cfg Config) (*Client, error) {
	transport := &http.Transport{MaxIdleConns: 4, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10, DisableCompression: true}
	c := &Client{http: &http.Client{
		Transport: transport, Timeout: cfg.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if c.http.Timeout <= 0 {
		c.http.Timeout = defaultTimeout
	}
	if path, ok := strings.CutPrefix(cfg.URL, "unix:"); ok {
		if !strings.HasPrefix(path, "/") {
			return nil, fmt.Errorf("%q: want unix:/absolute/path", cfg.URL)
		}
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		c.target = "http://localhost/verify"
	} else {
		base, err := url.Parse(cfg.URL)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", cfg.URL, err)
		}
		address := net.ParseIP(base.Hostname())
		switch {
		case base.Host == "" || base.RawQuery != "" || base.Fragment != "" || base.User != nil || base.Path != "" && base.Path != "/":
			return nil, fmt.Errorf("%q: want a scheme, a host and nothing else", cfg.URL)
		case base.Scheme == "https":
		// A name could lead anywhere: only an address is loopback.
		case base.Scheme != "http" || address == nil || !address.IsLoopback():
			return nil, fmt.Errorf("%q: want unix:/path, http://127.0.0.1:port or https://host", cfg.URL)
		}
		c.target = base.Scheme + "://" + base.Host + "/verify"
	}
	if cfg.Transport != nil {
		c.http.Transport = cfg.Transport
	}
	return c, nil
}

// Evidence is the input of the service.
type Evidence struct {
	Quote []byte
	// EventLog and VMConfig are the guest agent's JSON texts.
	EventLog, VMConfig string
}

// request: both quote and attestation must be there; null is the unused one.
type request struct {
	Quote       string  `json:"quote"`
	EventLog    string  `json:"event_log"`
	VMConfig    string  `json:"vm_config"`
	Attestation *string `json:"attestation"`
	Debug       bool    `json:"debug"`
}

// Verify returns the service's claims about ev: identity, key provider, OS image and TCB; the
// measurements are left empty. A missing answer is VERIFIER_UNAVAILABLE, to be retried. A negative
// or malformed answer, or an answer about other evidence, is VERIFIER_INCONSISTENT, since the
// caller has found the evidence genuine itself.
func (c *Client) Verify(ctx context.Context, ev Evidence, reportData [64]byte) (policy.Claims, error) {
	body, err := json.Marshal(request{Quote: hex.EncodeToString(ev.Quote), EventLog: ev.EventLog, VMConfig: ev.VMConfig})
	if err != nil {
		return policy.Claims{}, inconsistent("request: %v", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.target, bytes.NewReader(body))
	if err != nil {
		return policy.Claims{}, unavailable("%v", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return policy.Claims{}, unavailable("%v", err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode != http.StatusOK {
		return policy.Claims{}, unavailable("status %d", resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return policy.Claims{}, unavailable("read the answer: %v", err)
	}
	if len(text) > maxAnswer {
		return policy.Claims{}, inconsistent("the answer has more than %d bytes", maxAnswer)
	}
	claims, err := readAnswer(text, reportData)
	if err != nil {
		return policy.Claims{}, inconsistent("%v", err)
	}
	return claims, nil
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func unavailable(format string, args ...any) error {
	return refusal.New(policy.CodeVerifierUnavailable, "dstack-verifier: "+format, args...)
}

func inconsistent(format string, args ...any) error {
	return refusal.New(policy.CodeVerifierInconsistent, "dstack-verifier: "+format, args...)
}

var errNegative = errors.New("it does not find the evidence valid")
