package provider_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"cadre.dev/client"
	"cadre.dev/coordinator/wholetest"
	"cadre.dev/terraform-provider/internal/provider"
)

// tofu is the program that applies in tests.
func tofu(t *testing.T) string {
	t.Helper()
	at, err := exec.LookPath("tofu")
	if err != nil {
		t.Skip("tofu is not here: scripts/tools.sh run builds it")
	}
	return at
}

// withTofu makes the plug-in tests run OpenTofu, which knows providers by another host.
func withTofu(t *testing.T) {
	t.Helper()
	t.Setenv("TF_ACC", "1")
	t.Setenv("TF_ACC_TERRAFORM_PATH", tofu(t))
	t.Setenv("TF_ACC_PROVIDER_HOST", "registry.opentofu.org")
	t.Setenv("TF_ACC_PROVIDER_NAMESPACE", "hashicorp")
	t.Setenv("CHECKPOINT_DISABLE", "1")
}

func factories() map[string]func() (tfprotov6.ProviderServer, error) {
	return map[string]func() (tfprotov6.ProviderServer, error){"cadre": providerserver.NewProtocol6WithError(provider.New("test")())}
}

// cluster is a real coordinator with its context file, which the environment names.
type cluster struct {
	*wholetest.Whole
	client *client.Client
	file   string
}

func startCluster(t *testing.T, change func(*wholetest.Whole)) *cluster {
	t.Helper()
	w := wholetest.New(t)
	w.Log = slog.New(slog.DiscardHandler)
	if os.Getenv("CADRE_TEST_LOG") != "" {
		w.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	if change != nil {
		change(w)
	}
	w.Start()
	known := client.Context{
		Cluster: wholetest.Cluster, CoordinatorAppID: wholetest.CoordinatorApp, Token: w.OperatorToken, Trust: w.Config.Trust,
		Gateway: client.Gateway{Domain: wholetest.GatewayDomain, Address: w.Gateway.Address()},
	}
	w.Eventually("a coordinator that proves itself", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		proven, err := client.Attest(ctx, known, client.Options{})
		known.CAPEM, known.ClusterID = proven.CAPEM, proven.ClusterID
		return err
	})
	c := &cluster{Whole: w, file: filepath.Join(t.TempDir(), "demo.json")}
	if err := known.Save(c.file); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.client, err = client.Dial(known, client.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.client.Close() })
	w.Eventually("a leader", func() error {
		_, err := c.client.Groups(t.Context())
		return err
	})
	t.Setenv("CADRE_CONTEXT", c.file)
	return c
}

// composeOf is a compose text of one pinned image.
func composeOf(release string) string {
	return "services:\n  web:\n    image: example.org/web@sha256:" + strings.Repeat("a", 64) + "\n    environment:\n      RELEASE: " + release + "\n"
}

// groupOf is a configuration of the group web; more goes into its block.
func groupOf(release string, replicas int, more string) string {
	compose, _ := json.Marshal(composeOf(release))
	count, _ := json.Marshal(replicas)
	return `
resource "cadre_group" "web" {
  name     = "web"
  replicas = ` + string(count) + `
  template {
    compose       = ` + string(compose) + `
    instance_type = "tdx.small"
    os_image      = "` + wholetest.OSImage + `"
  }
` + more + `
}
`
}

// quick keeps a rollout from waiting for nothing.
const quick = `
  update_policy {
    min_ready_seconds = 0
  }
`
