package provider_test

import (
	"archive/zip"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cadre.dev/coordinator/wholetest"
)

// traced makes the program write everything that it can log into a file of the folder.
func (f *folder) traced() {
	f.env = append(f.env, "TF_LOG=TRACE", "TF_LOG_PATH="+filepath.Join(f.path, "trace.log"))
}

// printed is the program's output, among the files.
const printed = "(what was printed)"

// files are everything that was left in the folder, by name; plan files are taken apart.
func (f *folder) files() map[string][]byte {
	f.t.Helper()
	out := map[string][]byte{printed: f.printed}
	err := filepath.WalkDir(f.path, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, f.path+"/")
		out[name] = text
		if !bytes.HasPrefix(text, []byte("PK")) {
			return nil
		}
		archive, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
		if err != nil {
			return err
		}
		for _, part := range archive.File {
			r, err := part.Open()
			if err != nil {
				return err
			}
			if out[name+"/"+part.Name], err = io.ReadAll(r); err != nil {
				return err
			}
			_ = r.Close()
		}
		return nil
	})
	if err != nil {
		f.t.Error(err)
	}
	return out
}

// hasNo looks for secrets in everything that was left in the folder, or printed.
func (f *folder) hasNo(secrets ...string) {
	f.t.Helper()
	for name, text := range f.files() {
		for _, secret := range secrets {
			if at := bytes.Index(text, []byte(secret)); at >= 0 {
				before, after := text[max(0, at-120):at], text[at+len(secret):]
				f.t.Errorf("%s holds a secret: %q [it] %q", name, before, after[:min(len(after), 60)])
			}
		}
	}
}

// has looks for a word that is no secret, so that hasNo looks where words are.
func (f *folder) has(word string, names ...string) {
	f.t.Helper()
	files := f.files()
	for _, name := range names {
		if !bytes.Contains(files[name], []byte(word)) {
			f.t.Errorf("%s, of %d bytes, does not hold %q", name, len(files[name]), word)
		}
	}
}

// The operator's token is neither in state nor in a plan file, nor in the TRACE logs of the program
// and the provider. The token comes from the context file, the environment, or an ephemeral value,
// with successful calls and with refused ones.
func TestTOK08_TheTokenIsNowhere(t *testing.T) {
	if !wholetest.Isolated(t) {
		return
	}
	program := tofu(t)
	c := startCluster(t, nil)
	const canary = "canary-in-the-spec"
	for way, config := range map[string]string{
		"context file": "",
		"ephemeral": `
provider "cadre" {
  alias = "files"
}

ephemeral "cadre_operator_token" "operator" {
  provider = cadre.files
}

provider "cadre" {
  token = ephemeral.cadre_operator_token.operator.token
}
`,
		"variable": `
variable "token" {
  type      = string
  sensitive = true
  ephemeral = true
}

provider "cadre" {
  token = var.token
}
`,
	} {
		f := newFolder(t, program)
		f.traced()
		f.env = append(f.env, "TF_VAR_token="+c.OperatorToken)
		f.write("main.tf", groupOf(canary, 1, quick)+config)
		f.must("plan", "-out=plan.bin")
		f.must("apply", "plan.bin")
		if way == "ephemeral" {
			f.write("main.tf", groupOf(canary, 0, quick)+config)
			if _, ok := f.run("plan"); ok {
				t.Errorf("%s: a group without slots was planned", way)
			}
			f.write("main.tf", groupOf(canary, 1, quick)+config)
		}
		f.must("destroy", "-auto-approve")
		f.has(canary, "plan.bin/tfplan", "terraform.tfstate.backup", printed)
		f.has("cadre_group", "trace.log")
		f.hasNo(c.OperatorToken)
	}
}
