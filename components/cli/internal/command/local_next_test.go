package command

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cadre.dev/cli/internal/localcloud"
)

func TestANewCloudTakesWhatTheCheckoutHas(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "compose"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "compose/programs.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "cloud")
	if _, err := defaults(dir, root, false, nil); err == nil || !strings.Contains(err.Error(), "make images") || !strings.Contains(err.Error(), "--programs") {
		t.Errorf("without images: %v", err)
	}
	images := filepath.Join(root, ".out/images")
	if err := os.MkdirAll(images, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(images, "index.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := defaults(dir, root, false, nil); err != nil || !slices.Equal(got, []string{"--layout", images}) || localcloud.RunsPrograms(dir) {
		t.Errorf("images: %q, %v", got, err)
	}
	if got, err := defaults(dir, root, true, nil); err != nil || !slices.Equal(got, []string{"--images", filepath.Join(dir, "programs.json")}) || !localcloud.RunsPrograms(dir) {
		t.Errorf("programs: %q, %v", got, err)
	}
	if _, err := defaults(dir, root, false, nil); err != nil || localcloud.RunsPrograms(dir) {
		t.Errorf("images after programs that did not start: %v", err)
	}
	for _, given := range []string{"--images", "--layout"} {
		if got, err := defaults(dir, root, false, []string{given, "x"}); err != nil || got != nil {
			t.Errorf("with %s: %q, %v", given, got, err)
		}
		if _, err := defaults(dir, root, true, []string{given, "x"}); err == nil {
			t.Errorf("programs and %s go together", given)
		}
	}
	if _, err := defaults(dir, "", false, nil); err == nil || !strings.Contains(err.Error(), "--layout") || !strings.Contains(err.Error(), "checkout") {
		t.Errorf("outside of a checkout: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "start.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := defaults(dir, "", false, nil); err != nil || got != nil {
		t.Errorf("one that existed before: %q, %v", got, err)
	}
	if _, err := defaults(dir, root, true, nil); err == nil || !strings.Contains(err.Error(), "existed before") {
		t.Errorf("programs for one that existed before: %v", err)
	}
}

func TestUpSaysWhatRunsAndWhatToTypeNext(t *testing.T) {
	root := localcloud.Checkout(".")
	cluster, err := localcloud.ReadCluster(filepath.Join(root, "clusters/light"))
	if err != nil {
		t.Fatal(err)
	}
	s := started{
		dir: "/state", began: true, checkout: t.TempDir(), cluster: &cluster, cvms: 2,
		info: localcloud.Info{APIURL: "http://127.0.0.1:1/api/v1", GatewayAddress: "127.0.0.1:2", GatewayDomain: "gw.test", Registry: "127.0.0.1:3", GatewayCAFile: "/state/gateway/ca.pem"},
		images: []localcloud.Image{
			{Name: "cadre-agent", Tag: "dev", Digest: "sha256:aa"}, {Name: "cadre-coordinator", Tag: "dev", Digest: "sha256:bb"}, {Name: "light", Tag: "dev", Digest: "sha256:cc"},
		},
	}
	text := s.text()
	for _, want := range []string{
		"local cloud started", "registry  127.0.0.1:3, 3 images", "facts     /state/cloud.json", "CVMs      2", "local status --state /state",
		"coordinator_image=127.0.0.1:3/cadre-coordinator:dev@sha256:bb", "agent_image=127.0.0.1:3/cadre-agent:dev@sha256:aa", "light_image=127.0.0.1:3/light:dev@sha256:cc",
		"--cacert /state/gateway/ca.pem --resolve APP-PORT.gw.test:2:127.0.0.1 https://APP-PORT.gw.test:2/",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "not filled in") {
		t.Errorf("not all is filled in:\n%s", text)
	}
}

// A path with a space stays one word of the printed command.
func TestPrintedCommandsAreQuotedForAShell(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", "/my config")
	t.Setenv("CADRE_CONTEXT", "")
	cluster, err := localcloud.ReadCluster(filepath.Join(localcloud.Checkout(testdata), "clusters/light"))
	if err != nil {
		t.Fatal(err)
	}
	s := started{dir: "/my clouds/one", info: localcloud.Info{GatewayAddress: "127.0.0.1:2", GatewayDomain: "gw.test", GatewayCAFile: "/my clouds/one/gateway/ca.pem"}}
	text := s.text()
	s.cluster = &cluster
	text += s.text()
	for _, want := range []string{
		" --state '/my clouds/one'\n", " --var 'cloud=/my clouds/one/cloud.json'\n", "--cacert '/my clouds/one/gateway/ca.pem' ", "--var 'context=/my config/cadre/", "--var 'cloud=/my clouds/one/cloud.json' ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
