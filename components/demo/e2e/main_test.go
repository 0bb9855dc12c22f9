package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/demo/internal/rig"
	"cadre.dev/demo/internal/rigtest"
	"cadre.dev/platform/phala"
)

// bootDelay is how long a CVM of the tests boots.
const bootDelay = time.Second

// deployTime bounds the creation of the shared cluster, rollTime one rollout with a test's
// disturbance. Tests with the race detector share the processors.
const (
	deployTime = 3 * time.Minute
	rollTime   = 3 * time.Minute
)

// cluster is the shared cluster.
type cluster struct {
	*rig.Rig
	api   *client.Client
	cloud *phala.Client
	// logs is where to look when a test failed.
	logs string
	// releases counts the releases that were applied.
	releases int
	// left names a test's remains in the group's spec; "" for none.
	left string
}

var shared struct {
	once sync.Once
	c    *cluster
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := tearDown(code == 0); err != nil {
		fmt.Fprintln(os.Stderr, "bring the local cloud down:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// tearDown stops the cloud; clean removes its logs too.
func tearDown(clean bool) error {
	if shared.c == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if clean {
		return shared.c.Down(ctx)
	}
	return shared.c.Halt(ctx)
}

// ready returns the shared cluster with its group whole and its spec as the example has it, or skips.
func ready(t *testing.T) *cluster {
	t.Helper()
	c := readyCluster(t)
	if c.left != "" {
		t.Logf("the spec has %s of a test before; rolling it without", c.left)
		c.roll(t)
	}
	return c
}

// readyCluster is ready for a test that rolls its own spec over an earlier test's remains: a restored
// spec between the two would be one rollout more.
func readyCluster(t *testing.T) *cluster {
	t.Helper()
	root := need(t)
	shared.once.Do(func() { shared.c, shared.err = deploy(root) })
	if shared.err != nil {
		where := ""
		if shared.c != nil {
			where = "; logs are in " + shared.c.logs
		}
		t.Fatalf("deploy the cluster: %v%s", shared.err, where)
	}
	c := shared.c
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs are in %s", c.logs)
		}
	})
	c.mend(t)
	return c
}

// need finds the checkout, and skips where the tests cannot run.
func need(t *testing.T) string {
	t.Helper()
	return rigtest.Needs(t, []string{"bwrap", "nsenter", "setpriv"}, []string{"cadre", "cadre-local", "cadre-agent", "cadre-coordinator"})
}

// deploy starts the cloud, the coordinators and the group. shared.c has the created parts also
// after a failure, so that they are removed.
func deploy(root string) (*cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), deployTime)
	defer cancel()
	out := filepath.Join(root, ".out")
	if err := os.MkdirAll(out, 0o750); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(out, "e2e.log"))
	if err != nil {
		return nil, err
	}
	state := filepath.Join(out, "e2e")
	c := &cluster{Rig: rig.New(root, state, bootDelay, log), logs: state + " and " + log.Name()}
	// A run that was killed leaves its cloud.
	if err := c.Down(ctx); err != nil {
		return nil, err
	}
	if err := c.Up(ctx); err != nil {
		return c, err
	}
	if err := c.CreateLightCluster(ctx); err != nil {
		return c, err
	}
	if c.api, err = c.Client(); err != nil {
		return c, err
	}
	facts, err := c.Cloud()
	if err != nil {
		return c, err
	}
	if c.cloud, err = phala.New(phala.Config{BaseURL: facts.APIURL, APIKey: facts.APIKey}); err != nil {
		return c, err
	}
	if _, err := c.ApplyLight(ctx, c.LightFile(), c.next()); err != nil {
		return c, err
	}
	_, err = c.Follow(ctx, rig.Light, nil)
	return c, err
}

// next names a release that was not there yet.
func (c *cluster) next() string {
	c.releases++
	return strconv.Itoa(c.releases)
}

// mend rolls a new release when an earlier test left the group in pieces.
func (c *cluster) mend(t *testing.T) {
	t.Helper()
	ctx := within(t, 20*time.Second)
	if err := c.api.Wait(ctx, rig.Light, client.WaitOptions{}); err == nil {
		return
	}
	t.Log("the group is not whole; rolling a good release first")
	c.roll(t)
}

// apply writes the group's spec with a new release.
func (c *cluster) apply(t *testing.T, flags ...string) {
	t.Helper()
	c.left = ""
	if _, err := c.ApplyLight(within(t, rollTime), c.LightFile(), c.next(), flags...); err != nil {
		t.Fatal(err)
	}
}

// roll applies a new release and waits until every Slot runs it.
func (c *cluster) roll(t *testing.T, flags ...string) {
	t.Helper()
	c.apply(t, flags...)
	c.complete(t, rig.Light)
}

// complete waits until the rollout of a group's newest spec has ended well.
func (c *cluster) complete(t *testing.T, name string) {
	t.Helper()
	v, err := c.Follow(within(t, rollTime), name, nil)
	if err != nil {
		t.Fatalf("follow the rollout: %v; last seen: %s %s", err, v.Status.RolloutState, v.Status.Message)
	}
	if v.Status.RolloutState != string(operation.Complete) || v.Status.Available != v.Status.Replicas {
		t.Fatalf("the rollout is %s with %d of %d slots available: %s", v.Status.RolloutState, v.Status.Available, v.Status.Replicas, v.Status.Message)
	}
}

// within is the test's context with a deadline.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// eventually repeats try until it succeeds.
func eventually(t *testing.T, what string, limit time.Duration, try func(context.Context) error) {
	t.Helper()
	ctx := within(t, limit)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := try(attempt)
		cancel()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %s: %v", what, limit, err)
		case <-tick.C:
		}
	}
}

// slots are the names of a group's three Slots.
func slots(name string) []string {
	return []string{group.SlotName(name, 0), group.SlotName(name, 1), group.SlotName(name, 2)}
}

// exitCode of a cadre command that failed; 0 for none, -1 for another error.
func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -1
}
