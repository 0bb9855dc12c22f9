package consulproxy

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
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Config of a Proxy. Fields without a note are required.
type Config struct {
	// Consul is the address (host:port) of the coordinator's own server.
	Consul     string
	Datacenter string
	Tokens     Tokens
	// Holds reports whether a Boot holds the Slot now. The function is called concurrently, once
	// per request, and must be fast.
	Holds  func(slot, boot string) bool
	Limits Limits
	Now    func() time.Time
	Log    *slog.Logger
}

// Proxy serves members. Make it with New and run it once.
type Proxy struct {
	cfg    Config
	shares *shares
	owners *owners
	stocks *stocks
	consul *http.Transport
	conns  chan *memberConn
	ended  chan struct{} // closed when Run returns
}

// New makes a Proxy that serves no connection yet.
func New(cfg Config) *Proxy {
	return &Proxy{
		cfg: cfg, shares: newShares(cfg.Limits, cfg.Now), owners: newOwners(cfg.Tokens, cfg.Now), stocks: newStocks(cfg.Limits, cfg.Now),
		// An own transport: no environment variable can set a proxy for it, and a transport follows
		// no redirects.
		consul: &http.Transport{
			MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute, DisableCompression: true,
			DialContext: dialer(cfg.Consul).DialContext, MaxResponseHeaderBytes: 64 << 10,
		},
		conns: make(chan *memberConn), ended: make(chan struct{}),
	}
}

// source is the source address of the Consul proxy's connections to a Consul on loopback. Consul
// bounds the connections of each address. Members thus use up only the Consul proxy's connections,
// and never those of the coordinator itself.
var source = net.IPv4(127, 0, 0, 8)

func dialer(consul string) *net.Dialer {
	d := &net.Dialer{Timeout: dialLimit}
	if at, err := netip.ParseAddrPort(consul); err == nil && at.Addr().Is4() && at.Addr().IsLoopback() {
		d.LocalAddr = &net.TCPAddr{IP: source}
	}
	return d
}

const (
	dialLimit = 3 * time.Second
	// bodyLimit bounds the sending of a request's body. answerLimit bounds an answer that does not
	// block, and the time after a blocking wait. writeLimit bounds the writing of an answer to the
	// caller.
	bodyLimit   = 15 * time.Second
	answerLimit = 20 * time.Second
	writeLimit  = time.Minute
)

// serve answers one request of a member.
func (d *Proxy) serve(w http.ResponseWriter, r *http.Request, c Caller) {
	mayWrite(w)
	if refused := d.answer(w, r, c); refused != nil {
		d.cfg.Log.Debug("request of a member refused", "slot", c.Slot, "code", refused.Code, "error", refused.Text)
		if refused.Status == http.StatusTooManyRequests {
			d.hold(r.Context())
		}
		refuse(w, refused)
	}
}

// overloadedPause delays each overload answer. The connections and streams of a Peer are bounded,
// so the delay also bounds the rate of its refused requests.
const overloadedPause = 500 * time.Millisecond

func (d *Proxy) hold(ctx context.Context) {
	pause := time.NewTimer(overloadedPause)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	case <-d.ended:
	}
}

// mayWrite sets the deadline for the writes that follow.
func mayWrite(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeLimit))
}

// refuse writes a refusal in the form of Consul's own errors: plain text.
func refuse(w http.ResponseWriter, r *Refusal) {
	mayWrite(w)
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Status == http.StatusTooManyRequests {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(r.Status)
	_, _ = io.WriteString(w, r.Error())
}

// answer makes the free checks first, and the checks that call Consul last. A refusal means that no
// part of the answer was written.
func (d *Proxy) answer(w http.ResponseWriter, r *http.Request, c Caller) *Refusal {
	v, refused := Judge(c, d.cfg.Datacenter, r.Method, r.URL)
	if tooMany := d.shares.take(c.Slot, v.Cost, r.ContentLength != 0); tooMany != nil {
		return tooMany
	}
	if refused != nil {
		return refused
	}
	if !d.cfg.Holds(c.Slot, c.Boot) {
		return &Refusal{http.StatusForbidden, CodeNotAdmitted, fmt.Sprintf("this boot is not %s now", c.Slot)}
	}
	if r.ContentLength > v.Rule.MaxBody {
		return tooLarge(v.Rule)
	}
	done, refused := d.shares.request(c.Slot, v.Blocks)
	if refused != nil {
		return refused
	}
	defer done()
	body, refused := readBody(w, r, v.Rule)
	if refused != nil {
		return refused
	}
	d.shares.sent(c.Slot, len(body))
	out, refused := d.consulted(r, c, v, body)
	if refused != nil {
		return refused
	}
	defer out.release()
	out.write(w)
	return nil
}

// consulted returns the caller's answer. consulted makes all calls to Consul for one request.
func (d *Proxy) consulted(r *http.Request, c Caller, v Verdict, body []byte) (*response, *Refusal) {
	at := d.shares.place(v.Blocks)
	if refused := at.take(); refused != nil {
		return nil, refused
	}
	defer at.leave()
	token, refused := d.checkToken(r, c, v)
	if refused != nil {
		return nil, refused
	}
	if v.Rule.Check == CheckSelf {
		return d.self(c), nil
	}
	ready, refused := d.prepare(r, c, v, token, body, at)
	if refused != nil {
		return nil, refused
	}
	defer ready.over()
	return d.forward(r, c, v, token, ready)
}

func overloaded(format string, args ...any) *Refusal {
	return &Refusal{http.StatusTooManyRequests, CodeOverloaded, fmt.Sprintf(format, args...)}
}

func unavailable(what string, err error) *Refusal {
	return &Refusal{http.StatusServiceUnavailable, CodeUnavailable, fmt.Sprintf("%s: %s", what, truncated(err.Error()))}
}

const statusTooLarge = http.StatusRequestEntityTooLarge

func tooLarge(rule *Rule) *Refusal {
	return &Refusal{statusTooLarge, CodeInvalid, fmt.Sprintf("body: at most %d bytes are allowed for %s %s", rule.MaxBody, rule.Method, rule.Path)}
}

// checkToken checks that the token belongs to the caller's Slot; Consul checks its rights. Its
// errors have fewer than 80 bytes: npm's consul replaces a longer text with "forbidden".
func (d *Proxy) checkToken(r *http.Request, c Caller, v Verdict) (string, *Refusal) {
	token, err := tokenOf(r.Header, v.Token)
	if err != nil {
		return "", invalid("%v", err)
	}
	if token == "" && v.Rule.Open {
		return "", nil
	}
	if token == "" {
		return "", &Refusal{http.StatusForbidden, CodeTokenMissing, "request has no token; see /run/mesh/consul-token"}
	}
	foreign := &Refusal{http.StatusForbidden, CodeTokenForeign, "not this member's token; see /run/mesh/consul-token"}
	ctx, cancel := context.WithTimeout(r.Context(), answerLimit)
	defer cancel()
	owner, err := d.owners.of(ctx, token)
	switch {
	case err != nil:
		return "", unavailable("the token's owner is unknown", err)
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
		return nil, invalid("body: it did not arrive: %s", truncated(err.Error()))
	}
	return body, nil
}

// prepared is the request for Consul. The caller calls over when Consul has answered.
type prepared struct {
	body []byte
	over func()
	// effect: the request changes state in Consul.
	effect bool
}

func (d *Proxy) prepare(r *http.Request, c Caller, v Verdict, token string, body []byte, at *place) (out prepared, refused *Refusal) {
	out = prepared{body: body, over: func() {}, effect: r.Method != http.MethodGet}
	switch v.Rule.Check { //nolint:exhaustive // the others leave bodies as they are
	case CheckCreate:
		if out.body, refused = sessionBody(c, body); refused == nil {
			out.over, refused = d.roomForSession(r.Context(), c, token)
		}
	case CheckTxn:
		var t txn
		if t, refused = txnBody(c, body); refused != nil {
			return out, refused
		}
		out.body, out.effect = t.body, t.effect
		if refused = d.roomFor(r.Context(), c, token, t.added, at); refused == nil && t.effect && t.reads {
			// The size of its reads is known only after its effect, so the room is reserved before.
			out.over, refused = d.shares.reserve(c.Slot)
		}
	case CheckKey:
		if v.Rule.Method == http.MethodPut {
			refused = d.roomFor(r.Context(), c, token, stored(v.Path, len(body)), at)
		}
	}
	return out, refused
}

// ask makes a request about the caller to Consul, with the caller's token.
func (d *Proxy) ask(ctx context.Context, path string, query url.Values, token string) (*http.Response, *Refusal) {
	req, err := d.request(ctx, http.MethodGet, path, query, token, nil)
	if err != nil {
		return nil, unavailable("make a request", err)
	}
	resp, err := d.consul.RoundTrip(req)
	if err != nil {
		return nil, unavailable("this coordinator's consul does not answer", err)
	}
	return resp, nil
}

// roomForSession refuses a session if the Slot has its maximum. A Slot makes one session at a time,
// because a concurrent one would make the count outdated; over ends its turn.
func (d *Proxy) roomForSession(ctx context.Context, c Caller, token string) (over func(), refused *Refusal) {
	over, ok := d.stocks.alone(c.Slot)
	if !ok {
		return func() {}, overloaded("%s already has a session request; one at a time", c.Slot)
	}
	if refused = d.countSessions(ctx, c, token); refused != nil {
		over()
		over = func() {}
	}
	return over, refused
}

func (d *Proxy) countSessions(ctx context.Context, c Caller, token string) *Refusal {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	resp, refused := d.ask(ctx, "/v1/session/node/"+c.Slot, nil, token)
	if refused != nil {
		return refused
	}
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.StatusCode == http.StatusForbidden:
		return nil // it may not make one either, and Consul returns the error
	case resp.StatusCode != http.StatusOK:
		return unavailable("consul's sessions", errors.New(resp.Status))
	}
	var have []struct{}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxValue)).Decode(&have); err != nil {
		return unavailable("consul's sessions", err)
	}
	if len(have) >= d.shares.limits.Sessions {
		return overloaded("%s has %d sessions; end some", c.Slot, len(have))
	}
	return nil
}

// self answers agent/self for a member, which has no Consul agent.
func (d *Proxy) self(c Caller) *response {
	out := &response{status: http.StatusOK, header: http.Header{"Content-Type": {"application/json"}}}
	_ = json.NewEncoder(&out.body).Encode(map[string]any{
		"Config": map[string]any{"Datacenter": d.cfg.Datacenter, "NodeName": c.Slot, "Server": false, "SessionTTLMin": LeastTTL.Nanoseconds()},
		"Member": map[string]any{"Name": c.Slot},
	})
	return out
}

// request makes a request to Consul from the judged parts of the caller's request alone.
func (d *Proxy) request(ctx context.Context, method, path string, query url.Values, token string, body []byte) (*http.Request, error) {
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

// forward sends the request to Consul, and returns Consul's answers and errors unchanged.
func (d *Proxy) forward(r *http.Request, c Caller, v Verdict, token string, ready prepared) (*response, *Refusal) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), v.Wait+answerLimit, errors.New("consul did not answer in time"))
	defer cancel()
	req, err := d.request(ctx, r.Method, v.Path, v.Query, token, ready.body)
	if err != nil {
		return nil, unavailable("make a request", err)
	}
	resp, err := d.consul.RoundTrip(req)
	if err != nil {
		return nil, unavailable("this coordinator's consul does not answer", errors.Join(err, context.Cause(ctx)))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return nil, unavailable("consul answered", errors.New(resp.Status))
	}
	out := &response{proxy: d, slot: c.Slot, must: ready.effect, status: resp.StatusCode, header: http.Header{}}
	for name, values := range resp.Header {
		if strings.HasPrefix(name, "X-Consul-") || passed[name] {
			out.header[name] = values
		}
	}
	if _, err := io.Copy(out, resp.Body); err != nil {
		out.release()
		if refused, is := errors.AsType[*Refusal](err); is {
			return nil, refused
		}
		// The caller must not take a truncated answer for a complete one.
		return nil, unavailable("consul's answer broke off", err)
	}
	return out, nil
}

// passed are the headers of an answer that go to the caller, in addition to Consul's own.
var passed = map[string]bool{"Content-Type": true, "Content-Security-Policy": true, "X-Content-Type-Options": true}
