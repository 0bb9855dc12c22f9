package provider_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cadre.dev/client"
	"cadre.dev/platform/platformtest"
)

// Coordinators that cannot prove themselves make no cluster. The error names the created parts, and
// the next apply continues with them. Only the context file has the platform's key and the
// operator's token.
func TestTOK08_ClusterGoesOnAndKeepsItsSecrets(t *testing.T) {
	program := tofu(t)
	fake := platformtest.NewFake()
	url, stop := fake.Serve()
	t.Cleanup(stop)
	f := newFolder(t, program)
	at := filepath.Join(t.TempDir(), "demo.json")
	f.env = append(f.env, "TF_VAR_key="+platformtest.Key, "CLUSTER_KEY=")
	f.traced()
	f.write("cluster.hcl", `variable "api" {}

cluster "demo" {
  platform "phala" {
    api_url     = var.api
    api_key_env = "CLUSTER_KEY"
  }
  gateway {
    domain  = "gw.test"
    address = "127.0.0.1:1"
  }
  coordinator {
    replicas      = 1
    compose       = "services:\n  coordinator:\n    image: c@sha256:${sha256("c")}\n# ${cadre.coordinator_app_id} ${cadre.trust_json}"
    instance_type = "tdx.small"
    os_image      = "dstack-0.5.9"
    env           = { CADRE_PLATFORM_API_KEY = cadre.platform_api_key }
  }
  trust {
    key_provider {
      name = "kms"
      id   = "ab"
    }
  }
}
`)
	f.write("main.tf", `
variable "key" {
  type      = string
  sensitive = true
  ephemeral = true
}

resource "cadre_cluster" "demo" {
  file             = "cluster.hcl"
  context          = "`+at+`"
  variables        = { api = "`+url+`" }
  platform_api_key = var.key
  timeouts {
    create = "8s"
  }
}
`)
	f.must("plan", "-out=plan.bin")
	f.has("cluster.hcl", "plan.bin/tfplan")
	for range 2 {
		out, ok := f.run("apply", "-auto-approve")
		if wants(t, "nobody proves itself", out, "Cluster demo is not as the file says yet", at, "apply again to continue"); ok {
			t.Error("a cluster was made that proved nothing")
		}
	}
	known, err := client.LoadContext(at)
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for _, call := range fake.Calls() {
		if strings.HasPrefix(call, "POST ") && strings.HasSuffix(call, "/cvms") {
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d CVMs were made for one coordinator: %v", made, fake.Calls())
	}
	f.has("cadre_cluster", "trace.log")
	f.hasNo(platformtest.Key, known.Token)

	f.write("cluster.hcl", "cluster \"demo\" {}\n")
	out, ok := f.run("validate")
	if wants(t, "a cluster file without blocks", out, "has no platform block"); ok {
		t.Error("it is valid")
	}
	if err := os.Remove(at); err != nil {
		t.Error(err)
	}
}
