package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cadre.dev/core/deployment"
	"cadre.dev/core/operation"
)

const shopFile = `
locals {
  compose = "services:\n  app:\n    image: example.org/app@sha256:%s\n"
}
deployment "shop" {
  labels = { team = "sales" }

  group "postgres" {
    replicas = 3
    template {
      compose       = local.compose
      instance_type = "tdx.small"
      os_image      = "dstack-0.5.7"
    }
    backend "pg" {
      port  = 5432
      allow = ["web"]
    }
    route "postgres-master" {
      backend = "pg"
    }
  }

  group "web" {
    replicas = 2
    template {
      compose       = local.compose
      instance_type = "tdx.small"
      os_image      = "dstack-0.5.7"
    }
  }
}
`

func (b *bench) shop(edits ...string) string {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), "shop.hcl")
	text := strings.NewReplacer(append([]string{"%s", strings.Repeat("a", 64)}, edits...)...).Replace(shopFile)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// must runs a command line, fails the test at another exit code, and returns its output.
func (b *bench) must(want int, args ...string) string {
	b.t.Helper()
	code, out := b.run(args...)
	if code != want {
		b.t.Errorf("%v: exit %d, want %d:\n%s", args, code, want, out)
	}
	return out
}

func TestDeploymentPictures(t *testing.T) {
	b := newBench(t)
	b.OnApply = lead(operation.Complete, "")
	golden(t, "deployment_list_none", b.must(ExitOK, "deployment", "list"))
	golden(t, "deployment_apply_dry_run", b.must(ExitOK, "deployment", "apply", b.shop(), "--dry-run"))
	b.must(ExitNotFound, "group", "describe", "web")
	golden(t, "deployment_apply_new", b.must(ExitOK, "deployment", "apply", b.shop(), "--wait", "--reason", "release 1"))
	if out := b.must(ExitOK, "deployment", "apply", b.shop()); !strings.HasSuffix(out, "deployment shop is unchanged, version 1\n") {
		t.Errorf("again: %s", out)
	}
	changed := b.shop("replicas = 2", "replicas = 4")
	golden(t, "deployment_diff", b.must(ExitOK, "deployment", "diff", changed))
	golden(t, "deployment_apply", b.must(ExitOK, "deployment", "apply", changed, "--reason", "more load"))

	b.must(ExitOK, "group", "apply", b.file("a", "30")) // a group of no deployment
	b.must(ExitOK, "group", "stop", "web", "--yes")
	golden(t, "deployment_describe", b.must(ExitOK, "deployment", "describe", "shop"))
	if out := b.must(ExitOK, "deployment", "diff", changed); !strings.Contains(out, "drift: the spec of group web is not that of version 2") {
		t.Errorf("drift: %s", out)
	}

	golden(t, "deployment_undo_dry_run", b.must(ExitOK, "deployment", "undo", "shop", "--dry-run", "--confirm", "shop"))
	golden(t, "deployment_undo_unsure", b.must(ExitUsage, "deployment", "undo", "shop"))
	golden(t, "deployment_undo", b.must(ExitOK, "deployment", "undo", "shop", "--confirm", "shop", "--reason", "too many"))
	golden(t, "deployment_history", b.must(ExitOK, "deployment", "history", "shop"))
	if out := b.must(ExitRefused, "deployment", "undo", "shop", "--yes"); !strings.Contains(out, "--to 2 goes forth again") {
		t.Errorf("an undo of the undo: %s", out)
	}

	golden(t, "deployment_clone", b.must(ExitOK, "deployment", "clone", "shop", "shop-staging", "--set", "replicas=1", "--set", "web.replicas=2"))
	golden(t, "deployment_list", b.must(ExitOK, "deployment", "list"))
	for _, name := range []string{"shop", "shop-staging"} {
		if out := b.must(ExitRefused, "deployment", "clone", "shop", name); !strings.Contains(out, "deployment "+name+" exists already") || !strings.Contains(out, "choose another name") || strings.Contains(out, "repeat") {
			t.Errorf("a clone over another deployment: %s", out)
		}
	}
	other := b.file("a", "30")
	if text, err := os.ReadFile(other); err != nil || os.WriteFile(other, []byte(strings.Replace(string(text), `group "worker"`, `group "next-web"`, 1)), 0o600) != nil {
		t.Fatal(err)
	}
	b.must(ExitOK, "group", "apply", other)
	if out := b.must(ExitRefused, "deployment", "clone", "shop", "next"); !strings.Contains(out, "GROUP_EXISTS: group next-web") {
		t.Errorf("a clone over a group of no deployment: %s", out)
	}
	b.must(ExitNotFound, "deployment", "describe", "next")
	if out := b.must(ExitUsage, "deployment", "clone", "shop", "x", "--set", "replicsa=1"); !strings.Contains(out, "replicsa") {
		t.Errorf("a misspelt field: %s", out)
	}

	golden(t, "deployment_delete_unsure", b.must(ExitUsage, "deployment", "delete", "shop-staging", "--delete-disks", "--reason", "done"))
	golden(t, "deployment_delete", b.must(ExitOK, "deployment", "delete", "shop-staging", "--delete-disks", "--reason", "done", "--confirm", "shop-staging", "--wait"))
	b.must(ExitNotFound, "deployment", "describe", "shop-staging")
	b.must(ExitOK, "group", "describe", "web")
	b.UnreadableDeployment("broken")
	golden(t, "deployment_list_unreadable", b.must(ExitOK, "deployment", "list"))
	for _, name := range []string{"apply", "undo", "clone", "delete"} {
		golden(t, "deployment_"+name+"_help", b.must(ExitOK, "deployment", name, "--help"))
	}
}

// TestAnExportedDocumentAppliesUnchanged: a clone has no file of its own, so its document is exported, changed and applied.
func TestAnExportedDocumentAppliesUnchanged(t *testing.T) {
	b := newBench(t)
	b.must(ExitOK, "deployment", "apply", b.shop())
	text := b.must(ExitOK, "deployment", "export", "shop")
	path := filepath.Join(t.TempDir(), "shop.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := b.must(ExitOK, "deployment", "apply", path); !strings.HasSuffix(out, "deployment shop is unchanged, version 1\n") {
		t.Errorf("applied: %s", out)
	}
	var doc deployment.Document
	if err := json.Unmarshal([]byte(text), &doc); err != nil || len(doc.Groups) != 2 || doc.Labels["team"] != "sales" {
		t.Errorf("%+v, %v", doc, err)
	}
	for _, bad := range []string{`{"name":"shop","grp":[]}`, text + "{}", `{"name":"shop","group":[{"name":"web","replicsa":1}]}`} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, out := b.run("deployment", "apply", path); code == ExitOK {
			t.Errorf("accepted: %s", out)
		}
	}
}

func TestAllProblemsOfADeploymentFileAreReported(t *testing.T) {
	b := newBench(t)
	path := b.shop("replicas = 3", "replicas = 0", `backend = "pg"`, `backend = "gp"`, `"sales"`, `"a b"`, `os_image      = "dstack-0.5.7"
    }
  }
}`, `os_image      = ["x"]
    }
  }
  grp "x" {}
}`)
	out := b.must(ExitRefused, "deployment", "apply", path)
	for _, want := range []string{`shop.hcl:9: group["postgres"].replicas: is 0`, `group["postgres"].route["postgres-master"].backend: there is no backend "gp"`, `labels["team"]`, `"grp" is not known here`} {
		if !strings.Contains(out, want) {
			t.Errorf("%s is not reported:\n%s", want, out)
		}
	}
	if out := b.must(ExitUsage, "deployment", "apply", b.file("a", "30")); !strings.Contains(out, "there is no deployment block") {
		t.Errorf("a file of groups: %s", out)
	}
}
