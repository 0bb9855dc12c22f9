package command

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/cli/kmsauth"
	"cadre.dev/client"
	"cadre.dev/client/clienttest"
)

// webhookURL finds the address in the log of `cadre kms-auth`.
var webhookURL = regexp.MustCompile(`url=(http://\S+)`)

// TestAKeyServiceAsksTheCoordinators: from `kms-auth init` to the coordinators' answers over HTTP.
func TestAKeyServiceAsksTheCoordinators(t *testing.T) {
	b := newBench(t)
	known, err := client.LoadContext(b.context)
	if err != nil {
		t.Fatal(err)
	}
	static := filepath.Join(t.TempDir(), "kms-auth.json")
	image, own, hash, app, instance := strings.Repeat("1", 64), strings.Repeat("2", 64), strings.Repeat("3", 64), strings.Repeat("c", 40), strings.Repeat("6", 40)
	if code, out := b.run("kms-auth", "--static", static); code == 0 || !strings.Contains(out, "kms-auth init") {
		t.Errorf("without a static file: %d %s", code, out)
	}
	if code, out := b.run("kms-auth", "init", "--static", static, "--coordinators"); code == 0 || !strings.Contains(out, "no compose hash") {
		t.Errorf("a context without hashes: %d %s", code, out)
	}
	known.CoordinatorComposeHashes = []string{own}
	if err := known.Save(b.context); err != nil {
		t.Fatal(err)
	}
	if code, out := b.run("kms-auth", "init", "--static", static, "--coordinators", "--os-image", image, "--kms-measurement", "nonsense"); code == 0 || !strings.Contains(out, "kms.mrAggregated") {
		t.Errorf("a wrong measurement: %d %s", code, out)
	}
	for _, flags := range [][]string{{"--app", app}, {"--compose-hash", hash}, {"--coordinators", "--app", app, "--compose-hash", hash}} {
		if code, out := b.run(append([]string{"kms-auth", "init", "--static", static}, flags...)...); code != ExitUsage {
			t.Errorf("%q: exit code %d: %s", flags, code, out)
		}
	}
	alone := filepath.Join(t.TempDir(), "kms-auth.json")
	if code, out := b.run("kms-auth", "init", "--static", alone, "--app", app, "--compose-hash", hash); code != 0 || !strings.Contains(out, "and 1 apps") {
		t.Errorf("an app without a context: %d %s", code, out)
	}
	if code, out := b.run("kms-auth", "init", "--static", static, "--coordinators", "--os-image", "0x"+image); code != 0 || !strings.Contains(out, "1 OS images, 0 key services and 1 apps") {
		t.Fatalf("init: %d %s", code, out)
	}
	if f, err := kmsauth.Read(static); err != nil || len(f.Apps["0x"+clienttest.AppID].ComposeHashes) != 1 {
		t.Fatalf("%+v, %v", f, err)
	}
	b.AllowBoot("worker", app, hash)

	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- (&App{Out: io.Discard, Err: w, Dial: client.Options{CallTimeout: 10 * time.Second}}).Run(ctx, []string{"kms-auth", "--listen", "127.0.0.1:0", "--static", static})
		w.Close()
	}()
	line := make([]byte, 4096)
	n, err := r.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	address := webhookURL.FindSubmatch(line[:n])
	if address == nil {
		t.Fatalf("no address in %q", line[:n])
	}
	logged := make(chan string, 1)
	go func() {
		rest, _ := io.ReadAll(r)
		logged <- string(rest)
	}()
	ask := func(when, appID, composeHash, says string) {
		t.Helper()
		body, _ := json.Marshal(map[string]any{"mrAggregated": hash, "osImageHash": image, "appId": appID, "composeHash": composeHash, "instanceId": instance, "deviceId": hash, "tcbStatus": "UpToDate", "advisoryIds": []string{}})
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, string(address[1])+"/bootAuth/app", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var a kmsauth.Answer
		if err := json.NewDecoder(resp.Body).Decode(&a); err != nil || a.IsAllowed != (says == "") || !strings.Contains(a.Reason, says) {
			t.Errorf("%s: %+v, %v", when, a, err)
		}
	}
	ask("a member", app, hash, "")
	ask("a member at another revision", app, image, "REVISION_NOT_ALLOWED")
	ask("a coordinator", clienttest.AppID, own, "")
	ask("a coordinator of another file", clienttest.AppID, hash, "composeHashes")
	b.Fail("BootAllowed", status.Error(codes.PermissionDenied, "no right to read group worker"))
	ask("a token without the right", app, hash, "no right to read")
	cancel()
	if code := <-done; code != 0 {
		t.Errorf("exit code %d", code)
	}
	if text := <-logged; !strings.Contains(text, "allowed=true") || !strings.Contains(text, "REVISION_NOT_ALLOWED") {
		t.Errorf("log: %s", text)
	}
}
