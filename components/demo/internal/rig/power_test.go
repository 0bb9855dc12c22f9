package rig

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"cadre.dev/core/group"
	"cadre.dev/demo/load"
)

// good is the report of a cluster that lost nothing.
func good() PowerReport {
	return PowerReport{
		Before:  100,
		Verdict: load.Verdict{Acknowledged: 150, Present: 151, Starts: 2, Earlier: load.Part{Acknowledged: 101}},
		Errors:  map[string]int{"connection refused": 3},
	}
}

func TestThePowerDrillFails(t *testing.T) {
	if err := good().Check(); err != nil {
		t.Fatalf("a cluster that lost nothing: %v", err)
	}
	for name, c := range map[string]struct {
		change func(*PowerReport)
		want   string
	}{
		"when a write is missing": {func(p *PowerReport) {
			p.Verdict.Missing, p.Verdict.Earlier.Missing, p.Verdict.MissingIDs = 2, 1, []string{"7", "120"}
		}, "2 of 150 acknowledged writes are missing, 1 of them from before the power loss: ids 7, 120"},
		"when the journal forgot a write":    {func(p *PowerReport) { p.Before = 102 }, "its journal lost some"},
		"when the load began a new journal":  {func(p *PowerReport) { p.Verdict.Starts = 1 }, "did not start again"},
		"when no write came since":           {func(p *PowerReport) { p.Verdict.Earlier.Acknowledged = 150 }, "no write was acknowledged after"},
		"when the load met its own rows":     {func(p *PowerReport) { p.Errors[duplicateKey] = 4 }, "met 4 rows of its own"},
		"and says all that is wrong at once": {func(p *PowerReport) { p.Before, p.Verdict.Starts = 102, 1 }, "lost some\nthe load did not"},
	} {
		t.Run(name, func(t *testing.T) {
			p := good()
			c.change(&p)
			if err := p.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want %q", err, c.want)
			}
		})
	}
}

// The coordinators' memory of the time before the power loss does not count as availability.
func TestAGroupIsWholeOnNewBootsOnly(t *testing.T) {
	before := map[string]string{"a-0": "b1", "a-1": "b2"}
	slot := func(name, boot string) group.InstanceStatus { return group.InstanceStatus{Slot: name, BootID: boot} }
	for name, c := range map[string]struct {
		status group.Status
		want   bool
	}{
		"all new":              {group.Status{Replicas: 2, Available: 2, Instances: []group.InstanceStatus{slot("a-0", "c1"), slot("a-1", "c2")}}, true},
		"as remembered":        {group.Status{Replicas: 2, Available: 2, Instances: []group.InstanceStatus{slot("a-0", "b1"), slot("a-1", "b2")}}, false},
		"one as remembered":    {group.Status{Replicas: 2, Available: 2, Instances: []group.InstanceStatus{slot("a-0", "c1"), slot("a-1", "b2")}}, false},
		"one not booted":       {group.Status{Replicas: 2, Available: 2, Instances: []group.InstanceStatus{slot("a-0", "c1"), slot("a-1", "")}}, false},
		"one not available":    {group.Status{Replicas: 2, Available: 1, Instances: []group.InstanceStatus{slot("a-0", "c1"), slot("a-1", "c2")}}, false},
		"one not described":    {group.Status{Replicas: 2, Available: 2, Instances: []group.InstanceStatus{slot("a-0", "c1")}}, false},
		"nothing is known yet": {group.Status{}, false},
	} {
		if got := whole(c.status, before); got != c.want {
			t.Errorf("%s: whole = %v, want %v", name, got, c.want)
		}
	}
}

func TestTheTreeOfProcesses(t *testing.T) {
	child := exec.CommandContext(t.Context(), "sh", "-c", "sleep 1000 & wait")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	for {
		all, err := tree(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]process{}
		for _, p := range all {
			names[p.name] = p
		}
		sleeps, ok := names["sleep"]
		if !ok {
			continue // not forked yet
		}
		if all[0].pid != os.Getpid() || sleeps.parent != child.Process.Pid || names["sh"].parent != os.Getpid() {
			t.Errorf("tree = %+v", all)
		}
		if err := syscall.Kill(sleeps.pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		return
	}
}
