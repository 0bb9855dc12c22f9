package command

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/cli/internal/bundle"
	"cadre.dev/client"
	"cadre.dev/client/clienttest"
)

func unpacked(t *testing.T, path string) map[string][]byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	packed, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for r := tar.NewReader(packed); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if out[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// Secrets of the context are planted everywhere an answer may echo them, and env values where they
// belong. The archive has none of them, and still has all parts.
func TestReportHasNoSecret(t *testing.T) {
	b := newBench(t)
	const env, key = "a-value-of-the-users-env", "phak_0123456789abcdef"
	c, err := client.LoadContext(b.context)
	if err != nil {
		t.Fatal(err)
	}
	c.Platform.APIKey = key
	c.CoordinatorAppNonce = "nonce-of-the-app-55aa"
	if err := c.Save(b.context); err != nil {
		t.Fatal(err)
	}
	b.Set("worker", func(g *clienttest.Group) {
		midRollout(g)
		g.Spec.Template.Env = map[string]string{"DATABASE_URL": env}
		g.Status.Message = "echo of " + clienttest.Token + " and " + base64.StdEncoding.EncodeToString([]byte("Bearer "+clienttest.Token))
		g.Operations[0].Reason = "echo of " + hex.EncodeToString([]byte(clienttest.Token)) + " " + key
	})
	b.SetMetrics("# TYPE cadre_x gauge\ncadre_x{echo=\""+clienttest.Token+"\"} 1\n", map[string]string{"worker-1": ""})
	b.Fail("ListOverrides", status.Error(codes.PermissionDenied, "no right for "+clienttest.Token))
	file := filepath.Join(t.TempDir(), "r.tar.gz")
	code, out := b.run("report", "-o", file)
	if code != ExitOK || !strings.Contains(out, "overrides.json: list overrides: no right for (removed)") {
		t.Errorf("exit %d: %s", code, out)
	}
	files := unpacked(t, file)
	for _, name := range []string{bundle.IndexName, "status.json", "status.txt", "versions.json", "context.json", "metrics.txt", "admissions.json", "operations.json",
		"groups/worker/group.json", "groups/worker/plan.json", "groups/worker/rollouts.json", "groups/worker/slots.json", "slots/worker-1/instance.json", "coordinators/coordinator/cluster.json"} {
		if len(files[name]) == 0 {
			t.Errorf("the archive lacks %s", name)
		}
	}
	for name, text := range files {
		for what, secret := range map[string]string{"token": clienttest.Token, "key": key, "nonce": c.CoordinatorAppNonce, "env": env} {
			for form, pattern := range map[string]string{
				"raw": secret, "hex": hex.EncodeToString([]byte(secret)), "base64": base64.RawStdEncoding.EncodeToString([]byte(secret)),
				"base64+1": base64.RawStdEncoding.EncodeToString([]byte("Bearer " + secret))[12:32],
			} {
				if bytes.Contains(text, []byte(pattern)) {
					t.Errorf("%s has the %s as %s", name, what, form)
				}
			}
		}
	}
	if !bytes.Contains(files["groups/worker/group.json"], []byte(`"DATABASE_URL": "(removed)"`)) {
		t.Errorf("the names of the env are missing: %s", files["groups/worker/group.json"])
	}
	var index bundle.Index
	if err := json.Unmarshal(files[bundle.IndexName], &index); err != nil || index.Cluster != "demo" || index.Errors() == 0 {
		t.Errorf("%+v, %v", index, err)
	}
	if code, out := b.run("report", "-o", file); code != ExitError || !strings.Contains(out, "name another file") {
		t.Errorf("a second report: exit %d: %s", code, out)
	}
}

func TestReportWithoutACoordinator(t *testing.T) {
	b := newBench(t)
	b.Fail("GetCluster", status.Error(codes.PermissionDenied, "no right"))
	file := filepath.Join(t.TempDir(), "r.tar.gz")
	code, out := b.run("report", "-o", file)
	if files := unpacked(t, file); code != ExitRefused || len(files["status.txt"]) == 0 || len(files["context.json"]) == 0 {
		t.Errorf("exit %d: %s", code, out)
	}
	for _, args := range [][]string{{"report"}, {"report", "-o", "json"}, {"report", "-o", file, "--timeout", "1ms"}, {"report", "x"}} {
		if code, out := b.run(args...); code != ExitUsage {
			t.Errorf("%v: exit %d: %s", args, code, out)
		}
	}
}
