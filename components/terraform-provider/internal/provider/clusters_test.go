package provider_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/client/groupfile"
	"cadre.dev/core/group"
)

// stubCoordinators is the module coordinators of a cluster that is there already.
const stubCoordinators = `
variable "name" {}
variable "platform" {}
variable "image" {}
variable "replicas" {}
variable "context" {}
variable "deletion_protection" {}
terraform {
  required_providers {
    cadre = { source = "cadre.dev/cadre/cadre" }
  }
}
locals { context = file(var.context) }
output "context_json" { value = local.context }
output "token" {
  value     = jsondecode(local.context).token
  ephemeral = true
}
output "trust" { value = jsonencode(merge(jsondecode(local.context).trust, { cluster_id = jsondecode(local.context).cluster_id })) }
`

// Folders with both forms agree: Terraform and `cadre group apply` write the same specs, to the
// byte of each compose text.
func TestClustersInTerraformAreThoseOfTheirGroupFiles(t *testing.T) {
	for name, files := range map[string][]string{
		"postgres": {"postgres", "app"}, "postgres with backups": {"backup"}, "consul": {"consul"}, "etcd": {"etcd", "app"}, "kafka": {"kafka", "app"},
		"nats": {"nats", "app"}, "patroni-demo": {"postgres", "app", "webdemo"},
	} {
		t.Run(name, func(t *testing.T) {
			name, backups := strings.CutSuffix(name, " with backups")
			f := newFolder(t, tofu(t))
			server := clienttest.New(t)
			server.Start(t)
			root := t.TempDir()
			f.path = filepath.Join(root, "clusters", name)
			copyFolder(t, "../../../../clusters/"+name, f.path)
			copyFolder(t, "../../../../clusters/modules", filepath.Join(root, "clusters/modules"))
			at := filepath.Join(root, "clusters/modules/coordinators")
			if err := os.RemoveAll(at); err != nil {
				t.Fatal(err)
			}
			vars := sampleVars(t, root, server)
			write(t, filepath.Join(at, "main.tf"), stubCoordinators)
			// The test rolls nothing out.
			override, apply := "", []string{"apply", "-auto-approve", "-var-file=" + filepath.Join(root, "vars.tfvars.json")}
			var paths []string
			if backups {
				vars["store_endpoint"], vars["store_bucket"], vars["store_ca"] = "s3.test", "db", filepath.Join(root, "ca.pem")
				write(t, vars["store_ca"], "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
				apply = append(apply, fmt.Sprintf("-var=backup={endpoint=%q,bucket=%q,ca_file=%q}", "s3.test", "db", vars["store_ca"]))
			}
			for _, local := range files {
				paths = append(paths, filepath.Join(f.path, local+".hcl"))
				if backups {
					local = "postgres"
				}
				apply = append(apply, "-target=cadre_group."+local) // no leader makes their slots
				override += "resource \"cadre_group\" \"" + local + "\" {\n  wait_for_rollout = false\n}\n"
			}
			f.write("wait_override.tf", override)
			f.must("get")
			f.must(apply...)

			file, err := groupfile.Load(paths, groupfile.Vars{Shared: vars})
			if err != nil {
				t.Fatal(err)
			}
			known, err := client.Dial(server.Context(), client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = known.Close() })
			for _, g := range file.Groups {
				want := g.Spec
				want.Normalize()
				got, err := known.Group(t.Context(), g.Spec.Name)
				if err != nil {
					t.Fatal(err)
				}
				if a, b := encoded(t, got.Spec), encoded(t, want); a != b {
					t.Errorf("group %s: Terraform writes\n%s\nthe group file says\n%s", g.Spec.Name, a, b)
				}
			}
			if len(file.Groups) != len(files) {
				t.Errorf("%d groups, want one in each of %v", len(file.Groups), files)
			}
		})
	}
}

// The examples of variables for Phala Cloud are complete: each is planned without a platform, and
// the plan of the coordinators equals the example. No key is asked for or kept.
func TestClustersArePlannedForPhala(t *testing.T) {
	program := tofu(t)
	root := t.TempDir()
	copyFolder(t, "../../../../compose", filepath.Join(root, "compose"))
	copyFolder(t, "../../../../clusters/modules", filepath.Join(root, "clusters/modules"))
	at := filepath.Join(root, "context.json")
	// Files with the values of the backups' secrets make two more resources.
	key := filepath.Join(root, "key")
	write(t, key, "k")
	copyFolder(t, "../../../../clusters/postgres", filepath.Join(root, "clusters/with-backups"))
	f := newFolder(t, program)
	f.path = filepath.Join(root, "clusters/with-backups")
	f.must("get")
	wants(t, "postgres with backups", strings.Join(strings.Fields(f.must("plan", "-var-file=terraform.tfvars.example", "-var=context="+at,
		fmt.Sprintf("-var=backup={endpoint=%q,bucket=%q,repo_cipher_file=%q,s3_key_file=%[3]q}", "s3.test", "db", key))), " "),
		"Plan: 5 to add", `cadre_secret.backup["repo-cipher"] will be created`, `cadre_secret.backup["s3-key"] will be created`, `name = "backup-ended"`)
	for name, things := range map[string]int{"starter": 10, "postgres": 3, "etcd": 3, "kafka": 3, "nats": 3, "consul": 5, "patroni-demo": 6} {
		copyFolder(t, "../../../../clusters/"+name, filepath.Join(root, "clusters", name))
		f := newFolder(t, program)
		f.path = filepath.Join(root, "clusters", name)
		f.must("get")
		out := strings.Join(strings.Fields(f.must("plan", "-var-file=terraform.tfvars.example", "-var=context="+at)), " ")
		wants(t, name+" for Phala", out, fmt.Sprintf("Plan: %d to add, 0 to change, 0 to destroy", things),
			`"api_key_env" = "PHALA_CLOUD_API_KEY"`, `"os_image" = "dstack-0.5.9"`, `api_url = "https://cloud-api.phala.com/api/v1"`)
		out, ok := f.run("plan", "-var-file=terraform.tfvars.example", "-var=context="+at, "-var=cloud=cloud.json")
		if wants(t, name+" for two platforms", out, "Give one of cloud"); ok {
			t.Errorf("%s was planned for two platforms", name)
		}
	}
}

func encoded(t *testing.T, s group.Spec) string {
	t.Helper()
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sampleVars writes the variables of both forms, and returns the group files' variables.
func sampleVars(t *testing.T, root string, server *clienttest.Server) map[string]string {
	t.Helper()
	cloud, context := filepath.Join(root, "cloud.json"), filepath.Join(root, "context.json")
	write(t, cloud, `{"api_url": "http://a/api/v1", "api_key": "k", "api_url_in_cvm": "http://b/api/v1", "gateway_domain": "gw.test", "gateway_address": "127.0.0.1:1",
		"gateway_address_in_cvm": "10.0.0.1:443", "gateway_ca_file": "/ca.pem", "pccs_url_in_cvm": "http://c", "rendezvous_url": "https://d", "rendezvous_ca_base64": "Y2E=",
		"root_pem": "pem", "key_provider": {"name": "kms", "id": "ab"}, "images": {"dstack-0.5.7": []}}`)
	if err := server.Context().Save(context); err != nil {
		t.Fatal(err)
	}
	images, vars := map[string]string{}, map[string]string{"cloud": cloud, "context": context, "postgres_bin": "/usr/lib/postgresql/15/bin", "postgres_gid": "999", "release": "7"}
	for _, name := range []string{"cadre-agent", "cadre-coordinator", "consul", "etcd", "kafka", "load", "nats", "patroni", "webdemo"} {
		images[name] = "registry.example/cadre/" + name + "@sha256:" + strings.Repeat("ab", 32)
		vars[strings.TrimPrefix(name, "cadre-")+"_image"] = images[name]
	}
	text, err := json.Marshal(map[string]any{"images": images, "cloud": cloud, "context": context, "release": "7", "deletion_protection": false})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "vars.tfvars.json"), string(text))
	return vars
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}
