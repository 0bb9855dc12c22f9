package e2e_etcd

import (
	"context"
	"fmt"
	"testing"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/demo/internal/rig"
	"cadre.dev/demo/load"
)

// limit of the whole test; an idle machine needs a sixth of it.
const limit = 5 * time.Minute

// identities of the Slots: instance id by the API, the rest by etcd itself.
type identity struct {
	instance string
	rig.EtcdMember
}

func (s *story) identities(ctx context.Context) map[string]identity {
	s.Helper()
	c, err := s.Client()
	s.must("dial the cluster", err)
	instances, err := c.Instances(ctx, rig.Etcd)
	s.must("list the instances", err)
	all := map[string]identity{}
	for _, i := range instances {
		m, err := s.EtcdMemberOf(ctx, i.Slot)
		s.must("look at "+i.Slot, err)
		all[i.Slot] = identity{instance: i.InstanceID, EtcdMember: m}
		if (i.Role == "leader") != m.Leader {
			s.Logf("%s: the API says %s, etcd says leader=%t", i.Slot, i.Role, m.Leader)
		}
	}
	return all
}

func TestRolloutUnderLoadIsLinearizable(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	began := time.Now()
	s := begin(ctx, t)

	for slot := range s.identities(ctx) {
		s.must("mark the disk of "+slot, s.MarkEtcdDisk(ctx, slot, "kept "+slot))
	}
	before := s.identities(ctx)
	if len(before) != 3 {
		t.Fatalf("%d instances, want 3", len(before))
	}

	from := time.Now()
	s.n.Say("rolling to another release")
	s.must("apply the next release", s.ApplyEtcd(ctx, s.next()))
	_, err := s.Follow(ctx, rig.Etcd, s.n.Rollout)
	s.must("roll", err)
	s.must("wait for writes", s.AwaitRegisterWrites(ctx, time.Now(), 100))
	summary, err := s.RegisterSummary(ctx, from, time.Now())
	s.must("ask for the figures", err)
	rollout, slots, err := s.RolloutReport(ctx, rig.Etcd)
	s.must("read the rollout's record", err)
	after := s.identities(ctx)

	s.n.Say("stopping the clients, checking their history")
	checked, found, err := s.StopRegisters(ctx)
	s.must("stop the clients", err)

	s.keptIdentity(before, after)
	s.oneHandOver(before, rollout, slots, summary.Reigns)
	s.servedAllTheTime(summary)
	s.keptPromises(checked, found)
	for _, slot := range slots {
		s.n.Say("  %d %-7s led %-5t unavailable %.1f s, %s", slot.Order, slot.Slot, slot.Led, float64(slot.UnavailableMS)/1000, slot.RevisionTo)
	}
	s.n.Say("rollout %.0f s: %d writes acknowledged, %d unknown, %d reads, longest gap %d ms, slowest write %d ms, errors %v",
		rollout.EndedAt.Sub(rollout.StartedAt).Seconds(), summary.Acknowledged, summary.Unknown, summary.Reads,
		summary.Gap.Milliseconds(), summary.Slowest.Milliseconds(), summary.Errors)
	s.n.Say("reigns %v, planned transfers %d", reignText(summary.Reigns), rollout.Transfers)
	s.n.Say("history: %s, %d operations (%d unknown) on %d registers, checked in %d ms; %d acknowledged writes, %d missing; all in %.0f s",
		checked.Result, checked.Operations, checked.Unknown, checked.Keys, checked.TookMS, found.Acknowledged, found.Missing, time.Since(began).Seconds())
}

// keptIdentity: the same CVM, the same member, the same disk.
func (s *story) keptIdentity(before, after map[string]identity) {
	s.Helper()
	for slot, was := range before {
		is := after[slot]
		if is.instance != was.instance || is.instance == "" {
			s.Errorf("%s: instance %s, was %s", slot, is.instance, was.instance)
		}
		if is.ID != was.ID {
			s.Errorf("%s: member id %s, was %s", slot, is.ID, was.ID)
		}
		if want := "kept " + slot; is.Marker != want {
			s.Errorf("%s: the disk holds %q, want %q", slot, is.Marker, want)
		}
	}
}

// oneHandOver: followers first, the leader last, to a member that was updated.
func (s *story) oneHandOver(before map[string]identity, rollout operation.Rollout, slots []rig.SlotReport, reigns []load.Reign) {
	s.Helper()
	if rollout.State != operation.Complete {
		s.Errorf("the rollout is %s: %s", rollout.State, rollout.Reason)
	}
	if len(slots) != 3 || rollout.Steps != 3 {
		s.Fatalf("%d operations, %d steps, want 3 of each", len(slots), rollout.Steps)
	}
	for i, slot := range slots {
		if !slot.Admitted || slot.RevisionTo != rollout.To {
			s.Errorf("%s: admitted %t at revision %s, want %s", slot.Slot, slot.Admitted, slot.RevisionTo, rollout.To)
		}
		if slot.Order != i+1 {
			s.Errorf("%s has order %d, want %d", slot.Slot, slot.Order, i+1)
		}
	}
	last := slots[2].Slot
	moves := len(reigns) - 1
	if len(reigns) == 0 {
		s.Fatal("the clients saw no leader")
	}
	// Every leadership move must be the planned one, unless leadership moved automatically before
	// the last step; then the record must not claim more than one.
	switch led := reigns[0].Leader; {
	case led == "":
		s.Errorf("nobody told who led in term %d", reigns[0].Term)
	case moves == 1:
		if !before[led].Leader || led != last || rollout.Transfers != 1 || !slots[2].Led {
			s.Errorf("%s led (by etcd's own word: %t), %s was last, %d transfers; want the leader last and one transfer",
				led, before[led].Leader, last, rollout.Transfers)
		}
		if to := reigns[1].Leader; to != slots[0].Slot && to != slots[1].Slot {
			s.Errorf("leadership went to %q, want one that was updated before", to)
		}
	case rollout.Transfers > 1:
		s.Errorf("%d planned transfers, want at most one", rollout.Transfers)
	default:
		s.Logf("leadership moved %d times, %d of them planned: %s", moves, rollout.Transfers, reignText(reigns))
		if moves == 0 || moves > rollout.Transfers+1 {
			s.Errorf("%d moves with %d planned", moves, rollout.Transfers)
		}
	}
}

func (s *story) servedAllTheTime(summary load.RegisterSummary) {
	s.Helper()
	if summary.Acknowledged < 200 || summary.Reads < 100 {
		s.Errorf("%d writes and %d reads in the rollout: too few to prove anything", summary.Acknowledged, summary.Reads)
	}
}

func (s *story) keptPromises(checked load.Linearizability, found load.Verdict) {
	s.Helper()
	if checked.Result != "Ok" {
		s.Errorf("the history is %s: %+v", checked.Result, checked)
	}
	if found.Missing != 0 || found.Acknowledged == 0 {
		s.Errorf("%d of %d acknowledged writes are missing", found.Missing, found.Acknowledged)
	}
}

func reignText(reigns []load.Reign) string {
	text := ""
	for _, r := range reigns {
		text += fmt.Sprintf(" %s@%d", r.Leader, r.Term)
	}
	return text
}
