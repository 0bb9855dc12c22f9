package command

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
)

const alertmanager = "../../../../docs/examples/alertmanager/"

// TestTheExampleClosesAGateWhileAnAlertFires: a message of Alertmanager goes through the receiver of
// docs/examples and `cadre gate serve` to the setting of the context's operator.
func TestTheExampleClosesAGateWhileAnAlertFires(t *testing.T) {
	program := filepath.Join(t.TempDir(), "receiver")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, alertmanager+"receiver.go").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b := newBench(t)
	gated(b)
	token := strings.Repeat("t", 32)
	at := serveGates(t, token)
	// The receiver takes no port 0: another program may take this one first, and the test fails by that.
	free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	ctx, cancel := context.WithCancel(t.Context())
	receiver := exec.CommandContext(ctx, program, "-listen", address, "-gates", at)
	said, err := receiver.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := receiver.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = receiver.Wait() })
	lines := bufio.NewScanner(said)
	if !lines.Scan() {
		t.Fatal("the receiver says nothing")
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	firing, err := os.ReadFile(alertmanager + "firing.json")
	if err != nil {
		t.Fatal(err)
	}
	post := func(token string, body []byte) int {
		for deadline := time.Now().Add(30 * time.Second); ; {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/", bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+token)
			reply, err := http.DefaultClient.Do(r)
			if err == nil {
				defer reply.Body.Close() //nolint:errcheck // only its status is read
				return reply.StatusCode
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	}
	if code := post(strings.Repeat("u", 32), firing); code != http.StatusUnauthorized || len(b.GateSettings()) != 0 {
		t.Errorf("a wrong token: %d, settings %v", code, b.GateSettings())
	}
	for body, want := range map[string]int{
		`{"version":"3","status":"firing","groupLabels":{"gate":"worker/alarm"}}`: http.StatusBadRequest,
		`{"version":"4","status":"firing","groupLabels":{"gate":"../alarm"}}`:     http.StatusBadRequest,
		`{"version":"4","status":"firing"}`:                                       http.StatusBadRequest,
		`{"version":"4","status":"firing","groupLabels":{"gate":"worker/other"}}`: http.StatusNotFound,
		`alert`: http.StatusBadRequest,
	} {
		if code := post(token, []byte(body)); code != want || len(b.GateSettings()) != 0 {
			t.Errorf("%s: %d, want %d", body, code, want)
		}
	}
	if code := post(token, firing); code != http.StatusOK {
		t.Fatalf("the alert fires: %d", code)
	}
	if settings := b.GateSettings(); len(settings) != 1 || settings[0].GetState() != group.GateClosed || settings[0].GetGate() != "alarm" || settings[0].GetLeft().AsDuration() != 5*time.Hour ||
		settings[0].GetReason() != "alert HighErrorRate fires: http://alertmanager.example.org:9093" {
		t.Errorf("settings %v", settings)
	}
	if code := post(token, bytes.ReplaceAll(firing, []byte(`"firing"`), []byte(`"resolved"`))); code != http.StatusOK {
		t.Fatalf("the alert is resolved: %d", code)
	}
	if settings := b.GateSettings(); len(settings) != 1 || settings[0].GetState() != group.GateOpen || settings[0].GetUntil() != nil {
		t.Errorf("settings %v", settings)
	}
}
