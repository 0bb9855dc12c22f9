package e2e_nats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/demo/internal/rig"
	"cadre.dev/demo/internal/rigtest"
)

// limit of the whole test; an idle machine needs a sixth of it.
const limit = 8 * time.Minute

// story is the local cloud with the NATS example.
type story struct {
	*testing.T
	*rig.Rig
	n *rig.Narrator
}

func (s *story) must(doing string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", doing, err)
	}
}

// begin deploys the example; its publishers have a steady load then.
func begin(ctx context.Context, t *testing.T) *story {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a cloud, three coordinators and three NATS servers")
	}
	root := rigtest.Needs(t, []string{"bwrap"}, []string{"cadre", "cadre-local", "cadre-agent", "cadre-coordinator", "cadre-load"})
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "cadre.log"))
	if err != nil {
		t.Fatal(err)
	}
	r := rig.New(root, filepath.Join(dir, "state"), time.Second, log)
	r.Net = rig.DefaultNet
	s := &story{T: t, Rig: r, n: rig.NewNarrator(t.Output(), false, time.Now())}
	t.Cleanup(func() {
		if t.Failed() {
			dump(t, log.Name())
			services, _ := filepath.Glob(filepath.Join(r.State, "cloud/cvms/*/logs/[aln]*.log")) // adapter, load, nats
			for _, path := range services {
				dump(t, path)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(r.Down(ctx), log.Close()); err != nil {
			t.Error(err)
		}
	})
	s.must("deploy NATS", r.DeployNATS(ctx, s.n))
	return s
}

// dump shows the end of a log.
func dump(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Log(err)
		return
	}
	t.Logf("%s:\n%s", path, data[max(0, len(data)-3000):])
}

// servers asks the server of each Slot.
func (s *story) servers(ctx context.Context) map[string]rig.NATSServer {
	s.Helper()
	all := map[string]rig.NATSServer{}
	for n := range 3 {
		slot := fmt.Sprintf("%s-%d", rig.NATS, n)
		one, err := s.NATSServerOf(ctx, slot)
		s.must("look at "+slot, err)
		all[slot] = one
	}
	return all
}

// until repeats ask; the last error names the missing part.
func (s *story) until(ctx context.Context, ask func() error) error {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-ticker.C:
		}
	}
}

// whole waits until the meta group and the stream consist of the servers of all Slots.
func (s *story) whole(ctx context.Context) map[string]rig.NATSServer {
	s.Helper()
	var all map[string]rig.NATSServer
	s.must("wait until all servers are in the meta group and in the stream", s.until(ctx, func() error {
		all = s.servers(ctx)
		var names []string
		replicas := map[string][]string{}
		for _, one := range all {
			names = append(names, one.Name)
			maps.Copy(replicas, one.Replicas)
		}
		slices.Sort(names)
		for slot, one := range all {
			if !slices.Equal(one.Peers, names) || one.Leader == "" {
				return fmt.Errorf("%s sees leader %q of %v, want %v", slot, one.Leader, one.Peers, names)
			}
		}
		if !slices.Equal(replicas["load"], names) {
			return fmt.Errorf("the stream's current replicas are %v, want %v", replicas["load"], names)
		}
		return nil
	}))
	return all
}

// TestRolloutAndLostDiskUnderLoad rolls three real servers while publishers write, and then lets one
// lose its disk.
func TestRolloutAndLostDiskUnderLoad(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	began := time.Now()
	s := begin(ctx, t)
	before := s.whole(ctx)

	from := time.Now()
	s.n.Say("rolling to another release")
	s.must("apply the next release", s.ApplyNATS(ctx, "2"))
	_, err := s.Follow(ctx, rig.NATS, s.n.Rollout)
	s.must("roll", err)
	s.must("wait for messages", s.AwaitMessages(ctx, rig.NATSApp, time.Now(), 100))
	rolled, err := s.MessageSummary(ctx, rig.NATSApp, from, time.Now())
	s.must("ask for the figures", err)
	rollout, slots, err := s.RolloutReport(ctx, rig.NATS)
	s.must("read the rollout's record", err)
	after := s.whole(ctx)
	s.oneHandOver(before, after, rollout, slots)

	lost := "nats-1"
	s.n.Say("destroying the CVM of %s with its disk", lost)
	from = time.Now()
	c, err := s.Client()
	s.must("dial the cluster", err)
	victim, err := c.Instance(ctx, lost)
	s.must("look at "+lost, err)
	s.must("destroy it", s.LoseCVM(ctx, victim.Status.VMUUID))
	_, err = s.Cadre(ctx, "instance", "replace", lost, "--yes", "--reason", "its disk is gone")
	s.must("have it replaced", err)
	s.must("wait until it serves", s.until(ctx, func() error {
		i, err := c.Instance(ctx, lost)
		if err == nil && (i.Status.State != "Available" || i.Status.VMUUID == victim.Status.VMUUID) {
			err = fmt.Errorf("%s is %s in %s: %s", lost, i.Status.State, i.Status.VMUUID, i.Status.Reason)
		}
		return err
	}))
	back := s.whole(ctx)
	took := time.Since(from)
	if was, is := after[lost].Name, back[lost].Name; is == was || !strings.HasPrefix(is, lost+"_") {
		s.Errorf("the server of %s was %s and is %s", lost, was, is)
	}
	s.must("wait for messages", s.AwaitMessages(ctx, rig.NATSApp, time.Now(), 100))
	replaced, err := s.MessageSummary(ctx, rig.NATSApp, from, time.Now())
	s.must("ask for the figures", err)

	s.n.Say("stopping the publishers, reading the stream")
	found, err := s.StopMessages(ctx, rig.NATSApp)
	s.must("stop the publishers", err)
	if found.Missing != 0 || found.Duplicates != 0 || found.Acknowledged < 1000 {
		s.Errorf("the stream has %+v", found)
	}
	for _, slot := range slots {
		s.n.Say("  %d %-7s led %-5t unavailable %.1f s", slot.Order, slot.Slot, slot.Led, float64(slot.UnavailableMS)/1000)
	}
	s.n.Say("rollout %.0f s: %d messages acknowledged, %d failed, longest gap %d ms, slowest %d ms, errors %v, %d hand-overs",
		rollout.EndedAt.Sub(rollout.StartedAt).Seconds(), rolled.Acknowledged, rolled.Failed, rolled.Gap.Milliseconds(), rolled.Slowest.Milliseconds(), rolled.Errors, rollout.Transfers)
	s.n.Say("replacement %.0f s: %d messages acknowledged, %d failed, longest gap %d ms, slowest %d ms, errors %v",
		took.Seconds(), replaced.Acknowledged, replaced.Failed, replaced.Gap.Milliseconds(), replaced.Slowest.Milliseconds(), replaced.Errors)
	s.n.Say("%d acknowledged, %d missing, %d duplicates; all in %.0f s", found.Acknowledged, found.Missing, found.Duplicates, time.Since(began).Seconds())
}

// oneHandOver: followers first, the meta leader last after one hand-over, on the same disks.
func (s *story) oneHandOver(before, after map[string]rig.NATSServer, rollout operation.Rollout, slots []rig.SlotReport) {
	s.Helper()
	if rollout.State != operation.Complete || len(slots) != 3 {
		s.Fatalf("the rollout is %s with %d steps: %s", rollout.State, len(slots), rollout.Reason)
	}
	for slot, was := range before {
		if is := after[slot]; is.Name != was.Name {
			s.Errorf("the server of %s was %s and is %s", slot, was.Name, is.Name)
		}
	}
	last := slots[2]
	led, leads := before[last.Slot].Leader, after[last.Slot].Leader
	// Each election has a term of its own.
	moves := after[last.Slot].Term - before[last.Slot].Term
	if led == before[last.Slot].Name {
		if rollout.Transfers != 1 || !last.Led || moves != 1 || leads == led {
			s.Errorf("%d hand-overs and %d elections; %s was last, led %t; %s led and %s leads", rollout.Transfers, moves, last.Slot, last.Led, led, leads)
		}
		return
	}
	// On a loaded machine a leader that looks unavailable goes first, or leadership moves without a step.
	s.Logf("%s led, and was not last: %d elections, %d hand-overs", led, moves, rollout.Transfers)
	if rollout.Transfers > 1 || moves > 2 {
		s.Errorf("%d elections, %d hand-overs", moves, rollout.Transfers)
	}
}
