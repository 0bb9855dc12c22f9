package e2e_redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/demo/internal/rig"
	"cadre.dev/demo/internal/rigtest"
)

// limit of the whole test; an idle machine needs a sixth of it.
const limit = 8 * time.Minute

// story is the local cloud with the Redis example.
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

// begin deploys the example; its writers have a steady load then.
func begin(ctx context.Context, t *testing.T) *story {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a cloud, three coordinators and three Redis servers with their Sentinels")
	}
	if os.Getenv("CADRE_TEST_CLUSTERS") == "" {
		t.Skip("a minute and more: part of make test-long, or set CADRE_TEST_CLUSTERS=1")
	}
	root := rigtest.Needs(t, []string{"bwrap"}, []string{"cadre", "cadre-local", "cadre-agent", "cadre-coordinator", "cadre-load"})
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "cadre.log"))
	if err != nil {
		t.Fatal(err)
	}
	r := rig.New(root, filepath.Join(dir, "state"), time.Second, log)
	s := &story{T: t, Rig: r, n: rig.NewNarrator(t.Output(), false, time.Now())}
	t.Cleanup(func() {
		if t.Failed() {
			dump(t, log.Name())
			services, _ := filepath.Glob(filepath.Join(r.State, "cloud/cvms/*/logs/[clrs]*.log")) // cadre, load, redis, sentinel
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
	s.must("deploy Redis", r.DeployRedis(ctx, s.n))
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

// agreed waits until all Sentinels name one primary in one epoch.
func (s *story) agreed(ctx context.Context) (primary string, epoch uint64) {
	s.Helper()
	s.must("wait until the Sentinels agree", s.until(ctx, func() error {
		for n := range 3 {
			slot := fmt.Sprintf("%s-%d", rig.Redis, n)
			named, in, err := s.RedisPrimary(ctx, slot)
			switch {
			case err != nil:
				return err
			case n == 0:
				primary, epoch = named, in
			case named != primary || in != epoch || named == "":
				return fmt.Errorf("%s names %q in epoch %d, %s-0 names %q in epoch %d", slot, named, in, rig.Redis, primary, epoch)
			}
		}
		return nil
	}))
	return primary, epoch
}

// TestAdapterOfCommands: commands in a CVM are an adapter, and bad commands are bounded.
func TestAdapterOfCommands(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	s := begin(ctx, t)
	t.Run("rollout under load", func(t *testing.T) { (&story{t, s.Rig, s.n}).rollout(ctx) })
	t.Run("bad commands", func(t *testing.T) { (&story{t, s.Rig, s.n}).badCommands(ctx) })
}

// rollout rolls three real servers while clients write.
func (s *story) rollout(ctx context.Context) {
	led, before := s.agreed(ctx)

	from := time.Now()
	s.n.Say("rolling to another release")
	s.must("apply the next release", s.ApplyRedis(ctx, "2"))
	_, err := s.Follow(ctx, rig.Redis, s.n.Rollout)
	s.must("roll", err)
	s.must("wait for writes", s.AwaitMessages(ctx, rig.RedisApp, time.Now(), 100))
	rolled, err := s.MessageSummary(ctx, rig.RedisApp, from, time.Now())
	s.must("ask for the figures", err)
	rollout, slots, err := s.RolloutReport(ctx, rig.Redis)
	s.must("read the rollout's record", err)
	leads, after := s.agreed(ctx)

	s.n.Say("stopping the writers, reading the hash")
	found, err := s.StopMessages(ctx, rig.RedisApp)
	s.must("stop the writers", err)
	if found.Missing != 0 || found.Acknowledged < 500 {
		s.Errorf("Redis has %+v", found)
	}
	for _, slot := range slots {
		s.n.Say("  %d %-7s led %-5t unavailable %.1f s", slot.Order, slot.Slot, slot.Led, float64(slot.UnavailableMS)/1000)
	}
	s.n.Say("rollout %.0f s: %d writes acknowledged, %d failed, longest gap %d ms, slowest %d ms, errors %v, %d hand-overs",
		rollout.EndedAt.Sub(rollout.StartedAt).Seconds(), rolled.Acknowledged, rolled.Failed, rolled.Gap.Milliseconds(), rolled.Slowest.Milliseconds(), rolled.Errors, rollout.Transfers)
	s.n.Say("%d acknowledged, %d missing; epochs %d to %d", found.Acknowledged, found.Missing, before, after)

	if rollout.State != operation.Complete || len(slots) != 3 {
		s.Fatalf("the rollout is %s with %d steps: %s", rollout.State, len(slots), rollout.Reason)
	}
	if last := slots[2]; last.Slot == led {
		if rollout.Transfers != 1 || !last.Led || after != before+1 || leads == led {
			s.Errorf("%d hand-overs, epochs %d to %d; %s was last, led %t; %s led and %s leads", rollout.Transfers, before, after, last.Slot, last.Led, led, leads)
		}
		return
	}
	// On a loaded machine a primary that looks unavailable goes first, or the Sentinels elect without a step.
	s.Logf("%s led, and was not last: epochs %d to %d, %d hand-overs", led, before, after, rollout.Transfers)
	if rollout.Transfers > 1 || after > before+2 {
		s.Errorf("epochs %d to %d, %d hand-overs", before, after, rollout.Transfers)
	}
}

// badCommands: a command that hangs, floods or lies is named at its member, and the agent's next ones find the CVM
// without its leftovers.
func (s *story) badCommands(ctx context.Context) {
	s.n.Say("applying a group whose adapters hang, flood and lie")
	s.must("apply it", s.ApplyBadAdapters(ctx))
	c, err := s.Client()
	s.must("dial the cluster", err)
	for slot, want := range map[string]string{
		"bad-0": "the adapter's command db/member did not answer in time",
		"bad-1": "the adapter's command db/member did not answer in time",
		"bad-2": `the adapter's answer is refused: voters[1]: "etcd-0" is no slot of the group of bad-2: members are named as their slots; leader: is "bad-1", though role says`,
	} {
		s.must("wait until "+slot+" is named", s.until(ctx, func() error {
			i, err := c.Instance(ctx, slot)
			if err == nil && !strings.Contains(i.Status.Reason, want) {
				err = fmt.Errorf("%s is %s: %s", slot, i.Status.State, i.Status.Reason)
			}
			return err
		}))
	}
	// Each call of bad-0 starts two processes, and at most four calls are open.
	const sleepers = `n=0; for p in /proc/[0-9]*; do [ "$(tr '\0' ' ' 2>/dev/null <$p/cmdline)" != "sleep 600 " ] || n=$((n + 1)); done; echo "$n"`
	for range 10 {
		out, err := s.Exec(ctx, s.PlatformName("bad-0"), "db", "sh", "-c", sleepers)
		s.must("count the processes of commands", err)
		n, err := strconv.Atoi(strings.TrimSpace(out))
		if s.n.Say("  %d processes of hanging commands", n); err != nil || n > 8 {
			s.Errorf("%q processes of commands that hang: %v", out, err)
		}
	}
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
