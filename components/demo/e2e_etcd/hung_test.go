package e2e_etcd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/demo/internal/rig"
)

// hungLimit bounds the whole test, of which it waits for 90 s: a process counts as down after a
// minute, and a process that hangs is killed 30 s after the request to end.
const hungLimit = 240 * time.Second

// TestAHungMemberIsRestartedInItsContainer stops the process of a real member while clients
// write: its agent restarts the service, on the same Boot and without a call to the platform,
// and so it does once more when an operator asks.
func TestAHungMemberIsRestartedInItsContainer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), hungLimit)
	defer cancel()
	s := begin(ctx, t)
	s.must("have boots count at once", s.ApplyEtcd(ctx, s.release(), "heal_delay=1"))
	before := s.identities(ctx)
	well := s.figuresUntil(ctx, func(f figures) bool { return f.of("slots_available") == 3 })
	if began := well.of("heal_attempts_total", `action="RESTART"`); began != 0 || well.of("operations_total", `action="CREATE"`, `actor="scaling"`, `outcome="DONE"`) != 3 {
		s.Errorf("a group that was just made has the figures %v", well)
	}
	slot := ""
	for name, is := range before {
		if !is.Leader {
			slot = name
		}
	}
	boot := s.bootOf(ctx, slot)

	s.n.Say("hanging etcd of %s", slot)
	from := time.Now()
	s.must("hang it", s.Hang(ctx, slot, "etcd", "etcd"))
	s.figuresUntil(ctx, func(f figures) bool {
		return f.of("slots_available") == 2 && f.of("condition", `condition="Available"`) == 0 && f.of("slots_wanted") == 3
	})
	back, err := s.AwaitHealed(ctx, slot, "its process was stopped", from)
	s.must("wait until it is back", err)
	s.n.Healing(back)
	s.restarted(ctx, slot, operation.ActorHealing)
	healed := s.figuresUntil(ctx, func(f figures) bool {
		return f.of("slots_available") == 3 && f.of("operations_total", `action="RESTART"`, `actor="healing"`, `outcome="DONE"`) == 1
	})
	outage := healed.of("healed_outage_seconds_sum")
	if healed.of("heal_attempts_total", `action="RESTART"`) != 1 || healed.of("healed_outage_seconds_count") != 1 || outage <= 0 || outage > time.Since(from).Seconds() {
		s.Errorf("after the heal the figures are %v", healed)
	}
	s.n.Say("  by the leader's figures the outage lasted %.0f s", outage)

	s.n.Say("an operator has it restarted")
	_, err = s.Cadre(ctx, "instance", "restart", slot, "--service", "etcd", "--reason", "it leaks", "--wait", "--timeout", "1m")
	s.must("restart the service", err)
	s.restarted(ctx, slot, operation.ActorOperator)

	if now := s.bootOf(ctx, slot); now != boot {
		s.Errorf("%s runs boot %s, and ran %s", slot, now, boot)
	}
	if is := s.identities(ctx)[slot]; is.ID != before[slot].ID || is.instance != before[slot].instance {
		s.Errorf("%s is %+v, and was %+v", slot, is, before[slot])
	}
	s.must("wait for writes", s.AwaitRegisterWrites(ctx, time.Now(), 100))
	checked, found, err := s.StopRegisters(ctx)
	s.must("stop the clients", err)
	s.keptPromises(checked, found)
}

// figures are the leader's metrics of the group.
type figures map[string]float64

// of is the value of the figure with these labels after the group's, in their order; -1 where there
// is none.
func (f figures) of(name string, labels ...string) float64 {
	all := append(labels, `group="`+rig.Etcd+`"`)
	slices.Sort(all)
	if value, served := f["cadre_group_"+name+"{"+strings.Join(all, ",")+"}"]; served {
		return value
	}
	return -1
}

// figuresUntil waits until the leader's metrics fulfil is.
func (s *story) figuresUntil(ctx context.Context, is func(figures) bool) figures {
	s.Helper()
	var last figures
	s.must("wait for the leader's figures", s.until(ctx, func() error {
		all, err := s.GroupFigures(ctx, rig.Etcd)
		if last = all; err == nil && !is(last) {
			err = fmt.Errorf("they are %v", last)
		}
		return err
	}))
	return last
}

// bootOf is the Boot that holds the Slot.
func (s *story) bootOf(ctx context.Context, slot string) string {
	s.Helper()
	c, err := s.Client()
	s.must("dial the cluster", err)
	i, err := c.Instance(ctx, slot)
	s.must("look at "+slot, err)
	return i.Status.BootID
}

// restarted: the newest Operation of the Slot restarted its service for that actor, and made no call.
func (s *story) restarted(ctx context.Context, slot string, actor operation.Actor) {
	s.Helper()
	c, err := s.Client()
	s.must("dial the cluster", err)
	i, err := c.Instance(ctx, slot)
	s.must("look at "+slot, err)
	var last operation.Operation
	for _, op := range i.Operations {
		if op.Times.Created.After(last.Times.Created) {
			last = op
		}
	}
	if last.Kind != operation.Restart || last.Way.Service != rig.Etcd || last.Actor != actor || last.Phase != operation.Done || last.Call.Number != 0 {
		s.Errorf("the newest operation of %s is %+v", slot, last)
	}
}
