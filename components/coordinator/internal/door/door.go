package door

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config of a Door. Fields without a note are required.
type Config struct {
	// Consul is the address (host:port) of the coordinator's own server.
	Consul     string
	Datacenter string
	Tokens     Tokens
	// Holds tells whether a Boot is the Slot now. Concurrent, and quick: each request asks.
	Holds  func(slot, boot string) bool
	Limits Limits
	Now    func() time.Time
	Log    *slog.Logger
}

// Door serves members. Make it with New, run it once.
type Door struct {
	cfg    Config
	shares *shares
	owners *owners
	consul *http.Transport
	conns  chan *memberConn
	ended  chan struct{} // closed when Run returns
}

// New makes a Door that serves nobody yet.
func New(cfg Config) *Door {
	return &Door{
		cfg: cfg, shares: newShares(cfg.Limits, cfg.Now), owners: newOwners(cfg.Tokens, cfg.Now),
		// Of its own: nothing in the environment names a proxy for it, and no redirect is
		// followed by a transport.
		consul: &http.Transport{
			MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute, DisableCompression: true,
			DialContext: (&net.Dialer{Timeout: dialLimit}).DialContext, MaxResponseHeaderBytes: 64 << 10,
		},
		conns: make(chan *memberConn), ended: make(chan struct{}),
	}
}

const (
	dialLimit = 3 * time.Second
	// bodyLimit bounds the sending of a request's body, answerLimit the answer of what does
	// not block, writeLimit the taking of an answer.
	bodyLimit   = 15 * time.Second
	answerLimit = 20 * time.Second
	writeLimit  = time.Minute
)

// serve answers one request of a member.
func (d *Door) serve(w http.ResponseWriter, r *http.Request, c Caller) {
	if refused := d.answer(w, r, c); refused != nil {
		d.cfg.Log.Debug("request of a member refused", "slot", c.Slot, "code", refused.Code, "error", refused.Text)
		refuse(w, refused)
	}
}

// refuse writes a refusal as Consul writes its own: plain text.
func refuse(w http.ResponseWriter, r *Refusal) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Status == http.StatusTooManyRequests {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(r.Status)
	_, _ = io.WriteString(w, r.Error())
}

// answer judges everything that costs nothing first, and what asks Consul last.
func (d *Door) answer(w http.ResponseWriter, r *http.Request, c Caller) *Refusal {
	if !d.shares.take(c.Slot) {
		return overloaded("%s made more than %.0f requests in a second", c.Slot, d.shares.limits.Rate)
	}
	v, refused := Judge(c, d.cfg.Datacenter, r.Method, r.URL)
	if refused != nil {
		return refused
	}
	if !d.cfg.Holds(c.Slot, c.Boot) {
		return &Refusal{http.StatusForbidden, CodeNotAdmitted, fmt.Sprintf("this boot is not %s now", c.Slot)}
	}
	if r.ContentLength > v.Rule.MaxBody {
		return tooLarge(v.Rule)
	}
	done, ok := d.shares.request(c.Slot, v.Blocks)
	if !ok {
		return overloaded("%s has as many requests open as one member may (%d that block, %d others), or all have", c.Slot, d.shares.limits.Blocked, d.shares.limits.Running)
	}
	defer done()
	token, refused := d.checkToken(r, c, v)
	if refused != nil {
		return refused
	}
	body, refused := readBody(w, r, v.Rule)
	if refused == nil {
		body, refused = d.prepare(r.Context(), c, v, token, body)
	}
	if refused != nil {
		return refused
	}
	if v.Rule.Check == CheckAnswered {
		d.self(w, c)
		return nil
	}
	return d.forward(w, r, v, token, body)
}

func overloaded(format string, args ...any) *Refusal {
	return &Refusal{http.StatusTooManyRequests, CodeOverloaded, fmt.Sprintf(format, args...)}
}

func unavailable(what string, err error) *Refusal {
	return &Refusal{http.StatusServiceUnavailable, CodeUnavailable, fmt.Sprintf("%s: %s", what, clip(err.Error()))}
}

func tooLarge(rule *Rule) *Refusal {
	return &Refusal{http.StatusRequestEntityTooLarge, CodeInvalid, fmt.Sprintf("body: at most %d bytes are allowed for %s %s", rule.MaxBody, rule.Method, rule.Path)}
}

// checkToken is about whose the token is; what it may do is Consul's to say.
func (d *Door) checkToken(r *http.Request, c Caller, v Verdict) (string, *Refusal) {
	token, err := tokenOf(r.Header, v.Token)
	if err != nil {
		return "", invalid("%v", err)
	}
	if token == "" && v.Rule.Open {
		return "", nil
	}
	foreign := &Refusal{http.StatusForbidden, CodeTokenForeign, "the token is none of those that " + c.Slot + " was given; send the workload's, as X-Consul-Token"}
	if token == "" {
		return "", foreign
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerLimit)
	defer cancel()
	owner, err := d.owners.of(ctx, token)
	switch {
	case err != nil:
		return "", unavailable("whose the token is could not be found out", err)
	case owner != c.Slot:
		return "", foreign
	}
	return token, nil
}

func readBody(w http.ResponseWriter, r *http.Request, rule *Rule) ([]byte, *Refusal) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyLimit))
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	body, err := io.ReadAll(io.LimitReader(r.Body, rule.MaxBody+1))
	switch {
	case int64(len(body)) > rule.MaxBody:
		return nil, tooLarge(rule)
	case err != nil:
		return nil, invalid("body: it did not arrive: %s", clip(err.Error()))
	}
	return body, nil
}

// prepare makes the body that Consul gets.
func (d *Door) prepare(ctx context.Context, c Caller, v Verdict, token string, body []byte) ([]byte, *Refusal) {
	switch v.Rule.Check { //nolint:exhaustive // the others leave bodies as they are
	case CheckCreate:
		out, refused := sessionBody(c, body)
		if refused != nil {
			return nil, refused
		}
		return out, d.roomForSession(ctx, c, token)
	case CheckTxn:
		return txnBody(c, body)
	}
	return body, nil
}

// roomForSession refuses a session of a Slot that has as many as it may.
func (d *Door) roomForSession(ctx context.Context, c Caller, token string) *Refusal {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	req, err := d.request(ctx, http.MethodGet, "/v1/session/node/"+c.Slot, nil, token, nil)
	if err != nil {
		return unavailable("make a request", err)
	}
	resp, err := d.consul.RoundTrip(req)
	if err != nil {
		return unavailable("consul does not answer", err)
	}
	defer func() { _ = resp.Body.Close() }()
	var have []struct{}
	if resp.StatusCode == http.StatusOK {
		if err := json.NewDecoder(io.LimitReader(resp.Body, maxValue)).Decode(&have); err != nil {
			return unavailable("consul's sessions", err)
		}
	}
	if len(have) >= d.shares.limits.Sessions {
		return overloaded("%s has %d sessions; end some", c.Slot, len(have))
	}
	return nil
}

// self is what a member is told of its agent, which is none.
func (d *Door) self(w http.ResponseWriter, c Caller) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"Config": map[string]any{"Datacenter": d.cfg.Datacenter, "NodeName": c.Slot, "Server": false, "SessionTTLMin": LeastTTL.Nanoseconds()},
		"Member": map[string]any{"Name": c.Slot},
	})
}

// request makes one for Consul with nothing of the caller's but what was judged.
func (d *Door) request(ctx context.Context, method, path string, query url.Values, token string, body []byte) (*http.Request, error) {
	target := url.URL{Scheme: "http", Host: d.cfg.Consul, Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("X-Consul-Token", token)
	}
	if len(body) == 0 {
		req.Body = http.NoBody
	}
	return req, nil
}

// forward asks Consul, and gives its answer and errors as they are.
func (d *Door) forward(w http.ResponseWriter, r *http.Request, v Verdict, token string, body []byte) *Refusal {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	if !v.Blocks {
		timer := time.AfterFunc(answerLimit, func() { cancel(errors.New("consul did not answer in time")) })
		defer timer.Stop()
	}
	req, err := d.request(ctx, r.Method, v.Path, v.Query, token, body)
	if err != nil {
		return unavailable("make a request", err)
	}
	resp, err := d.consul.RoundTrip(req)
	if err != nil {
		return unavailable("consul does not answer here", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return unavailable("consul answered", errors.New(resp.Status))
	}
	header := w.Header()
	for name, values := range resp.Header {
		if strings.HasPrefix(name, "X-Consul-") || passed[name] {
			header[name] = values
		}
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeLimit))
	defer func() { _ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) }()
	w.WriteHeader(resp.StatusCode)
	if _, err := io.Copy(w, resp.Body); err != nil && r.Context().Err() == nil {
		// The caller must not take half an answer for a whole one.
		panic(http.ErrAbortHandler)
	}
	return nil
}

// passed are the headers of an answer that are for the caller, beside Consul's own.
var passed = map[string]bool{"Content-Type": true, "Content-Length": true, "Content-Security-Policy": true, "X-Content-Type-Options": true}
