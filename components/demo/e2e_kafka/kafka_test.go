package e2e_kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"cadre.dev/core/adapter"
	"cadre.dev/core/operation"
	"cadre.dev/demo/internal/rig"
	"cadre.dev/demo/internal/rigtest"
)

// limit of the whole test; an idle machine needs a fifth of it.
const limit = 25 * time.Minute

// story is a local cloud with the Kafka example.
type story struct {
	*testing.T
	*rig.Rig
	n *rig.Narrator
}

// begin deploys the example, and takes the cloud down at the end.
func begin(ctx context.Context, t *testing.T) *story {
	t.Helper()
	if os.Getenv("CADRE_TEST_KAFKA") == "" {
		t.Skip("make test-kafka runs it: three JVMs, some minutes")
	}
	root := rigtest.Needs(t, []string{"bwrap"}, []string{"cadre", "cadre-local", "cadre-agent", "cadre-coordinator", "cadre-load"})
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "cadre.log"))
	if err != nil {
		t.Fatal(err)
	}
	s := &story{T: t, Rig: rig.New(root, filepath.Join(dir, "state"), time.Second, log), n: rig.NewNarrator(t.Output(), false, time.Now())}
	s.Net = rig.DefaultNet
	t.Cleanup(func() {
		if t.Failed() {
			s.dump(log.Name())
			services, _ := filepath.Glob(filepath.Join(s.State, "cloud/cvms/*/logs/[akl]*.log")) // adapter, kafka, load
			for _, path := range services {
				s.dump(path)
			}
		}
		down, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if err := errors.Join(s.Down(down), log.Close()); err != nil {
			t.Errorf("take the cloud down: %v", err)
		}
	})
	s.must("deploy Kafka", s.DeployKafka(ctx, s.n))
	return s
}

// dump shows the end of a log.
func (s *story) dump(path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		s.T.Log(err)
		return
	}
	s.Logf("%s:\n%s", path, data[max(0, len(data)-3000):])
}

func (s *story) must(doing string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", doing, err)
	}
}

// members are the adapters' answers once all three are well and agree.
func (s *story) members(ctx context.Context) map[string]adapter.Member {
	s.Helper()
	var all map[string]adapter.Member
	s.must("wait for three healthy nodes", s.until(ctx, func() error {
		all = map[string]adapter.Member{}
		leader := ""
		for _, slot := range []string{"kafka-0", "kafka-1", "kafka-2"} {
			m, err := s.KafkaMember(ctx, slot)
			switch {
			case err != nil:
				return err
			case !m.Ready || m.CaughtUp == nil || !*m.CaughtUp || !m.MayDisrupt || len(m.Voters) != 3 || len(m.Learners) > 0:
				return fmt.Errorf("%s is %+v", slot, m)
			case leader != "" && m.Leader != leader:
				return fmt.Errorf("%s sees leader %s, others %s", slot, m.Leader, leader)
			}
			leader, all[slot] = m.Leader, m
		}
		return nil
	}))
	return all
}

// leader of members that agree.
func leader(all map[string]adapter.Member) string { return all["kafka-0"].Leader }

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

// TestRecordsOutliveARolloutAKilledLeaderAndALostDisk is one story under one load.
func TestRecordsOutliveARolloutAKilledLeaderAndALostDisk(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	s := begin(ctx, t)
	s.rolls(ctx)
	s.survivesItsLeader(ctx)
	s.getsAnotherDisk(ctx)

	s.must("wait for records", s.AwaitRecords(ctx, time.Now(), 100))
	verdict, err := s.StopRecords(ctx)
	s.must("stop the producers and read the topic", err)
	s.n.Say("%d records acknowledged, %d read, %d missing, none twice or out of order", verdict.Acknowledged, verdict.Present, verdict.Missing)
	if verdict.Missing != 0 || verdict.Acknowledged == 0 {
		s.Errorf("%+v", verdict)
	}
}

// says prints the figures of the load since then.
func (s *story) says(ctx context.Context, since time.Time) {
	s.Helper()
	s.must("wait for records", s.AwaitRecords(ctx, time.Now(), 100))
	f, err := s.RecordSummary(ctx, since, time.Now())
	s.must("ask for the figures", err)
	s.n.Say("  %d records acknowledged, %d failed %v, longest gap %d ms, slowest %d ms, half within %d ms, 99 of 100 within %d ms",
		f.Acknowledged, f.Failed, f.Errors, f.Gap.Milliseconds(), f.Slowest.Milliseconds(), f.P50.Milliseconds(), f.P99.Milliseconds())
	if f.Acknowledged < 100 || f.Failed > 0 {
		s.Errorf("%d records acknowledged, %d failed: %v", f.Acknowledged, f.Failed, f.Errors)
	}
}

// rolls updates all nodes, the active controller last and without a transfer.
func (s *story) rolls(ctx context.Context) {
	s.Helper()
	before := s.members(ctx)
	from := time.Now()
	s.n.Say("rolling to another release; %s leads", leader(before))
	s.must("apply the next release", s.ApplyKafka(ctx, "2"))
	_, err := s.Follow(ctx, rig.Kafka, s.n.Rollout)
	s.must("roll", err)
	after := s.members(ctx)
	rollout, slots, err := s.RolloutReport(ctx, rig.Kafka)
	s.must("read the rollout's record", err)
	s.n.Say("rolled in %.0f s: %s leads", rollout.EndedAt.Sub(rollout.StartedAt).Seconds(), leader(after))
	for _, slot := range slots {
		s.n.Say("  %d %-7s unavailable %.1f s", slot.Order, slot.Slot, float64(slot.UnavailableMS)/1000)
	}
	s.says(ctx, from)
	if rollout.State != operation.Complete || len(slots) != 3 || rollout.Transfers != 0 {
		s.Fatalf("the rollout is %s after %d steps and %d transfers: %s", rollout.State, len(slots), rollout.Transfers, rollout.Reason)
	}
	moves := after["kafka-0"].Epoch - before["kafka-0"].Epoch
	if last := slots[2].Slot; moves == 1 && last != leader(before) {
		s.Errorf("%s was last, and %s led", last, leader(before))
	}
	s.n.Say("  the controllers' epoch grew by %d", moves)
	if was, is := before["kafka-0"].MemberIDs, after["kafka-0"].MemberIDs; !maps.Equal(was, is) {
		s.Errorf("the voters were %v and are %v", was, is)
	}
}

// survivesItsLeader kills the CVM of the active controller, which healing starts again.
func (s *story) survivesItsLeader(ctx context.Context) {
	s.Helper()
	before := s.members(ctx)
	killed, from := leader(before), time.Now()
	s.n.Say("killing the CVM of %s, which leads", killed)
	s.must("kill it", s.Kill(ctx, s.PlatformName(killed)))
	after := s.members(ctx)
	s.n.Say("three healthy nodes after %.0f s: %s leads", time.Since(from).Seconds(), leader(after))
	s.says(ctx, from)
	if after["kafka-0"].Epoch <= before["kafka-0"].Epoch {
		s.Errorf("the epoch was %d and is %d", before["kafka-0"].Epoch, after["kafka-0"].Epoch)
	}
}

// getsAnotherDisk destroys a node's CVM with its disk, and has it replaced.
func (s *story) getsAnotherDisk(ctx context.Context) {
	s.Helper()
	before := s.members(ctx)
	lost := slices.DeleteFunc([]string{"kafka-2", "kafka-1", "kafka-0"}, func(slot string) bool { return slot == leader(before) })[0]
	c, err := s.Client()
	s.must("dial the cluster", err)
	victim, err := c.Instance(ctx, lost)
	s.must("look at "+lost, err)
	s.n.Say("destroying the CVM of %s with its disk", lost)
	from := time.Now()
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
	after := s.members(ctx)
	s.n.Say("three healthy nodes after %.0f s", time.Since(from).Seconds())
	s.says(ctx, from)
	was, is := before["kafka-0"].MemberIDs, after["kafka-0"].MemberIDs
	for slot := range was {
		if (was[slot] == is[slot]) != (slot != lost) {
			s.Errorf("%s lost its disk: the voters were %v and are %v", lost, was, is)
		}
	}
}
