package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// kvWorld is a coordinator's API with a caller that speaks HTTP/1.
type kvWorld struct {
	*api
	t    *testing.T
	base string
	http *http.Client
}

func newKV(t *testing.T) *kvWorld {
	t.Helper()
	w := kvOf(t, newAPI(t))
	w.group(t)
	return w
}

func kvOf(t *testing.T, a *api) *kvWorld {
	t.Helper()
	w := &kvWorld{api: a, t: t}
	address := w.listen(t)
	w.base = "https://" + address + "/v1/kv/"
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(w.caPEM)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	w.http = &http.Client{Transport: transport}
	return w
}

// TestACoordinatorWithoutRecordsServesNoKV: not under the name of a method either that it serves,
// because the first use of a token would write a record.
func TestACoordinatorWithoutRecordsServesNoKV(t *testing.T) {
	a := newAPI(t)
	a.cfg.Waits = func() bool { return true }
	w := kvOf(t, a)
	w.base = strings.TrimSuffix(w.base, "/v1/kv/")
	for _, path := range append([]string{"/v1/kv/cadre/v1/?recurse"}, open...) {
		if code, text, _ := w.ask(http.MethodGet, path, operatorToken, ""); code != http.StatusServiceUnavailable || !strings.Contains(text, "cadre cluster restore") {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
}

// ask makes a request and returns the status and the text of the answer.
func (w *kvWorld) ask(method, path, token, body string) (int, string, http.Header) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.base+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := w.http.Do(r)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer.StatusCode, string(text), answer.Header
}

// consul runs the real tool of Consul against the API.
func (w *kvWorld) consulCLI(token string, args ...string) (string, error) {
	w.t.Helper()
	ca := filepath.Join(w.t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, w.caPEM, 0o600); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "consul", args...)
	at, err := url.Parse(w.base)
	if err != nil {
		w.t.Fatal(err)
	}
	c.Env = append(os.Environ(), "CONSUL_HTTP_ADDR=https://"+at.Host, "CONSUL_CACERT="+ca, "CONSUL_HTTP_TOKEN="+token)
	out, err := c.CombinedOutput()
	return string(out), err
}

// TestOperatorsUseConsulsOwnTool writes a spec and a switch with the real `consul` over the operators'
// port, each with the index that it read, on the same port as gRPC.
func TestOperatorsUseConsulsOwnTool(t *testing.T) {
	w := newKV(t)
	const spec = "cadre/v1/groups/pg/spec"
	detailed, err := w.consulCLI(operatorToken, "kv", "get", "-detailed", spec)
	if err != nil {
		t.Fatal(detailed, err)
	}
	index := ""
	for line := range strings.Lines(detailed) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "ModifyIndex" {
			index = f[1]
		}
	}
	edited := strings.Replace(string(specJSON(t)), `"replicas":3`, `"replicas":5`, 1)
	for _, c := range []struct {
		args []string
		want string
		ok   bool
	}{
		{[]string{"kv", "put", "-cas", "-modify-index=" + index, spec, edited}, "Success! Data written", true},
		{[]string{"kv", "put", "-cas", "-modify-index=" + index, spec, edited}, "", false}, // it changed
		{[]string{"kv", "get", spec}, `"replicas":5`, true},
		{[]string{"kv", "put", spec, edited}, "Success! Data written", true}, // the proxy reads the index
		{[]string{"kv", "put", "cadre/v1/control/freeze/pg", "{}"}, "cas: is missing", false},
		{[]string{"kv", "put", "-cas", "-modify-index=0", "cadre/v1/control/freeze/pg", "{}"}, "Success!", true},
		{[]string{"kv", "get", "-keys", "cadre/v1/control/"}, "cadre/v1/control/freeze/", true},
		{[]string{"kv", "get", "-recurse", "cadre/v1/control/"}, "freeze/pg:{}", true},
		{[]string{"kv", "delete", "cadre/v1/control/freeze/pg"}, "cas: is missing", false},
		{[]string{"kv", "delete", "-recurse", "cadre/v1/control/"}, "recurse: ", false},
		{[]string{"kv", "put", "-cas", "-modify-index=0", "cadre/v1/groups/pg/status", "{}"}, "Permission denied", false},
		{[]string{"kv", "put", "-cas", "-modify-index=0", "cadre/v1/groups/new/spec", "{}"}, "Success!", true},
		{[]string{"kv", "get", "other"}, "path: only", false},
		{[]string{"acl", "token", "list"}, "path: only", false},
		{[]string{"catalog", "nodes"}, "path: only", false},
	} {
		out, err := w.consulCLI(operatorToken, c.args...)
		if (err == nil) != c.ok || !strings.Contains(out, c.want) {
			t.Errorf("consul %v: %v, %s; want %q", c.args, err, out, c.want)
		}
	}
	if took := operator(t, strings.TrimSuffix(strings.TrimPrefix(w.base, "https://"), "/v1/kv/")); took < 0 {
		t.Error("gRPC over the same port")
	}
}

// TestCTL13_KVHasTheRightsOfTheToken: the first use of a token may be a KV request. An author writes
// the spec of the own group, and approves nothing. A removed operator reads nothing.
func TestCTL13_KVHasTheRightsOfTheToken(t *testing.T) {
	w := newKV(t)
	w.add(t, annToken, "ann", store.RoleOperate, "pg")
	for _, c := range []struct {
		token, method, path string
		status              int
	}{
		{annToken, "GET", "cadre/v1/groups/pg/spec?raw", 200},
		{annToken, "PUT", "cadre/v1/groups/pg/spec", 200},
		{annToken, "PUT", "cadre/v1/groups/web/spec", 403},
		{annToken, "PUT", "cadre/v1/control/pause/pg?cas=0", 200},
		{annToken, "PUT", "cadre/v1/control/pause/web?cas=0", 403},
		{annToken, "PUT", "cadre/v1/control/approvals/abc?cas=0", 403},
		{annToken, "PUT", "cadre/v1/control/operators/ann?cas=0", 403},
		{"", "GET", "cadre/v1/groups/pg/spec", 401},
		{"invented", "GET", "cadre/v1/groups/pg/spec", 403},
		{w.workload, "GET", "cadre/v1/groups/pg/spec", 403},
	} {
		if status, text, _ := w.ask(c.method, c.path, c.token, "{}"[:2*boolInt(c.method == "PUT")]); status != c.status {
			t.Errorf("%s %s as %.4s: %d %s, want %d", c.method, c.path, c.token, status, text, c.status)
		}
	}
	if _, err := w.RemoveOperator(as(t.Context(), operatorToken), &apiv1.RemoveOperatorRequest{Name: "ann"}); err != nil {
		t.Fatal(err)
	}
	if status, text, _ := w.ask("GET", "cadre/v1/groups/pg/spec", annToken, ""); status != 403 {
		t.Errorf("a removed operator reads: %d %s", status, text)
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestKVRefusesBadRequests(t *testing.T) {
	w := newKV(t)
	long := strings.Repeat("x", 5<<10)
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"PUT", "cadre/v1/control/freeze/pg?cas=x", "{}", 400, "cas: \"x\" is not a number"},
		{"PUT", "cadre/v1/control/freeze/pg?cas", "{}", 400, "cas: \"\" is not a number"},
		{"PUT", "cadre/v1/control/freeze/pg?cas=1&cas=2", "{}", 400, "cas: give it once"},
		{"PUT", "cadre/v1/control/freeze/pg?cas=0&acquire=x", "{}", 400, "acquire: is not a parameter"},
		{"PUT", "cadre/v1/control/freeze/pg?cas=0", long, 413, "at most 4096 bytes"},
		{"PUT", "cadre/v1/control/nothing/pg?cas=0", "{}", 400, "key: "},
		{"PUT", "cadre/v1/control/../lease/term?cas=0", "{}", 400, "key: "},
		{"PUT", "cadre/v1/groups/pg/spec?dc=other", "{}", 400, "dc: the only datacenter is dc1"},
		{"PUT", "cadre/v1/groups/pg/spec?token=abc", "{}", 400, "token: put the token into the header"},
		{"DELETE", "cadre/v1/groups/pg/spec", "", 400, "cas: is missing"},
		{"DELETE", "cadre/v1/control/?recurse", "", 400, "recurse: "},
		{"POST", "cadre/v1/groups/pg/spec", "{}", 405, "method: POST"},
		{"GET", "cadre/v1/groups/pg/spec?filter=x", "", 400, "filter: is not a parameter"},
		{"GET", "cadre/v1/groups/pg/spec?index=1&wait=soon", "", 400, "wait: "},
		{"GET", "cadre/v1/groups/pg/spec", "{}", 400, "body: a read has none"},
		{"GET", "cadre/v1//x", "", 400, "key: "},
		{"GET", "vault/x", "", 400, "path: only"},
		{"GET", "cadre/v1/groups/none/spec", "", 404, ""},
	} {
		if status, text, _ := w.ask(c.method, c.path, operatorToken, c.body); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %s: %d %.200s, want %d %s", c.method, c.path, status, text, c.status, c.want)
		}
	}
}

// TestABlockingReadWakesAtAChange: the answer to a read with an index comes with the change.
func TestABlockingReadWakesAtAChange(t *testing.T) {
	w := newKV(t)
	const key = "cadre/v1/control/pause/pg"
	if status, text, _ := w.ask("PUT", key+"?cas=0", operatorToken, "{}"); status != 200 || text != "true" && text != "true\n" {
		t.Fatal(status, text)
	}
	_, _, header := w.ask("GET", key, operatorToken, "")
	index, err := strconv.ParseUint(header.Get("X-Consul-Index"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan string, 1)
	go func() {
		_, text, _ := w.ask("GET", fmt.Sprintf("%s?raw&index=%d&wait=5m", key, index), operatorToken, "")
		answer <- text
	}()
	if status, text, _ := w.ask("PUT", fmt.Sprintf("%s?cas=%d", key, index), operatorToken, `{"by":"ann"}`); status != 200 || !strings.HasPrefix(text, "true") {
		t.Fatal(status, text)
	}
	if got := <-answer; got != `{"by":"ann"}` {
		t.Errorf("the read got %q", got)
	}
}

// TestINP04_HTTPCallersWithoutATokenAreBounded: they are closed after a few refusals, and send no
// more than any unauthenticated caller.
func TestINP04_HTTPCallersWithoutATokenAreBounded(t *testing.T) {
	w := newKV(t)
	at, err := url.Parse(w.base)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", at.Host, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	answers := bufio.NewReader(conn)
	refused := 0
	for refused < 100 {
		if _, err := io.WriteString(conn, "GET /v1/kv/cadre/v1/x HTTP/1.1\r\nHost: x\r\nX-Consul-Token: invented\r\n\r\n"); err != nil {
			break
		}
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			break
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		if answer.StatusCode != http.StatusForbidden {
			t.Fatal(answer.Status)
		}
		refused++
	}
	if refused > 5 {
		t.Errorf("%d refusals over one connection", refused)
	}
	big, err := tls.Dial("tcp", at.Host, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = big.Close() }()
	sent := 0
	_, err = io.WriteString(big, "PUT /v1/kv/cadre/v1/groups/pg/spec HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\nX-Consul-Token: invented\r\n\r\n")
	for ; err == nil && sent < 8<<20; sent += 4 << 10 {
		_, err = big.Write(make([]byte, 4<<10))
	}
	if sent >= 8<<20 {
		t.Error("an unauthenticated caller sends a body without end")
	}
}
