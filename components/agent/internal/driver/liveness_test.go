package driver

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestOnlyAnAnswerOrARefusalSaysAnythingAboutAProcess makes one call to each kind of listener.
func TestOnlyAnAnswerOrARefusalSaysAnythingAboutAProcess(t *testing.T) {
	listen := func() net.Listener {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	gone, mute, closing := listen(), listen(), listen()
	_ = gone.Close()
	go func() {
		for {
			conn, err := closing.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	refusing := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	plain, secure := httptest.NewServer(refusing), httptest.NewUnstartedServer(refusing)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	for name, tc := range map[string]struct {
		url  string
		want Liveness
	}{
		"no process listens":             {"http://" + gone.Addr().String(), LivenessRefused},
		"a process accepts and hangs":    {"http://" + mute.Addr().String(), LivenessUnknown},
		"a process ends the connection":  {"http://" + closing.Addr().String(), LivenessAlive},
		"an error status":                {plain.URL, LivenessAlive},
		"a certificate not trusted":      {secure.URL, LivenessAlive},
		"TLS asked of one without":       {"https://" + plain.Listener.Addr().String(), LivenessAlive},
		"one with TLS, asked without it": {"http://" + secure.Listener.Addr().String(), LivenessAlive},
	} {
		limit := time.Minute
		if tc.want == LivenessUnknown {
			limit = 100 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, _, err := call(ctx, newRESTClient(nil), http.MethodGet, tc.url+"/", nil, nil)
		cancel()
		if got, why := livenessOf(err); got != tc.want {
			t.Errorf("%s: %q (%s), want %q", name, got, why, tc.want)
		}
	}
}
