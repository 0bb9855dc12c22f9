package provider_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cadre.dev/attest"
	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/platform/platformtest"
)

// For an existing cluster, another gateway in its file changes the planned outputs, and other
// arguments do not. Its destroy is not planned while the platform cannot be called.
func TestPlansOfAClusterThatIsThere(t *testing.T) {
	program := tofu(t)
	fake := platformtest.NewFake()
	url, stop := fake.Serve()
	t.Cleanup(stop)
	coordinators := clienttest.New(t)
	known := coordinators.Start(t)
	known.Platform = client.Platform{Driver: "phala", APIURL: url, APIKeyEnv: "CLUSTER_KEY"}
	known.Trust.KeyProvider = attest.KeyProvider{Name: "kms", ID: "ab"}
	at := filepath.Join(t.TempDir(), "demo.json")
	if err := known.Save(at); err != nil {
		t.Fatal(err)
	}
	f := newFolder(t, program)
	f.env = append(f.env, "CLUSTER_KEY=")
	file := `cluster "demo" {
  platform "phala" {
    api_url     = "` + url + `"
    api_key_env = "CLUSTER_KEY"
  }
  gateway {
    domain  = "gw.test"
    address = "` + known.Gateway.Address + `"
  }
  coordinator {
    replicas      = 1
    compose       = "services:\n  coordinator:\n    image: c@sha256:${sha256("c")}\n# ${cadre.coordinator_app_id} ${cadre.trust_json}"
    instance_type = "tdx.small"
    os_image      = "dstack-0.5.9"
  }
  trust {
    allow_simulated = true
    key_provider {
      name = "kms"
      id   = "ab"
    }
  }
}
`
	f.write("cluster.hcl", file)
	f.write("main.tf", "resource \"cadre_cluster\" \"demo\" {\n  file                = \"cluster.hcl\"\n  context             = \""+at+"\"\n  deletion_protection = false\n}\n"+
		"output \"context\" {\n  value = nonsensitive(cadre_cluster.demo.context_json)\n}\n")
	f.must("import", "cadre_cluster.demo", at)
	out := f.must("plan")
	if wants(t, "another argument", out, "deletion_protection", "+ rendering", "cadre_cluster.demo will be updated"); strings.Contains(out, "known after apply") {
		t.Errorf("what does not change is not known:\n%s", out)
	}
	for what, change := range map[string][2]string{"domain": {"gw.test", "gw2.test"}, "address": {known.Gateway.Address, "127.0.0.1:1"}} {
		f.write("cluster.hcl", strings.Replace(file, change[0], change[1], 1))
		wants(t, "another "+what, f.must("plan"), "~ ca_pem", "~ context_json", "~ cluster_id", "(known after apply)")
	}
	f.write("cluster.hcl", strings.Replace(file, "allow_simulated = true", "", 1))
	out, ok := f.run("plan")
	if wants(t, "another root of trust", out, "trust.allow_simulated"); ok {
		t.Error("another root of trust was planned")
	}
	f.write("cluster.hcl", file)

	out, ok = f.run("plan", "-destroy")
	if wants(t, "a destroy without a key", out, "Set the environment variable CLUSTER_KEY.", "Nothing was destroyed"); ok {
		t.Error("a destroy was planned that cannot end")
	}
	f.env = append(f.env, "CLUSTER_KEY="+platformtest.Key)
	out, ok = f.run("plan", "-destroy") // it is protected all the same: the imported state says so
	if wants(t, "a destroy with it", out, "Cluster demo is protected from deletion"); ok || strings.Contains(out, "CLUSTER_KEY.") {
		t.Errorf("a destroy with the key: %s", out)
	}

	// A group that no state knows of, as its first apply failed, would be left to itself.
	coordinators.Set("worker", func(*clienttest.Group) {})
	state := filepath.Join(f.path, "terraform.tfstate")
	text, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	f.write("terraform.tfstate", regexp.MustCompile(`"deletion_protection": *\w+`).ReplaceAllString(string(text), `"deletion_protection": false`))
	out, ok = f.run("destroy", "-auto-approve")
	if wants(t, "a destroy beside a group", out, "Cluster demo still has groups", "worker", "cadre group delete"); ok {
		t.Error("the coordinators of a group were destroyed")
	}
	if _, err := client.LoadContext(at); err != nil {
		t.Errorf("the context after it: %v", err)
	}
}
