package provider_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cadre.dev/attest/attestsim"
	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/coordinator/wholetest"
	"cadre.dev/core/secret"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// theSecret is a configuration of the secret s3-key of group web.
func theSecret(body string) string {
	return `
variable "s3_key" {
  type      = string
  sensitive = true
  ephemeral = true
}

resource "cadre_secret" "s3_key" {
  group = "web"
  name  = "s3-key"
` + body + "}\n"
}

// byVariable gives the variable's value.
const byVariable = "  value_wo = var.s3_key\n  value_wo_version = 1\n"

// sealing is a coordinator in this process that proves its key, and a context file that trusts it.
func sealing(t *testing.T) (s *clienttest.Server, file string) {
	t.Helper()
	var evidence *clienttest.Evidence
	s, file = aside(t, func(s *clienttest.Server) { evidence = s.ProveItself(t, attestsim.Faults{}) })
	trusts(t, file, evidence)
	s.SetSecrets([]*apiv1.Secret{{Group: "web", Name: "s3-key", Source: "operator", NoValue: true}, {Group: "web", Name: "cookie"}})
	return s, file
}

func trusts(t *testing.T, file string, evidence *clienttest.Evidence) {
	t.Helper()
	known, err := client.LoadContext(file)
	if err == nil {
		known.Trust = evidence.Trust
		err = known.Save(file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A version gives a value, a value by another client shows, and the value stays when the resource goes.
func TestASecretGetsItsValue(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := sealing(t)
	f := newFolder(t, program).of(file)
	given := func(when, want string) {
		t.Helper()
		if got := s.Given(); got != want {
			t.Errorf("%s: the coordinators have %q, want %q", when, got, want)
		}
	}
	f.write("one.key", "from a file\n")
	f.env = append(f.env, "TF_VAR_s3_key=correct horse")
	f.write("main.tf", theSecret(byVariable)+"output \"epoch\" {\n  value = cadre_secret.s3_key.epoch\n}\n")
	wants(t, "a first plan", f.must("plan"), "cadre_secret.s3_key will be created")
	given("a plan", "")
	wants(t, "an apply", f.must("apply", "-auto-approve"), "epoch = 1")
	given("applied", "correct horse")
	f.env = append(f.env, "TF_VAR_s3_key=another horse")
	wants(t, "another value of this version", f.must("plan"), "No changes")
	f.write("main.tf", theSecret(byVariable+"  reason = \"rotated at night\"\n"))
	f.must("apply", "-auto-approve")
	given("another reason alone", "correct horse")
	wants(t, "after it", f.must("plan"), "No changes")

	byFile := "  from_file = \"one.key\"\n  value_wo_version = 2\n"
	f.write("main.tf", theSecret(byFile))
	wants(t, "another version", f.must("apply", "-auto-approve"), "1 -> 2", "ends with a line end")
	given("from a file", "from a file\n")

	trust, err := client.LoadContext(file)
	if err != nil {
		t.Fatal(err)
	}
	cl, err := client.Dial(trust, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	if _, err := cl.SetSecret(t.Context(), "web", "s3-key", secret.FromString("by hand"), "", false); err != nil {
		t.Fatal(err)
	}
	wants(t, "given by another client", f.must("plan"), "+ value_wo_version = 2", "3 -> (known after apply)")
	f.must("apply", "-auto-approve")
	given("put back", "from a file\n")
	wants(t, "after it", f.must("plan"), "No changes")

	f.must("state", "rm", "cadre_secret.s3_key")
	f.must("import", "cadre_secret.s3_key", "web/s3-key")
	wants(t, "imported", f.must("plan"), "+ value_wo_version = 2")
	for id, says := range map[string]string{"s3-key": "names no secret", "web/cookie": "Coordinators derive the value", "web/none": "has no value"} {
		f.must("state", "rm", "cadre_secret.s3_key")
		out, ok := f.run("import", "cadre_secret.s3_key", id)
		if wants(t, "an import of "+id, out, says); ok {
			t.Errorf("%s was imported", id)
		}
		f.must("import", "cadre_secret.s3_key", "web/s3-key")
	}
	wants(t, "a destroy", f.must("destroy", "-auto-approve"), "The value of secret web/s3-key stays in force", "Removing the declaration, or the group, deletes it")
	given("destroyed", "from a file\n")

	s.SetSecrets(nil)
	f.write("main.tf", theSecret(byFile+"  timeouts {\n    create = \"1s\"\n  }\n"))
	wants(t, "a plan without the declaration", f.must("plan"), "Group web does not declare the secret s3-key yet")
	out, ok := f.run("apply", "-auto-approve")
	if wants(t, "an apply without the declaration", out, "Group web declares no secret s3-key after 1s", `secret "s3-key" { source = "operator" }`); ok {
		t.Error("a secret that no group declares was given")
	}
}

// All problems of a secret are in one answer, and a value that can never be given is refused at the plan.
func TestAllProblemsOfASecretAreReported(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := sealing(t)
	f := newFolder(t, program).of(file)
	f.env = append(f.env, "TF_VAR_s3_key=correct horse")
	f.write("empty.key", "")
	f.write("large.key", strings.Repeat("x", 64<<10+1))
	of := func(name, body string) string {
		return strings.Replace(theSecret(body), `"s3-key"`, `"`+name+`"`, 1)
	}
	for what, c := range map[string]struct {
		config string
		says   []string
	}{
		"all at once":      {of("S3_Key", "  value_wo_version = 0\n"), []string{`"S3_Key" `, "versions begin at 1", "There is no value: set value_wo or from_file"}},
		"two values":       {theSecret(byVariable + "  from_file = \"one.key\"\n"), []string{"Both value_wo and from_file are set"}},
		"an empty value":   {theSecret("  value_wo = \"\"\n  value_wo_version = 1\n"), []string{"The value is empty"}},
		"no file":          {theSecret("  from_file = \"none.key\"\n  value_wo_version = 1\n"), []string{"none.key: no such file", "set value_wo to its content"}},
		"an empty file":    {theSecret("  from_file = \"empty.key\"\n  value_wo_version = 1\n"), []string{"The file empty.key is empty"}},
		"a large file":     {theSecret("  from_file = \"large.key\"\n  value_wo_version = 1\n"), []string{"has more than 64 KiB"}},
		"a derived secret": {of("cookie", byVariable), []string{"Coordinators derive the value of web/cookie"}},
		"a value in state": {theSecret("  value = \"x\"\n" + byVariable), []string{"value"}},
	} {
		f.write("main.tf", c.config)
		out, ok := f.run("plan")
		if wants(t, what, out, c.says...); ok {
			t.Errorf("%s was planned", what)
		}
	}
	if s.Given() != "" {
		t.Error("a plan gave a value")
	}

	trusts(t, file, &clienttest.Evidence{}) // the context trusts nothing
	f.write("main.tf", theSecret(byVariable))
	out, ok := f.run("plan")
	if wants(t, "an unproven key", out, "Secret web/s3-key cannot get its value", "nothing was sealed"); ok || s.Given() != "" {
		t.Error("a value was planned for an unproven key")
	}
}

// One run makes a group that waits for a value, and gives the value. Neither state nor plan files have it, nor the TRACE
// logs of the program and the provider.
func TestTOK08_TOK23_AnOperatorsValueIsNowhere(t *testing.T) {
	if !wholetest.Isolated(t) {
		return
	}
	program := tofu(t)
	c := startCluster(t, nil)
	f := newFolder(t, program)
	f.traced()
	const value, next, canary = "0dd-correct-horse-battery", "0dd-another-horse-battery", "canary-in-the-spec"
	declared := groupOf(canary, 1, quick+"  secret {\n    name   = \"s3-key\"\n    source = \"operator\"\n  }\n")
	f.env = append(f.env, "TF_VAR_s3_key="+value)
	f.write("main.tf", declared+theSecret(byVariable))
	f.must("plan", "-out=plan.bin")
	f.must("apply", "plan.bin")
	epoch := func(when string, want uint32) {
		t.Helper()
		list, err := c.client.Secrets(t.Context(), "web")
		if err != nil || len(list) != 1 || list[0].Epoch != want || list[0].NoValue {
			t.Errorf("%s: %+v, %v", when, list, err)
		}
	}
	epoch("applied", 1)
	outside := t.TempDir()
	key := filepath.Join(outside, "s3.key")
	if err := os.WriteFile(key, []byte(next), 0o600); err != nil {
		t.Fatal(err)
	}
	f.write("main.tf", declared+theSecret("  from_file = \""+key+"\"\n  value_wo_version = 2\n  reason = \"new key of May\"\n"))
	f.must("apply", "-auto-approve")
	wants(t, "after it", f.must("plan"), "No changes")
	f.must("destroy", "-auto-approve")
	f.has(canary, "plan.bin/tfplan", "terraform.tfstate.backup", printed)
	f.has("value_wo_version", "plan.bin/tfplan", "terraform.tfstate.backup", "trace.log")
	f.hasNo(value, next, c.OperatorToken)
}
