package command

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

const aTicket = "969698ca570b296a"

// gated is a group with a gate of the group, and a gate per slot at which one step waits.
func gated(b *bench) {
	b.Set("worker", func(g *clienttest.Group) {
		midRollout(g)
		g.Spec.Gates = []group.Gate{
			{Name: "alarm", On: []string{group.GateOnStep, group.GateOnRemove}, Default: group.GateOpen},
			{Name: "balancer", On: []string{group.GateOnStep}, Per: group.GatePerSlot},
		}
		g.Plan.Actions = []rollout.Action{{Slot: "worker-1", Ordinal: 1, Kind: operation.Update, Ticket: aTicket}}
	})
}

func TestGatePictures(t *testing.T) {
	b := newBench(t)
	gated(b)
	for _, c := range []struct {
		name string
		args []string
	}{
		{"gate_open_help", []string{"gate", "open", "--help"}},
		{"gate_serve_help", []string{"gate", "serve", "--help"}},
		{"gate_close", []string{"gate", "close", "worker/alarm", "--for", "2h", "--reason", "the error rate is high"}},
		{"gate_open_slot", []string{"gate", "open", "worker/balancer", "--slot", "worker-1", "--reason", "it is out of the pool"}},
		{"gate_list", []string{"gate", "list"}},
		{"gate_overrides", []string{"overrides", "worker"}},
		{"gate_list_json", []string{"gate", "list", "worker", "-o", "json"}},
		{"gate_clear", []string{"gate", "clear", "worker/alarm"}},
		{"gate_open", []string{"gate", "open", "worker/alarm", "--reason", "it is over"}},
		{"gate_close_slot", []string{"gate", "close", "worker/balancer", "--slot", "worker-1", "--reason", "it is busy"}},
		{"gate_overrides_slot", []string{"overrides"}},
	} {
		code, out := b.run(c.args...)
		if code != ExitOK {
			t.Errorf("%s: exit %d", c.name, code)
		}
		golden(t, c.name, out)
	}
	if settings := b.GateSettings(); len(settings) != 2 || settings[1].GetTicket() != "" || settings[1].GetState() != group.GateClosed {
		t.Errorf("settings %v", settings)
	}
}

func TestASettingAboutAGateIsChecked(t *testing.T) {
	b := newBench(t)
	gated(b)
	for _, c := range []struct {
		want int
		args string
		says string
	}{
		{ExitUsage, "gate open worker --reason x", "write GROUP/GATE"},
		{ExitUsage, "gate open worker/ --reason x", "write GROUP/GATE"},
		{ExitUsage, "gate open worker/a/b --reason x", "write GROUP/GATE"},
		{ExitUsage, "gate close worker/alarm", "--reason is missing"},
		{ExitUsage, "gate close worker/alarm --reason x --for -1h", "--for"},
		{ExitUsage, "gate open worker/balancer --reason x --ticket " + aTicket, "give the slot of the step too"},
		{ExitUsage, "gate open worker/alarm --reason x --slot worker-1", "is of the whole group"},
		{ExitError, "gate open worker/balancer --reason x --slot worker-2", "no step of worker-2 waits for a setting of gate worker/balancer"},
		{ExitNotFound, "gate open worker/network --reason x", "the spec of worker has no gate network"},
		{ExitNotFound, "gate clear worker/network", "the spec of worker has no gate network"},
		{ExitNotFound, "gate close wroker/alarm --reason x", "no such group"},
		{ExitOK, "gate clear worker/alarm", "there is no setting of gate worker/alarm"},
		{ExitUsage, "gate serve", "--token-file is missing"},
		{ExitUsage, "gate serve --token-file x --listen 0.0.0.0:1", "--allow-remote"},
		{ExitError, "gate serve --token-file /nonexistent", "--token-file"},
	} {
		if code, out := b.run(strings.Fields(c.args)...); code != c.want || !strings.Contains(out, c.says) {
			t.Errorf("%s: exit %d, want %d: %s", c.args, code, c.want, out)
		}
	}
	if settings := b.GateSettings(); len(settings) != 0 {
		t.Errorf("settings %v", settings)
	}
}

var gatesURL = regexp.MustCompile(`url=(http://\S+)`)

// serveGates runs `cadre gate serve` until the test ends, and returns its address.
func serveGates(t *testing.T, token string) (address string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	said, log := io.Pipe()
	app := &App{Out: io.Discard, Err: log, Now: time.Now, Version: "test", Dial: client.Options{CallTimeout: 5 * time.Second}}
	done := make(chan int, 1)
	go func() {
		done <- app.Run(ctx, []string{"gate", "serve", "--listen", "127.0.0.1:0", "--token-file", file})
		_ = log.Close()
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-done; code != ExitOK {
			t.Errorf("exit %d", code)
		}
	})
	first := make([]byte, 4096)
	n, err := said.Read(first)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	at := gatesURL.FindSubmatch(first[:n])
	if at == nil {
		t.Fatalf("no address in %s", first[:n])
	}
	return string(at[1])
}

// TestGatesAreServedOverHTTP: from a request with the token to the setting of the context's operator.
func TestGatesAreServedOverHTTP(t *testing.T) {
	b := newBench(t)
	gated(b)
	at := serveGates(t, strings.Repeat("t", 32))
	post := func(token string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+"/worker/alarm", bytes.NewReader([]byte(`{"state":"closed","reason":"HighErrorRate fires","for":"1h"}`)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close() //nolint:errcheck // only its status is read
		return reply.StatusCode
	}
	if code := post(strings.Repeat("u", 32)); code != http.StatusUnauthorized || len(b.GateSettings()) != 0 {
		t.Errorf("a wrong token: %d", code)
	}
	if code := post(strings.Repeat("t", 32)); code != http.StatusOK {
		t.Errorf("the token: %d", code)
	}
	if settings := b.GateSettings(); len(settings) != 1 || settings[0].GetState() != group.GateClosed || settings[0].GetReason() != "HighErrorRate fires" || settings[0].GetLeft().AsDuration() != time.Hour {
		t.Errorf("settings %v", settings)
	}
}

// TestGatesAreServedInParallel: the race detector reports a field that two requests write.
func TestGatesAreServedInParallel(t *testing.T) {
	b := newBench(t)
	gated(b)
	at := serveGates(t, strings.Repeat("t", 32))
	codes := make(chan int, 4)
	for range cap(codes) {
		go func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+"/worker", nil)
			if err != nil {
				codes <- 0
				return
			}
			r.Header.Set("Authorization", "Bearer "+strings.Repeat("t", 32))
			reply, err := http.DefaultClient.Do(r)
			if err != nil {
				codes <- 0
				return
			}
			_ = reply.Body.Close()
			codes <- reply.StatusCode
		}()
	}
	for range cap(codes) {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("a request: %d", code)
		}
	}
}
