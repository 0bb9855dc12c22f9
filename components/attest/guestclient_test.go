package attest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// agent serves handler on a unix socket and returns a client of it.
func agent(t *testing.T, handler http.HandlerFunc) *GuestClient {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "agent.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	client := NewGuestClient(socket)
	t.Cleanup(func() { client.Close(); _ = server.Close(); <-done })
	return client
}

func TestGuestClientAsksForInfoOnce(t *testing.T) {
	var infos atomic.Int32
	client := agent(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s with content type %q", r.Method, r.Header.Get("Content-Type"))
		}
		switch r.URL.Path {
		case "/Info":
			infos.Add(1)
			_, _ = io.WriteString(w, `{"app_id":"aa","instance_id":"bb","compose_hash":"cc","tcb_info":"{\"app_compose\":\"{}\"}"}`)
		case "/GetQuote":
			if string(body) != `{"report_data":"0102"}` {
				t.Errorf("request %s", body)
			}
			_, _ = io.WriteString(w, `{"quote":"abcd","event_log":"[]","report_data":"0102`+strings.Repeat("00", 62)+`"}`)
		}
	})
	for range 3 {
		ev, err := client.GetQuote(context.Background(), []byte{1, 2})
		if err != nil {
			t.Fatal(err)
		}
		if string(ev.AppCompose) != "{}" || ev.EventLog != "[]" || len(ev.Quote) != 2 {
			t.Errorf("evidence %+v", ev)
		}
	}
	info, err := client.Info(context.Background())
	if err != nil || info.AppID != "aa" || info.InstanceID != "bb" || info.ComposeHash != "cc" {
		t.Errorf("info %+v, error %v", info, err)
	}
	if got := infos.Load(); got != 1 {
		t.Errorf("the agent was asked for Info %d times", got)
	}
}

func TestGuestClientErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"agent's error", 400, "{\n  \"error\": \"Unsupported algorithm\"\n}", "Unsupported algorithm"},
		{"other body", 502, "<html>", "status 502: <html>"},
		{"key is base64", 200, `{"key":"AAAA=="}`, "32 bytes of hex"},
		{"key with 0x", 200, `{"key":"0x00"}`, "32 bytes of hex"},
		{"short key", 200, `{"key":"00"}`, "32 bytes of hex"},
		{"no JSON", 200, `key`, "decode reply"},
		{"two keys", 200, `{"key":"` + strings.Repeat("00", 32) + `","key":"` + strings.Repeat("11", 32) + `"}`, "decode reply"},
		{"another case", 200, `{"Key":"` + strings.Repeat("00", 32) + `"}`, "decode reply"},
		{"redirect", 307, ``, "status 307"},
		{"too long", 200, strings.Repeat(" ", 10<<20+1), "longer than"},
	} {
		client := agent(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://elsewhere/")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		})
		_, err := client.GetKey(context.Background(), "p", "")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want it to say %q", c.name, err, c.want)
		}
		var answer *GuestError
		if errors.As(err, &answer) != (c.status != 200) {
			t.Errorf("%s: %v is a GuestError: %t", c.name, err, c.status == 200)
		}
	}
}

func TestGuestClientRefusesAReplyForOtherData(t *testing.T) {
	client := agent(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/Info" {
			_, _ = io.WriteString(w, `{"tcb_info":"{}"}`)
			return
		}
		_, _ = io.WriteString(w, `{"quote":"ab","event_log":"[]","report_data":"ff"}`)
	})
	if _, err := client.GetQuote(context.Background(), []byte{1}); err == nil {
		t.Error("accepted a quote for other data")
	}
	if _, err := client.GetQuote(context.Background(), make([]byte, 65)); err == nil {
		t.Error("65 bytes of report data were sent")
	}
}

func TestGuestClientEndsWithItsContext(t *testing.T) {
	release := make(chan struct{})
	client := agent(t, func(w http.ResponseWriter, r *http.Request) { <-release })
	defer close(release)
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := errors.New("shutting down")
	cancel(stop)
	if _, err := client.Info(ctx); !errors.Is(err, stop) {
		t.Errorf("error %v, want the cause", err)
	}
}

func TestGuestClientWithoutAgent(t *testing.T) {
	if _, err := NewGuestClient(filepath.Join(t.TempDir(), "no.sock")).Version(context.Background()); err == nil {
		t.Error("an answer without a server")
	}
}
