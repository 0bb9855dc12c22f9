// Package tofu brings one folder of clusters/ up with OpenTofu on a local cloud of its
// own, booted from images. All that it makes is in one state folder; the checkout stays
// clean.
package tofu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"cadre.dev/client/format"
	"cadre.dev/demo/internal/rig"
)

// Prefix is the registry of the references. A local cloud serves an image by its name and digest,
// for references to any registry.
const Prefix = "registry.example/cadre"

// Stand is a cluster and its local cloud.
type Stand struct {
	*rig.Rig
	// Name is the folder below clusters/.
	Name string
	// Program is the tofu or terraform that applies.
	Program string
	// Vars override the variables that Up fills in: images, cloud, context, deletion_protection,
	// delete_disks where the cluster preserves disks.
	Vars map[string]any
	// Env is added to the environment of Program.
	Env []string
}

var folderName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// New describes the stand of clusters/<name> of the checkout at root; state is its folder. The
// error names the missing parts.
func New(root, name, state string, log io.Writer) (*Stand, error) {
	if !folderName.MatchString(name) {
		return nil, fmt.Errorf("cluster %q: want the name of a folder in clusters/", name)
	}
	if _, err := os.Stat(filepath.Join(root, "clusters", name, "main.tf")); err != nil {
		return nil, fmt.Errorf("cluster %s has no Terraform: there is no clusters/%s/main.tf", name, name)
	}
	program, err := exec.LookPath("tofu")
	if err != nil {
		program, err = exec.LookPath(filepath.Join(root, ".tools", "bin", "tofu"))
	}
	if err != nil {
		return nil, errors.New("tofu is not here: run make tools")
	}
	return &Stand{Rig: rig.At(root, state, log), Name: name, Program: program}, nil
}

func (s *Stand) file(name string) string { return filepath.Join(s.State, name) }

// VarFile holds the variables of the cluster that the local cloud fills in.
func (s *Stand) VarFile() string { return s.file("local.tfvars.json") }

// StateFile is Terraform's state.
func (s *Stand) StateFile() string { return s.file("terraform.tfstate") }

// Dir is the folder of the configuration.
func (s *Stand) Dir() string { return filepath.Join(s.Root, "clusters", s.Name) }

// image is an image of the local cloud.
type image struct{ Name, Digest string }

// Up starts the local cloud on the images of layout, or brings it back, and writes all that
// Tofu needs. It applies nothing. flags are more ones of `cadre local up`.
func (s *Stand) Up(ctx context.Context, layout string, flags ...string) error {
	if err := os.MkdirAll(s.State, 0o700); err != nil {
		return fmt.Errorf("make the state folder: %w", err)
	}
	args := append([]string{"local", "up", "--state", s.file("cloud"), "--layout", layout}, flags...)
	out, err := s.CadreJSON(ctx, args...)
	if err != nil {
		return err
	}
	var up struct{ Images []image }
	if err := json.Unmarshal(out, &up); err != nil {
		return fmt.Errorf("read what `cadre local up` says: %w", err)
	}
	if len(up.Images) == 0 {
		return fmt.Errorf("the layout %s has no images: run make images", layout)
	}
	if err := s.writeVars(up.Images); err != nil {
		return err
	}
	if err := s.writeSettings(); err != nil {
		return err
	}
	// With an overridden provider there is nothing that init could fetch but modules.
	return s.Tofu(ctx, "get", "-no-color")
}

func (s *Stand) writeVars(images []image) error {
	refs := map[string]string{}
	for _, i := range images {
		refs[i.Name] = Prefix + "/" + i.Name + "@" + i.Digest
	}
	vars := map[string]any{"images": refs, "cloud": s.CloudFile(), "context": s.ContextFile(), "deletion_protection": false}
	if declared, err := os.ReadFile(filepath.Join(s.Dir(), "variables.tf")); err == nil && strings.Contains(string(declared), "variable \"delete_disks\"") {
		vars["delete_disks"] = true
	}
	for name, value := range s.Vars {
		vars[name] = value
	}
	text, err := json.MarshalIndent(vars, "", "  ")
	if err != nil {
		return fmt.Errorf("write the variables: %w", err)
	}
	return os.WriteFile(s.VarFile(), append(text, '\n'), 0o600)
}

// writeSettings leaves the settings of Terraform's command line, and a file for shells.
func (s *Stand) writeSettings() error {
	settings := fmt.Sprintf("provider_installation {\n  dev_overrides {\n    \"cadre.dev/cadre/cadre\" = %q\n  }\n  direct {}\n}\n", filepath.Join(s.Root, "bin"))
	if err := os.WriteFile(s.file("settings.tfrc"), []byte(settings), 0o600); err != nil {
		return err
	}
	text := "# . this file: cadre and tofu then know the cluster " + s.Name + ".\n"
	text += "export PATH=" + format.Word(filepath.Join(s.Root, "bin")+":"+filepath.Dir(s.Program)) + ":\"$PATH\"\n"
	env := s.environment()
	// Terraform takes these apart as a shell does.
	given := "-state=" + format.Word(s.StateFile()) + " -var-file=" + format.Word(s.VarFile())
	for _, verb := range []string{"plan", "apply", "destroy"} {
		env = append(env, "TF_CLI_ARGS_"+verb+"="+given)
	}
	for _, verb := range []string{"output", "show"} {
		env = append(env, "TF_CLI_ARGS_"+verb+"=-state="+format.Word(s.StateFile()))
	}
	env = append(env, "CADRE_LOCAL_STATE="+filepath.Dir(s.CloudFile()))
	for _, line := range env {
		name, value, _ := strings.Cut(line, "=")
		text += "export " + name + "=" + format.Word(value) + "\n"
	}
	return os.WriteFile(s.file("env"), []byte(text), 0o600)
}

func (s *Stand) environment() []string {
	return []string{"TF_CLI_CONFIG_FILE=" + s.file("settings.tfrc"), "TF_DATA_DIR=" + s.file("data"), "CHECKPOINT_DISABLE=1", "CADRE_CONTEXT=" + s.ContextFile()}
}

// Command prepares a run of Program in the cluster's folder. plan, apply and destroy take the
// stand's state and variables.
func (s *Stand) Command(ctx context.Context, args ...string) *exec.Cmd {
	switch args[0] {
	case "plan", "apply", "destroy":
		args = append([]string{args[0], "-state=" + s.StateFile(), "-var-file=" + s.VarFile()}, args[1:]...)
	case "output":
		args = append([]string{args[0], "-state=" + s.StateFile()}, args[1:]...)
	}
	cmd := exec.CommandContext(ctx, s.Program, args...)
	cmd.Dir = s.Dir()
	cmd.Env = append(append(os.Environ(), s.environment()...), s.Env...)
	for _, verb := range []string{"", "_plan", "_apply", "_destroy", "_output", "_show"} {
		// Variables of another cluster, whose env file this shell read, must not apply here.
		cmd.Env = append(cmd.Env, "TF_CLI_ARGS"+verb+"=")
	}
	// Terraform writes its state before it ends on its own, but not after two interrupts: a
	// terminal interrupts its whole process group, and Cancel would be the second interrupt.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 30 * time.Second
	return cmd
}

// Tofu runs Program; its output goes to the log.
func (s *Stand) Tofu(ctx context.Context, args ...string) error {
	cmd := s.Command(ctx, args...)
	var said strings.Builder
	cmd.Stdout = io.MultiWriter(&said, s.Log)
	cmd.Stderr = cmd.Stdout
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", filepath.Base(s.Program), args[0], err, last(said.String(), 3000))
	}
	return nil
}

func last(text string, most int) string {
	return strings.TrimSpace(text[max(0, len(text)-most):])
}

// Outputs of the applied configuration.
func (s *Stand) Outputs(ctx context.Context) (map[string]json.RawMessage, error) {
	text, err := s.Command(ctx, "output", "-json").Output()
	if err != nil {
		return nil, fmt.Errorf("read the outputs: %w", err)
	}
	var all map[string]struct{ Value json.RawMessage }
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("read the outputs: %w", err)
	}
	out := map[string]json.RawMessage{}
	for name, o := range all {
		out[name] = o.Value
	}
	return out, nil
}
