package provider_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"cadre.dev/client"
	"cadre.dev/coordinator/wholetest"
	"cadre.dev/core/operation"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// sick makes the agent of one slot report that its workload is not ready while it is set.
func sick(one string, flag *atomic.Bool) func(*wholetest.Whole) {
	return func(w *wholetest.Whole) {
		w.Member = func(slot string) *controlv1.MemberView {
			m := &controlv1.MemberView{Role: controlv1.Role_ROLE_NONE, Liveness: controlv1.Liveness_LIVENESS_ALIVE, Ready: true, MayDisrupt: true}
			if slot == one && flag.Load() {
				m.Ready, m.Message = false, "no space left"
			}
			return m
		}
	}
}

const impatient = `
  update_policy {
    min_ready_seconds = 0
    healthy_deadline  = "3s"
    progress_deadline = "12s"
  }
`

// A failed rollout fails the apply, with each slot's hold at the argument that causes it. The state
// keeps the applied values, and an apply after the repair continues.
func TestAFailedRolloutSaysWhatHolds(t *testing.T) {
	if !wholetest.Isolated(t) {
		return
	}
	program := tofu(t)
	var flag atomic.Bool
	c := startCluster(t, sick("web-1", &flag))
	f := newFolder(t, program)
	f.write("main.tf", groupOf("one", 2, impatient))
	f.must("apply", "-auto-approve")
	flag.Store(true)
	f.write("main.tf", groupOf("two", 2, impatient))
	out, ok := f.run("apply", "-auto-approve")
	wants(t, "a failed rollout", out, "rollout of web is FAILED", "cadre rollout retry web --reason WHY", "Slot web-0 waits: rollout_failed", "web-0: update")
	if ok {
		t.Error("the apply succeeded")
	}
	wants(t, "a plan meanwhile", f.must("plan"), "false -> true")
	flag.Store(false)
	if _, err := c.client.Retry(t.Context(), "web", "space was made"); err != nil {
		t.Fatal(err)
	}
	f.must("apply", "-auto-approve")
	wants(t, "nothing to do", f.must("plan"), "No changes")
}

// A rolled back rollout fails the apply with the evidence, and the next plan shows no drift: the spec stays as written.
func TestARolledBackRolloutSaysWhy(t *testing.T) {
	if !wholetest.Isolated(t) {
		return
	}
	program := tofu(t)
	var flag atomic.Bool
	c := startCluster(t, sick("web-1", &flag))
	f := newFolder(t, program)
	careful := strings.Replace(impatient, "update_policy {", "update_policy {\n    on_failure = \"ROLLBACK\"", 1)
	f.write("main.tf", groupOf("one", 2, careful))
	f.must("apply", "-auto-approve")
	flag.Store(true)
	f.write("main.tf", groupOf("two", 2, careful))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // the member is healthy again once the rollout rolls back
		_ = c.client.Watch(ctx, "web", 0, func(v client.View) (bool, error) {
			if v.Status.RolloutState == string(operation.RollingBack) {
				flag.Store(false)
			}
			return v.Status.RolloutState != string(operation.RolledBack), nil
		}, func(error) {})
	}()
	out, ok := f.run("apply", "-auto-approve")
	wants(t, "a rolled back rollout", out, "rollout of web is ROLLED_BACK", "because web-1: not available", "the spec still asks for", "cadre rollout retry web")
	if ok {
		t.Error("the apply succeeded")
	}
}

// The provider is killed while it waits: the rollout continues, and the next apply finds it, for a
// new group and for a changed one.
func TestAnApplyThatWasKilledGoesOn(t *testing.T) {
	if !wholetest.Isolated(t) {
		return
	}
	program := tofu(t)
	var flag atomic.Bool
	c := startCluster(t, sick("web-0", &flag))
	f := newFolder(t, program)
	for _, release := range []string{"one", "two"} {
		flag.Store(true)
		f.write("main.tf", groupOf(release, 1, quick))
		c.killed(t, f, release)
		flag.Store(false)
		f.must("apply", "-auto-approve")
		wants(t, "after "+release, f.must("plan"), "No changes")
	}
	f.must("destroy", "-auto-approve")
	f.hasNo(c.OperatorToken)
}

// killed applies and kills the provider once the spec of a release is stored.
func (c *cluster) killed(t *testing.T, f *folder, release string) {
	t.Helper()
	r := f.begin("apply", "-auto-approve")
	c.Eventually("a stored spec", func() error {
		g, err := c.client.Group(t.Context(), "web")
		if err == nil && !strings.Contains(g.Spec.Template.Compose, "RELEASE: "+release) {
			return errors.New("it is of the release before")
		}
		return err
	})
	r.killProvider()
	if out, ok := r.wait(); ok {
		t.Errorf("an apply whose provider was killed succeeded:\n%s", out)
	}
}

// running is a run of the program that has not ended.
type running struct {
	f   *folder
	cmd *exec.Cmd
	out *bytes.Buffer
}

// begin starts the program; wait must follow.
func (f *folder) begin(args ...string) *running {
	f.t.Helper()
	r := &running{f: f, cmd: f.command(append(args, "-no-color")...), out: &bytes.Buffer{}}
	r.cmd.Stdout, r.cmd.Stderr = r.out, r.out
	if err := r.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	return r
}

// killProvider kills the provider's process, and nothing else.
func (r *running) killProvider() {
	r.f.t.Helper()
	pid, err := childNamed(r.cmd.Process.Pid, "terraform-provider-cadre")
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		r.f.t.Error(err)
	}
}

// kill kills the program, so that it can note nothing, and its provider.
func (r *running) kill() {
	r.f.t.Helper()
	pid, err := childNamed(r.cmd.Process.Pid, "terraform-provider-cadre")
	err = errors.Join(err, r.cmd.Process.Kill())
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		r.f.t.Error(err)
	}
}

// wait returns the output of a run, in the form of run, and whether it succeeded.
func (r *running) wait() (string, bool) {
	err := r.cmd.Wait()
	return unwrap(r.out.Bytes()), err == nil
}

// childNamed finds a child process by its program.
func childNamed(parent int, name string) (int, error) {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it ended
		}
		var pid, ppid int
		rest := string(text[strings.LastIndexByte(string(text), ')')+1:])
		var state string
		if _, err := fmt.Sscan(rest, &state, &ppid); err != nil || ppid != parent {
			continue
		}
		if _, err := fmt.Sscan(string(text), &pid); err != nil {
			continue
		}
		if line, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline")); err == nil && strings.Contains(string(line), name) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("process %d has no child %s", parent, name)
}

// A group of the same name with another spec is not taken over.
func TestAGroupOfAnotherOwnerIsNotTakenOver(t *testing.T) {
	if !wholetest.Isolated(t) {
		return
	}
	program := tofu(t)
	c := startCluster(t, nil)
	f := newFolder(t, program)
	f.write("main.tf", groupOf("one", 1, quick))
	f.must("apply", "-auto-approve")
	other := newFolder(t, program)
	other.write("main.tf", groupOf("two", 1, quick))
	out, ok := other.run("apply", "-auto-approve")
	if wants(t, "another spec", out, "Group web exists already", "terraform import"); ok {
		t.Error("it was taken over")
	}
	there, err := c.client.Group(t.Context(), "web")
	if err != nil || !strings.Contains(there.Spec.Template.Compose, "RELEASE: one") {
		t.Errorf("the group was changed: %v", err)
	}
	other.must("import", "cadre_group.web", "web")
	other.must("apply", "-auto-approve")
}
