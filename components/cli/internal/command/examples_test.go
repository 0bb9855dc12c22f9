package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every ready example renders to a compose file whose hash fixes the code that runs. The only
// permitted warning is the example's purpose: a local cloud's simulated evidence.
func TestATT16_ReadyExamplesPassLint(t *testing.T) {
	root, err := filepath.Abs("../../../../clusters")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Glob(filepath.Join(root, "*", "*.hcl"))
	if err != nil || len(examples) < 5 {
		t.Fatalf("examples %v, %v", examples, err)
	}
	examples = append(examples, filepath.Join(root, "modules/coordinators/cluster.hcl"))
	files(t, map[string]string{"root.pem": "pem"})
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	trust := map[string]any{"cluster": "demo", "allow_simulated": true}
	cloud, err := json.Marshal(map[string]any{
		"api_url": "http://a", "api_key": "k", "api_url_in_cvm": "http://b", "gateway_domain": "gw.test", "gateway_address": "127.0.0.1:1", "gateway_address_in_cvm": "10.0.0.1:443",
		"pccs_url": "http://127.0.0.1:1", "pccs_url_in_cvm": "http://127.0.0.1:1", "rendezvous_url": "", "rendezvous_ca_base64": "", "root_pem_file": filepath.Join(dir, "root.pem"), "key_provider": map[string]string{"name": "kms", "id": "ab"}, "images": map[string]any{},
	})
	if err != nil {
		t.Fatal(err)
	}
	context, err := json.Marshal(map[string]any{"trust": trust, "cluster_id": strings.Repeat("0f", 16)})
	if err != nil {
		t.Fatal(err)
	}
	vars := "cloud = \"cloud.json\"\n"
	for _, name := range []string{"agent_image", "coordinator_image", "consul_image", "etcd_image", "kafka_image", "light_image", "load_image", "nats_image", "patroni_image", "webdemo_image"} {
		vars += name + " = \"registry.example/x@sha256:" + strings.Repeat("ab", 32) + "\"\n"
	}
	vars = strings.ReplaceAll(vars, "cloud.json", filepath.Join(dir, "cloud.json")) +
		"context = \"" + filepath.Join(dir, "context.json") + "\"\nport = \"8080\"\npostgres_bin = \"/usr/lib/postgresql/15/bin\"\npostgres_gid = \"100\"\nrelease = \"1\"\nname = \"sample\"\n"
	for name, text := range map[string]string{"vars": vars, "cloud.json": string(cloud), "context.json": string(context)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, example := range examples {
		code, out := run(t, "compose", "lint", example, "--var-file", "vars")
		if code != ExitOK || strings.Count(out, "warning:") != strings.Count(out, "[trust-simulated]") {
			t.Errorf("%s: exit %d\n%s", filepath.Base(example), code, out)
		}
	}
}
