package command

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const (
	vectorA = `{"allowed_envs":["B","A"],"docker_compose_file":"services:\n  app:\n    image: nginx:1.27\n","gateway_enabled":true,"key_provider":"kms","kms_enabled":true,"manifest_version":2,"name":"web-0","public_logs":false,"public_sysinfo":true,"runner":"docker-compose","secure_time":false}`
	hashA   = "4e2dcf86072305d02af2153ed3f74fe090d13c87bf809158b2431a4e036acced"
	hashB   = "6d6fb03a19f361fee9625264394af93a38615593106ab2cb97ee4c59bc055161"
)

// files writes files into a folder of their own and makes it the working one, so
// that output names them shortly.
func files(t *testing.T, texts map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range texts {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestATT15_ComposeHash(t *testing.T) {
	files(t, map[string]string{
		"a.json": vectorA, "newline.json": vectorA + "\n", "spaced.json": strings.Replace(vectorA, `,"name"`, `, "name"`, 1),
		"b.yaml": "services:\n  app:\n    image: nginx:1.27\n    command: sh -c 'a && b > /tmp/x'\n", "a.yaml": "services:\n  app:\n    image: nginx:1.27\n",
	})
	code, out := run(t, "compose", "hash", "a.json")
	if code != ExitOK {
		t.Errorf("exit %d", code)
	}
	golden(t, "compose_hash", out)

	built := []string{"--name", "web-0", "--secure-time=false", "--allowed-env", "B", "--allowed-env", "A"}
	code, out = run(t, append([]string{"compose", "hash", "--from-docker-compose", "b.yaml", "-w", "b.json"}, built...)...)
	if code != ExitOK || !strings.Contains(out, hashB) {
		t.Errorf("vector B: exit %d\n%s", code, out)
	}
	if code, out = run(t, "compose", "hash", "b.json", "-o", "json"); code != ExitOK || !strings.Contains(out, `"compose_hash": "`+hashB+`"`) {
		t.Errorf("what was written: exit %d\n%s", code, out)
	}
	if code, out = run(t, append([]string{"compose", "hash", "--from-docker-compose", "a.yaml", "--compare", "a.json"}, built...)...); code != ExitOK || !strings.Contains(out, "the same bytes") {
		t.Errorf("A built: exit %d\n%s", code, out)
	}
	code, out = run(t, "compose", "hash", "a.json", "--compare", "b.json")
	if code != ExitError {
		t.Errorf("compare: exit %d", code)
	}
	golden(t, "compose_compare", out)
	for _, c := range []struct {
		want int
		args []string
		says string
	}{
		{ExitOK, []string{"newline.json"}, "ends with a newline, which is hashed too"},
		{ExitError, []string{"a.json", "--compare", "spaced.json"}, "the same fields in other bytes"},
		{ExitError, []string{"a.yaml"}, "give --from-docker-compose"},
		{ExitUsage, []string{"a.json", "--name", "x"}, "--name builds a document"},
		{ExitUsage, []string{"a.json", "--from-docker-compose"}, "app-compose.json already"},
		{ExitError, []string{"nowhere.json"}, "read nowhere.json: no such file"},
		{ExitError, []string{"a.json", "--app-id", "12"}, "40 hex digits"},
		{ExitError, []string{"a.yaml", "--from-docker-compose", "--key-provider", "usb"}, "key_provider"},
		{ExitUsage, []string{}, "cadre compose hash --help"},
	} {
		if code, out := run(t, append([]string{"compose", "hash"}, c.args...)...); code != c.want || !strings.Contains(out, c.says) {
			t.Errorf("%v: exit %d, want %d and %q:\n%s", c.args, code, c.want, c.says, out)
		}
	}
	var buf bytes.Buffer
	app := &App{Out: &buf, Err: &buf, In: strings.NewReader(vectorA)}
	if code := app.Run(t.Context(), []string{"compose", "hash", "-"}); code != ExitOK || !strings.Contains(buf.String(), hashA) {
		t.Errorf("standard input: exit %d\n%s", code, buf.String())
	}
}

const composeBad = `services:
  cadre:
    image: registry.example/cadre-agent@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
    command: [--trust-file=/etc/cadre/trust.json, --revision-mark=CADRE_REVISION_MARK]
    volumes:
      - /var/run/dstack.sock:/var/run/dstack.sock
    configs:
      - source: trust
        target: /etc/cadre/trust.json
  web:
    image: ${WEB_IMAGE}
    privileged: true
    environment:
      POSTGRES_PASSWORD: hunter2
    volumes:
      - /var/run/dstack.sock:/var/run/dstack.sock
configs:
  trust:
    content: '{"cluster":"demo"}'
`

func TestATT16_ComposeLint(t *testing.T) {
	good := strings.NewReplacer("${WEB_IMAGE}", "nginx@sha256:"+strings.Repeat("ab", 32), "    privileged: true\n", "", "    environment:\n      POSTGRES_PASSWORD: hunter2\n    volumes:\n      - /var/run/dstack.sock:/var/run/dstack.sock\n", "").Replace(composeBad)
	app, err := json.Marshal(map[string]any{"runner": "docker-compose", "kms_enabled": true, "docker_compose_file": composeBad, "allowed_envs": []string{"PATH"}})
	if err != nil {
		t.Fatal(err)
	}
	hcl := strings.Replace(strings.Replace(workerFile, "%s", strings.Repeat("a", 64), 1), "%s", "30", 1)
	files(t, map[string]string{
		"bad.yaml": composeBad, "good.yaml": good, "app-compose.json": string(app), "worker.hcl": hcl, "broken.hcl": "group {",
		"bad.hcl": strings.Replace(strings.Replace(hcl, "app@sha256:", "app@", 1), "    instance_type", "    env = { LD_PRELOAD = \"x\" }\n    instance_type", 1),
	})
	code, out := run(t, "compose", "lint", "bad.yaml")
	if code != ExitError {
		t.Errorf("exit %d", code)
	}
	golden(t, "compose_lint", out)
	for _, c := range []struct {
		want int
		args []string
		says string
	}{
		{ExitOK, []string{"good.yaml"}, "1 file: nothing to say"},
		{ExitOK, []string{"worker.hcl"}, "worker.hcl:5: group worker: template.compose:2:3: warning: services has no service named cadre"},
		{ExitError, []string{"--strict", "worker.hcl"}, "no-agent"},
		{ExitError, []string{"bad.hcl"}, "bad.hcl:5: group worker: template.compose:3:12: error: services.app.image is"},
		{ExitError, []string{"bad.hcl"}, "bad.hcl:10: group worker: template.env: error: LD_PRELOAD is not measured"},
		{ExitError, []string{"broken.hcl"}, "broken.hcl:1"},
		{ExitError, []string{"app-compose.json"}, "app-compose.json:docker_compose_file:11:12: error"},
		{ExitError, []string{"app-compose.json"}, "app-compose.json: error: allowed_envs[0] \"PATH\" is not measured"},
		{ExitError, []string{"good.yaml", "bad.yaml", "-o", "json"}, `"rule": "guest-socket"`},
		{ExitError, []string{"nowhere.yaml"}, "no such file"},
		{ExitUsage, []string{}, "cadre compose lint --help"},
		{ExitUsage, []string{"worker.hcl", "--var", "x"}, "x"},
	} {
		if code, out := run(t, append([]string{"compose", "lint"}, c.args...)...); code != c.want || !strings.Contains(out, c.says) {
			t.Errorf("%v: exit %d, want %d and %q:\n%s", c.args, code, c.want, c.says, out)
		}
	}
	if code, out := run(t, "group", "validate", "bad.hcl"); code != ExitRefused || !strings.Contains(out, "bad.hcl:5: group worker: template.compose:3:12: error") || strings.Contains(out, "ATT-16") {
		t.Errorf("group validate: exit %d\n%s", code, out)
	}
	if code, out := run(t, "group", "validate", "worker.hcl"); code != ExitOK || !strings.Contains(out, "[no-agent]") {
		t.Errorf("group validate: exit %d\n%s", code, out)
	}
}

// push puts a small image into the registry and returns its digest.
func push(t *testing.T, reference string) string {
	t.Helper()
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: "amd64", Author: reference, RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, image); err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

func TestSUP01_ComposePin(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	web, db := push(t, host+"/team/web:1"), push(t, host+"/team/db:15")
	text := "services:\n  web:\n    image: " + host + "/team/web:1   # the web\n  db:\n    image: \"" + host + "/team/db:15\"\n"
	want := strings.NewReplacer("web:1 ", "web:1@"+web+" ", "db:15", "db:15@"+db).Replace(text)
	files(t, map[string]string{"c.yaml": text, "var.yaml": "services:\n  a:\n    image: ${A}\n", "gone.yaml": "services:\n  a:\n    image: " + host + "/team/gone:1\n"})

	if code, out := run(t, "compose", "pin", "--check", "c.yaml"); code != ExitError || !strings.Contains(out, "team/web:1@sha256:...") {
		t.Errorf("check: exit %d\n%s", code, out)
	}
	code, out := run(t, "compose", "pin", "c.yaml")
	if code != ExitOK || !strings.Contains(out, "+    image: "+host+"/team/web:1@"+web+"   # the web") || !strings.Contains(out, "SERVICE") {
		t.Errorf("show: exit %d\n%s", code, out)
	}
	if got, _ := os.ReadFile("c.yaml"); string(got) != text {
		t.Error("showing wrote the file")
	}
	if code, out := run(t, "compose", "pin", "-w", "c.yaml", "-o", "json"); code != ExitOK || !strings.Contains(out, `"written": true`) {
		t.Errorf("write: exit %d\n%s", code, out)
	}
	if got, _ := os.ReadFile("c.yaml"); string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if left, _ := filepath.Glob(".c.yaml*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if code, out := run(t, "compose", "pin", "--check", "c.yaml"); code != ExitOK || !strings.Contains(out, "2 images pinned already") {
		t.Errorf("check after: exit %d\n%s", code, out)
	}
	newer := push(t, host+"/team/web:2")
	ref, _ := name.ParseReference(host + "/team/web:2")
	image, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	if moved, _ := name.ParseReference(host + "/team/web:1"); remote.Write(moved, image) != nil {
		t.Fatal("the tag cannot be moved")
	}
	if code, out := run(t, "compose", "pin", "--check", "--update", "c.yaml"); code != ExitError || !strings.Contains(out, "web:1@"+newer) {
		t.Errorf("a moved tag: exit %d\n%s", code, out)
	}
	for _, c := range []struct {
		want int
		args []string
		says string
	}{
		{ExitError, []string{"var.yaml"}, "var.yaml: 3:12: the image of service a is \"${A}\", with a variable"},
		{ExitError, []string{"gone.yaml"}, "gone.yaml:3:12: registry " + host + " has no"},
		{ExitUsage, []string{"-w", "--check", "c.yaml"}, "one of them"},
	} {
		if code, out := run(t, append([]string{"compose", "pin"}, c.args...)...); code != c.want || !strings.Contains(out, c.says) {
			t.Errorf("%v: exit %d, want %d and %q:\n%s", c.args, code, c.want, c.says, out)
		}
	}
	var buf bytes.Buffer
	app := &App{Out: &buf, Err: &buf, In: strings.NewReader(strings.ReplaceAll(text, "web:1", "web:2"))}
	if code := app.Run(t.Context(), []string{"compose", "pin", "-w", "-"}); code != ExitOK || !strings.Contains(buf.String(), "web:2@"+newer+"   # the web\n") {
		t.Errorf("standard input: exit %d\n%s", code, buf.String())
	}
}
