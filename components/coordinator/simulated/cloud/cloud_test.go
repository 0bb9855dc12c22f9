package cloud_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/platform"
	"cadre.dev/raced/synctest"
)

// guest records its calls.
type guest struct{ told *[]string }

func (g guest) Boots()          { *g.told = append(*g.told, "boots") }
func (g guest) Ends(why string) { *g.told = append(*g.told, why) }

const bootTakes = 3 * time.Second

// bench is a cloud of one caller; it holds back the calls of a verb.
type bench struct {
	*cloud.Link[guest]
	t    *testing.T
	mu   sync.Mutex
	told []string
	// held are the effects of the held calls.
	hold cloud.Verb
	held []func() error
}

func try(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t}
		c := cloud.New(cloud.Config[guest]{
			Lock: &b.mu, Guest: func(*cloud.CVM[guest]) guest { return guest{&b.told} }, BootTakes: func(*cloud.CVM[guest]) time.Duration { return bootTakes }, Settle: time.Minute,
		})
		b.Link = c.Link(b.carry)
		test(t, b)
	})
}

func (b *bench) carry(_ context.Context, call cloud.Call, effect func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if call.Verb == b.hold {
		b.held = append(b.held, effect)
		return errors.New("no answer")
	}
	return effect()
}

func (b *bench) land() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	effect := b.held[0]
	b.held = b.held[1:]
	return effect()
}

func (b *bench) create(text string) (platform.Instance, error) {
	t := platform.Template{AppCompose: []byte(text), InstanceType: "tdx.small", DiskGB: 20}
	p, err := b.Provision(b.t.Context(), "", t)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.Create(b.t.Context(), platform.CreateRequest{Name: "sim-pg-0", Provisioned: p, Template: t})
}

func (b *bench) want(when string, told ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.told, told) {
		b.t.Errorf("%s: the guest's calls are %q, want %q", when, b.told, told)
	}
	b.told = nil
}

func (b *bench) now(vmUUID string) platform.Instance {
	b.t.Helper()
	i, err := b.Describe(b.t.Context(), vmUUID)
	if err != nil {
		b.t.Fatal(err)
	}
	return i
}

// TestAnAppDecidesTheSizeOfItsCVMs: the hosted platform takes no size for a CVM in an existing app. Own
// hosts take one for each CVM.
func TestAnAppDecidesTheSizeOfItsCVMs(t *testing.T) {
	for stopFirst, want := range map[bool]string{false: "tdx.small", true: "tdx.large"} {
		synctest.Test(t, func(t *testing.T) {
			b := &bench{t: t}
			b.Link = cloud.New(cloud.Config[guest]{
				Lock: &b.mu, Guest: func(*cloud.CVM[guest]) guest { return guest{&b.told} }, BootTakes: func(*cloud.CVM[guest]) time.Duration { return bootTakes },
				Settle: time.Minute, StopFirst: stopFirst,
			}).Link(b.carry)
			first, err := b.create("one")
			if err != nil {
				t.Fatal(err)
			}
			made, err := b.Create(t.Context(), platform.CreateRequest{
				Name: "sim-pg-1", AppID: first.AppID, Provisioned: platform.Provisioned{AppID: first.AppID}, Template: platform.Template{InstanceType: "tdx.large"},
			})
			if got := b.now(made.VMUUID); err != nil || got.InstanceType != want || first.InstanceType != "tdx.small" {
				t.Errorf("stop first %t: %s after %s, %v", stopFirst, got.InstanceType, first.InstanceType, err)
			}
			time.Sleep(bootTakes)
		})
	}
}

func TestARestartWithinARestartIsOneBoot(t *testing.T) {
	try(t, func(t *testing.T, b *bench) {
		made, err := b.create("one")
		if err != nil || made.Running() || made.ComposeHash != "" {
			t.Fatalf("made %+v, %v", made, err)
		}
		time.Sleep(bootTakes - time.Second)
		if _, err := b.Resize(t.Context(), made.VMUUID, platform.Shape{DiskGB: 40}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(bootTakes - time.Second)
		b.want("while it boots again", cloud.Restarts, cloud.Restarts)
		time.Sleep(2 * time.Second)
		b.want("later", "boots")
		got := b.now(made.VMUUID)
		if !got.Running() || got.ComposeHash == "" || got.DiskGB != 40 || got.InstanceType != "tdx.small" || got.InstanceID != made.InstanceID {
			t.Errorf("now %+v", got)
		}
	})
}

func TestANameIsOfOneCVM(t *testing.T) {
	try(t, func(t *testing.T, b *bench) {
		if _, err := b.create("one"); err != nil {
			t.Fatal(err)
		}
		if _, err := b.create("two"); !errors.Is(err, platform.ErrRefused) {
			t.Errorf("a second one: %v, want ErrRefused", err)
		}
		if all, err := b.List(t.Context(), ""); err != nil || len(all) != 1 {
			t.Errorf("there are %+v, %v", all, err)
		}
	})
}

// TestAnEffectThatComesLateMeetsItsOwnCVM: a late effect never reaches a new CVM of the same name.
func TestAnEffectThatComesLateMeetsItsOwnCVM(t *testing.T) {
	try(t, func(t *testing.T, b *bench) {
		made, err := b.create("one")
		if err != nil {
			t.Fatal(err)
		}
		b.hold = cloud.Update
		if _, err := b.Update(t.Context(), platform.UpdateRequest{VMUUID: made.VMUUID, ComposeHash: "late"}); err == nil {
			t.Fatal("the answer was kept back")
		}
		if err := b.Delete(t.Context(), made.VMUUID); err != nil {
			t.Fatal(err)
		}
		if err := b.Delete(t.Context(), made.VMUUID); err != nil {
			t.Errorf("delete of a deleted one: %v", err)
		}
		again, err := b.create("one")
		if err != nil || again.VMUUID == made.VMUUID || again.InstanceID == made.InstanceID || again.AppID != made.AppID {
			t.Fatalf("created again %+v, %v, before %+v", again, err, made)
		}
		if err := b.land(); !errors.Is(err, platform.ErrNotFound) {
			t.Errorf("the late effect: %v, want ErrNotFound", err)
		}
		time.Sleep(bootTakes + time.Second)
		if got := b.now(again.VMUUID); !got.Running() || got.ComposeHash == "late" {
			t.Errorf("now %+v", got)
		}
		b.want("in all", cloud.Restarts, cloud.Deleted, cloud.Restarts, "boots")
	})
}

func TestAHaltedCVMRunsItsNextDocumentOnceItIsStarted(t *testing.T) {
	try(t, func(t *testing.T, b *bench) {
		made, err := b.create("one")
		if err != nil {
			t.Fatal(err)
		}
		b.mu.Lock()
		b.HaltLocked(b.NamedLocked("sim-pg-0"))
		b.mu.Unlock()
		time.Sleep(2 * bootTakes)
		halted := b.now(made.VMUUID)
		if halted.Running() || halted.Status != "stopped" || halted.ComposeHash == "" {
			t.Errorf("halted %+v", halted)
		}
		for range 2 { // a running CVM continues
			if _, err := b.Start(t.Context(), made.VMUUID); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * bootTakes)
		}
		if got := b.now(made.VMUUID); !got.Running() || got.ComposeHash != halted.ComposeHash {
			t.Errorf("started %+v", got)
		}
		b.want("in all", cloud.Restarts, cloud.Stopped, cloud.Restarts, "boots")
	})
}
