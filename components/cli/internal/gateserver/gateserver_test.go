package gateserver

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cadre.dev/client"
)

const token = "0123456789abcdef0123"

type gates struct {
	settings []client.GateSetting
	cleared  []string
	err      error
	wait     chan struct{}
}

func (g *gates) SetGate(_ context.Context, w client.GateSetting) (client.Gate, error) {
	if g.wait != nil {
		<-g.wait
	}
	g.settings = append(g.settings, w)
	return client.Gate{Group: w.Group, Gate: w.Gate, State: w.State, Changed: true}, g.err
}

func (g *gates) ClearGate(_ context.Context, group, gate, slot string) (bool, error) {
	g.cleared = append(g.cleared, group+"/"+gate+"/"+slot)
	return true, g.err
}

func (g *gates) Gates(_ context.Context, group string) ([]client.Gate, error) {
	return []client.Gate{{Group: group, Gate: "alarm", State: "open"}}, g.err
}

func server(g *gates) http.Handler {
	return (&Server{Token: func() (string, error) { return token, nil }, With: func(fn func(Gates) error) error { return fn(g) }, Log: slog.New(slog.DiscardHandler)}).Handler()
}

func send(h http.Handler, method, path, auth, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	if auth != "" {
		r.Header.Set("Authorization", auth)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestAPostIsASetting(t *testing.T) {
	g := &gates{}
	w := send(server(g), "POST", "/v1/gates/pg/balancer", "Bearer "+token, `{"state":"open","reason":"out","for":"90m","slot":"pg-0","ticket":"0123456789abcdef"}`)
	want := client.GateSetting{Group: "pg", Gate: "balancer", Slot: "pg-0", State: "open", Ticket: "0123456789abcdef", Reason: "out", Length: 90 * time.Minute}
	if w.Code != http.StatusOK || len(g.settings) != 1 || g.settings[0] != want {
		t.Fatalf("%d %s: settings %+v", w.Code, w.Body, g.settings)
	}
	var out client.Gate
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || out.State != "open" || !out.Changed {
		t.Errorf("%+v, %v", out, err)
	}
	if w := send(server(g), "DELETE", "/v1/gates/pg/balancer?slot=pg-0", "Bearer "+token, ""); w.Code != http.StatusOK || len(g.cleared) != 1 || g.cleared[0] != "pg/balancer/pg-0" {
		t.Errorf("%d %s: cleared %v", w.Code, w.Body, g.cleared)
	}
	for _, path := range []string{"/v1/gates", "/v1/gates/pg"} {
		if w := send(server(g), "GET", path, "Bearer "+token, ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"gate":"alarm"`) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// A request without the token reaches no coordinator.
func TestOnlyTheTokenIsServed(t *testing.T) {
	g := &gates{}
	for _, auth := range []string{"", token, "Bearer", "Bearer ", "bearer " + token, "Bearer " + token + " ", "Bearer " + token[1:], "Bearer " + token + "0", "Basic " + token} {
		w := send(server(g), "POST", "/v1/gates/pg/alarm", auth, `{"state":"open","reason":"r"}`)
		if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "Authorization: Bearer") {
			t.Errorf("%q: %d %s", auth, w.Code, w.Body)
		}
	}
	if len(g.settings) != 0 {
		t.Errorf("settings %v", g.settings)
	}
	broken := &Server{Token: func() (string, error) { return "", errors.New("gone") }, Log: slog.New(slog.DiscardHandler)}
	for _, auth := range []string{"", "Bearer ", "Bearer " + token} {
		if w := send(broken.Handler(), "GET", "/v1/gates", auth, ""); w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "gone") {
			t.Errorf("%q without a token file: %d %s", auth, w.Code, w.Body)
		}
	}
}

func TestBadBodiesAreRefused(t *testing.T) {
	g := &gates{}
	for body, want := range map[string]string{
		``:                                    "the body is empty",
		`{`:                                   "no setting of a gate",
		`[]`:                                  "no setting of a gate",
		`{"state":"open","x":1}`:              "x",
		`{"state":"open","state":"closed"}`:   "state",
		`{"state":"open"} {"state":"open"}`:   "no setting of a gate",
		`{"state":1}`:                         "state",
		`{"state":"open","for":"soon"}`:       "for: \\\"soon\\\" is no duration",
		`{"state":"open","for":"-1h"}`:        "is no duration of more than 0",
		`{"state":"open","for":"0s"}`:         "is no duration of more than 0",
		strings.Repeat(" ", maxBody+1):        "more than 16384 bytes",
		`{"r":"` + strings.Repeat("x", 1<<20): "more than 16384 bytes",
	} {
		w := send(server(g), "POST", "/v1/gates/pg/alarm", "Bearer "+token, body)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%.40q: %d %.200s, want %s", body, w.Code, w.Body, want)
		}
	}
	for path, code := range map[string]int{"/v1/gates/pg": 405, "/v1/gates/pg/a/b": 404, "/": 404, "/v2/gates/pg/a": 404} {
		if w := send(server(g), "POST", path, "Bearer "+token, `{"state":"open","reason":"r"}`); w.Code != code {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if len(g.settings) != 0 {
		t.Errorf("settings %v", g.settings)
	}
}

func TestErrorsHaveAStatus(t *testing.T) {
	for kind, code := range map[client.Kind]int{
		client.Invalid: 400, client.NotFound: 404, client.Conflict: 409, client.Denied: 403, client.Unavailable: 503, client.Timeout: 504, client.Untrusted: 502, client.Internal: 502,
	} {
		g := &gates{err: &client.Error{Kind: kind, Doing: "set gate", Message: "no such gate"}}
		if w := send(server(g), "POST", "/v1/gates/pg/alarm", "Bearer "+token, `{"state":"open","reason":"r"}`); w.Code != code || !strings.Contains(w.Body.String(), "no such gate") {
			t.Errorf("%s: %d %s", kind, w.Code, w.Body)
		}
	}
}

// A flood gets an answer at once, and the calls in progress end.
func TestAFloodIsBounded(t *testing.T) {
	g := &gates{wait: make(chan struct{})}
	h := (&Server{Token: func() (string, error) { return token, nil }, With: func(fn func(Gates) error) error { <-g.wait; return errors.New("x") }, Log: slog.New(slog.DiscardHandler)}).Handler()
	codes := make(chan int, 2*maxCalls)
	for range 2 * maxCalls {
		go func() {
			codes <- send(h, "POST", "/v1/gates/pg/alarm", "Bearer "+token, `{"state":"open","reason":"r"}`).Code
		}()
	}
	for range maxCalls {
		if code := <-codes; code != http.StatusServiceUnavailable {
			t.Errorf("%d, want 503 while %d calls wait", code, maxCalls)
		}
	}
	close(g.wait)
	for range maxCalls {
		if code := <-codes; code != http.StatusBadGateway {
			t.Errorf("%d, want 502", code)
		}
	}
}

func TestTokensAreBounded(t *testing.T) {
	at := filepath.Join(t.TempDir(), "token")
	for text, ok := range map[string]bool{
		token: true, token + "\n": true, token + "\r\n": true, strings.Repeat("x", maxToken): true,
		"": false, "short": false, "\n": false, token + " x": false, token + "\nx": false, strings.Repeat("x", maxToken+1): false, strings.Repeat("ä", 20): false,
	} {
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadToken(at); (err == nil) != ok || ok && got != strings.TrimRight(text, "\r\n") {
			t.Errorf("%.40q: %.40q, %v", text, got, err)
		}
	}
	if _, err := ReadToken(at + "-none"); err == nil {
		t.Error("a missing file is read")
	}
}
