package e2e_etcd

import (
	"context"
	"testing"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/demo/internal/rig"
)

// hungLimit bounds the whole test, of which it waits for 90 s: that a process is down counts
// after a minute, and one that hangs is killed 30 s after it was asked to end.
const hungLimit = 240 * time.Second

// TestAHungMemberIsRestartedInItsContainer stops the process of a real member while clients
// write: its agent restarts the service, on the same Boot and without a call to the platform,
// and so it does once more when an operator asks.
func TestAHungMemberIsRestartedInItsContainer(t *testing.T) {
	s := begin(t)
	ctx, cancel := context.WithTimeout(t.Context(), hungLimit)
	defer cancel()
	s.deploy(ctx)
	s.must("have boots count at once", s.ApplyEtcd(ctx, "1", "heal_delay=1"))
	before := s.identities(ctx)
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
	back, err := s.AwaitHealed(ctx, slot, "its process was stopped", from)
	s.must("wait until it is back", err)
	s.n.Healing(back)
	s.restarted(ctx, slot, operation.ActorHealing)

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
		if op.CreatedAt.After(last.CreatedAt) {
			last = op
		}
	}
	if last.Kind != operation.Restart || last.Service != rig.Etcd || last.Actor != actor || last.Phase != operation.Done || last.Calls != 0 {
		s.Errorf("the newest operation of %s is %+v", slot, last)
	}
}
