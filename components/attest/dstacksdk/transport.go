package dstacksdk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"sync"
	"time"

	"cadre.dev/core/strictjson"
)

const (
	// maxReply bounds a reply before anything parses it. Event logs grow with each
	// EmitEvent of any container of the CVM.
	maxReply     = 10 << 20
	maxErrorText = 512
	idleConns    = 2
)

// sockets is where a container finds the agent's socket, in this order.
var sockets = []string{
	"/var/run/dstack.sock",
	"/run/dstack.sock",
	"/var/run/dstack/dstack.sock",
	"/run/dstack/dstack.sock",
}

// The SDK accepts no transport. Over a unix path it reads replies of any length, and dials without
// the call's context; for an http endpoint it uses http.DefaultTransport. This package makes that
// transport pass calls with a *roundTrip in their context to Cadre's transport, and no others.
const endpoint = "http://localhost"

type roundTripKey struct{}

// roundTrip is one call through the SDK.
type roundTrip struct {
	over http.RoundTripper
	// shape has the reply's type, against which the reply's names are checked.
	shape any
}

// install makes http.DefaultTransport know the calls of this package, once.
var install = sync.OnceValues(func() (*http.Transport, error) {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, fmt.Errorf("guest agent: http.DefaultTransport is a %T, want the standard one", http.DefaultTransport)
	}
	t.RegisterProtocol("http", byContext{})
	return t, nil
})

// installed fails if calls would bypass this package's transport: they would reach any server on
// this machine's port 80.
func installed() error {
	t, err := install()
	if err == nil && http.DefaultTransport != http.RoundTripper(t) {
		err = errors.New("guest agent: http.DefaultTransport was replaced")
	}
	return err
}

type byContext struct{}

func (byContext) RoundTrip(r *http.Request) (*http.Response, error) {
	trip, ok := r.Context().Value(roundTripKey{}).(*roundTrip)
	if !ok {
		return nil, http.ErrSkipAltProtocol
	}
	return trip.do(r)
}

// do asks over the unix socket. It gives the SDK only replies that it may read:
// whole, of status 200, within the bound and unambiguous. Every other answer is
// an error here, a redirect too, which the SDK's client would follow.
func (t *roundTrip) do(r *http.Request) (*http.Response, error) {
	resp, err := t.over.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		// The bound suits an error's JSON; a longer text is shown cut off.
		raw, _ := io.ReadAll(io.LimitReader(resp.Body, 8*maxErrorText))
		return nil, &Error{Method: path.Base(r.URL.Path), Status: resp.StatusCode, Message: errorText(raw)}
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	if err != nil {
		return nil, fmt.Errorf("read reply: %w", err)
	}
	if len(raw) > maxReply {
		return nil, fmt.Errorf("the reply is longer than %d bytes", maxReply)
	}
	if err := strictjson.UnmarshalOpen(raw, t.shape); err != nil {
		return nil, fmt.Errorf("decode reply: %w", err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(raw))
	return resp, nil
}

// errorText is the "error" of an agent's answer, or the start of any other answer.
func errorText(raw []byte) string {
	var body struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(raw, &body); err == nil && body.Error != "" {
		raw = []byte(body.Error)
	}
	return string(raw[:min(len(raw), maxErrorText)])
}

// newTransport dials socket, or for "" the first of the usual places that is
// there at each connection, so that the agent may start later.
func newTransport(socket string) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socketPath(socket))
		},
		MaxIdleConns:       idleConns,
		IdleConnTimeout:    time.Minute,
		DisableCompression: true,
	}
}

func socketPath(socket string) string {
	if socket != "" {
		return socket
	}
	for _, path := range sockets {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return sockets[0]
}
