package webdemo_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"cadre.dev/demo/webdemo"
)

func get(t *testing.T, w webdemo.Web, path string) (int, string) {
	t.Helper()
	answer := httptest.NewRecorder()
	w.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return answer.Code, answer.Body.String()
}

func TestASlotSaysWhoItIs(t *testing.T) {
	w := webdemo.Web{Slot: "worker-3", Release: "2"}
	if code, text := get(t, w, "/"); code != http.StatusOK || text != "worker-3 release 2\n" {
		t.Errorf("%d %q", code, text)
	}
	if code, text := get(t, w, "/healthz"); code != http.StatusOK || text != "ok\n" {
		t.Errorf("%d %q", code, text)
	}
	if code, _ := get(t, w, "/other"); code != http.StatusNotFound {
		t.Errorf("another path: %d", code)
	}
}

// Members are asked by the addresses of the hosts file as it is now, each answers for
// itself, and one that is down costs the answer nothing but its line.
func TestASlotAsksTheOtherGroup(t *testing.T) {
	worker := httptest.NewServer(webdemo.Web{Slot: "worker-0", Release: "7"}.Handler())
	t.Cleanup(worker.Close)
	_, text, err := net.SplitHostPort(worker.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	hosts := filepath.Join(t.TempDir(), "hosts")
	w := webdemo.Web{Slot: "api-0", Release: "1", Call: "worker", CallPort: port, Hosts: hosts}
	if code, said := get(t, w, "/"); code != http.StatusOK || !strings.HasPrefix(said, "api-0 release 1\n  no member of worker is known: ") {
		t.Errorf("without a file: %d %q", code, said)
	}
	// Nobody listens on 127.0.0.2 at this port; other names are other groups'.
	lines := "# addresses\n127.0.0.2 worker-10\n127.0.0.1 worker-0\n127.0.0.1 workers-1 worker-x\n127.0.0.1 api-0\n"
	if err := os.WriteFile(hosts, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	_, said := get(t, w, "/")
	got := strings.Split(strings.TrimSpace(said), "\n")
	if len(got) != 3 || got[0] != "api-0 release 1" || got[1] != "  worker-0 release 7" || !strings.HasPrefix(got[2], "  worker-10 does not answer: ") {
		t.Errorf("%q", said)
	}
}
