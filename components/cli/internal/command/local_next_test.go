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
	root := localcloud.Checkout(".")
	dir := filepath.Join(t.TempDir(), "cloud")
	got, err := defaults(dir, root, nil)
	want := []string{"--images", filepath.Join(dir, "programs.json"), "--layout", filepath.Join(root, ".out/images")}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("defaults = %q, %v, want %q", got, err, want)
	}
	if _, err := os.Stat(want[1]); err != nil {
		t.Error(err)
	}
	for _, given := range []string{"--images", "--layout"} {
		if got, err := defaults(dir, root, []string{given, "x"}); err != nil || got != nil {
			t.Errorf("with %s: %q, %v", given, got, err)
		}
	}
	if _, err := defaults(dir, "", nil); err == nil || !strings.Contains(err.Error(), "--layout") || !strings.Contains(err.Error(), "checkout") {
		t.Errorf("outside of a checkout: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "start.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := defaults(dir, "", nil); err != nil || got != nil {
		t.Errorf("one that was there before: %q, %v", got, err)
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
	// A checkout without programs: then the images.
	if err := os.MkdirAll(filepath.Join(s.checkout, "compose"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.checkout, "compose/programs.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := s.text()
	for _, want := range []string{
		"local cloud started", "registry  127.0.0.1:3, 3 images", "facts     /state/cloud.json", "CVMs      2",
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
