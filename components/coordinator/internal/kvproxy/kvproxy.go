package kvproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"cadre.dev/store"
)

// Config of a Proxy. All fields are required.
type Config struct {
	// Consul is the address (host:port) of the local Consul.
	Consul     string
	Datacenter string
	// Transport reaches Consul.
	Transport http.RoundTripper
	// Allow lets a token that may add groups write the spec of the group. An error refuses the
	// write; nil says nothing about the token's rights.
	Allow func(ctx context.Context, token, group string) error
}

// maxBlocking bounds the concurrent blocking queries of a coordinator, and maxAnswer the answer to a
// write.
const (
	maxBlocking = 32
	maxAnswer   = 64 << 10
	// slack is added to a blocking query: Consul adds up to a sixteenth of the wait.
	slack = 30 * time.Second
)

// Proxy passes requests on. Safe for concurrent use.
type Proxy struct {
	cfg      Config
	blocking chan struct{}
}

// New makes a Proxy.
func New(cfg Config) *Proxy { return &Proxy{cfg: cfg, blocking: make(chan struct{}, maxBlocking)} }

// Serve answers one request with the caller's token, and returns the status of the answer; 0: the
// answer ended early, and the connection must be closed. The server has bounded the headers.
func (p *Proxy) Serve(w http.ResponseWriter, r *http.Request, token string) int {
	asked, bad := judge(r.Method, r.URL, p.cfg.Datacenter)
	if bad == nil && asked.method == http.MethodGet && r.ContentLength != 0 {
		bad = refuse(http.StatusBadRequest, "body: a read has none")
	}
	if bad != nil {
		return Refuse(w, bad.status, bad.text)
	}
	ctx, cancel := context.WithTimeout(r.Context(), readTime+asked.wait+asked.wait/16)
	defer cancel()
	deadlines := http.NewResponseController(w)
	// An error means that the connection has no deadlines; the context bounds the request then.
	_ = deadlines.SetWriteDeadline(time.Now().Add(readTime + asked.wait + slack + readTime))
	if asked.method == http.MethodGet {
		return p.read(ctx, w, asked, token)
	}
	_ = deadlines.SetReadDeadline(time.Now().Add(readTime))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, asked.max))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return Refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("body: the record %s has at most %d bytes", asked.key, asked.max))
	} else if err != nil {
		return Refuse(w, http.StatusBadRequest, fmt.Sprintf("body: not read to its end: %v", err))
	}
	return p.write(ctx, w, asked, token, body)
}

// Refuse answers with a text.
func Refuse(w http.ResponseWriter, status int, text string) int {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // a failed write ends with the connection
	return status
}

// read passes a read on.
func (p *Proxy) read(ctx context.Context, w http.ResponseWriter, asked request, token string) int {
	if asked.wait > 0 {
		select {
		case p.blocking <- struct{}{}:
			defer func() { <-p.blocking }()
		default:
			return Refuse(w, http.StatusTooManyRequests, fmt.Sprintf("OVERLOADED: %d blocking queries wait at this coordinator already; read without index, or try again later", maxBlocking))
		}
	}
	answer, err := p.ask(ctx, asked.method, asked.key, asked.query, token, nil)
	if err != nil {
		return unavailable(w, err)
	}
	defer func() { _ = answer.Body.Close() }()
	for _, name := range []string{"Content-Type", "X-Consul-Index", "X-Consul-Knownleader", "X-Consul-Lastcontact", "X-Consul-Query-Backend", "X-Consul-Effective-Consistency"} {
		if value := answer.Header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(answer.StatusCode)
	if _, err := io.Copy(w, answer.Body); err != nil {
		return 0
	}
	return answer.StatusCode
}

// write passes a write on, with the index of the record.
func (p *Proxy) write(ctx context.Context, w http.ResponseWriter, asked request, token string, body []byte) int {
	if name, ok := specOf(asked.key); ok && asked.method == http.MethodPut {
		if err := p.cfg.Allow(ctx, token, name); err != nil {
			return unavailable(w, err)
		}
	}
	if !asked.cas {
		index, status, text := p.index(ctx, asked.key, token)
		if status != http.StatusOK {
			return Refuse(w, status, text)
		}
		asked.query.Set("cas", strconv.FormatUint(index, 10))
	}
	answer, err := p.ask(ctx, asked.method, asked.key, asked.query, token, body)
	if err != nil {
		return unavailable(w, err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return unavailable(w, err)
	}
	if !asked.cas && answer.StatusCode == http.StatusOK && strings.TrimSpace(string(text)) == "false" {
		return Refuse(w, http.StatusConflict, "cas: the spec was changed at the same time; read it again, then repeat the write")
	}
	if answer.StatusCode != http.StatusOK {
		return Refuse(w, answer.StatusCode, strings.TrimSpace(string(text)))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write(text)
	return answer.StatusCode
}

// index returns the index of a record, 0 for a missing one. A status other than 200 has the text of
// the refusal.
func (p *Proxy) index(ctx context.Context, key, token string) (index uint64, status int, text string) {
	answer, err := p.ask(ctx, http.MethodGet, key, url.Values{"consistent": {""}}, token, nil)
	if err != nil {
		return 0, http.StatusServiceUnavailable, err.Error()
	}
	defer func() { _ = answer.Body.Close() }()
	// The value is in base64.
	raw, err := io.ReadAll(io.LimitReader(answer.Body, 2*store.MaxTxnBytes))
	if err != nil {
		return 0, http.StatusServiceUnavailable, err.Error()
	}
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return 0, http.StatusOK, ""
	default:
		return 0, answer.StatusCode, strings.TrimSpace(string(raw[:min(len(raw), 1000)]))
	}
	var found []struct{ ModifyIndex uint64 }
	if err := json.Unmarshal(raw, &found); err != nil || len(found) != 1 {
		return 0, http.StatusBadGateway, fmt.Sprintf("the record %s cannot be read: %v", key, err)
	}
	return found[0].ModifyIndex, http.StatusOK, ""
}

// ask makes one request to Consul.
func (p *Proxy) ask(ctx context.Context, method, key string, query url.Values, token string, body []byte) (*http.Response, error) {
	at := url.URL{Scheme: "http", Host: p.cfg.Consul, Path: path + key, RawQuery: query.Encode()}
	r, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	r.Header.Set("X-Consul-Token", token)
	answer, err := p.cfg.Transport.RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("ask Consul: %w", err)
	}
	return answer, nil
}

func unavailable(w http.ResponseWriter, err error) int {
	return Refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("the coordinator cannot ask Consul now: %v", err))
}
