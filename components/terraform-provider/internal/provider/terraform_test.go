package provider_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"cadre.dev/coordinator/wholetest"
)

// hostTerraform is the machine's own Terraform, of 1.11 or newer; "" where it has none. It is
// no program that this repository needs, so make does not put it on PATH.
func hostTerraform(t *testing.T) string {
	t.Helper()
	where := os.Getenv("CADRE_HOST_PATH")
	if where == "" {
		where = os.Getenv("PATH") // not run by make
	}
	for _, dir := range filepath.SplitList(where) {
		at := filepath.Join(dir, "terraform")
		cmd := exec.CommandContext(t.Context(), at, "version", "-json")
		cmd.Env = append(os.Environ(), "CHECKPOINT_DISABLE=1", "TF_CLI_CONFIG_FILE=")
		out, err := cmd.Output()
		var said struct {
			Version string `json:"terraform_version"`
		}
		if err != nil || json.Unmarshal(out, &said) != nil {
			continue
		}
		parts := strings.SplitN(said.Version, ".", 3)
		if minor, err := strconv.Atoi(parts[min(1, len(parts)-1)]); err == nil && parts[0] == "1" && minor >= 11 {
			return at
		}
	}
	return ""
}

// Terraform behaves like OpenTofu.
func TestTerraformWhereThereIsOne(t *testing.T) {
	program := hostTerraform(t)
	if program == "" {
		t.Skip("this machine has no terraform of 1.11 or newer on PATH; OpenTofu runs the same configurations in the other tests")
	}
	if !wholetest.Isolated(t) {
		return
	}
	c := startCluster(t, nil)
	f := newFolder(t, program)
	f.traced()
	f.write("main.tf", groupOf("one", 1, quick)+`
provider "cadre" {
  alias = "by_file"
}

ephemeral "cadre_operator_token" "here" {
  provider = cadre.by_file
}

provider "cadre" {
  token = ephemeral.cadre_operator_token.here.token
}
`)
	wants(t, "a first plan", f.must("plan", "-out=plan.bin"), "Group web: 1 step to revision", "1. web-0: create")
	f.must("apply", "plan.bin")
	wants(t, "nothing to do", f.must("plan"), "No changes")
	f.must("destroy", "-auto-approve")
	f.has("cadre_group", "trace.log", "plan.bin/tfplan", printed)
	f.hasNo(c.OperatorToken)
}
