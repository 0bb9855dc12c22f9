package genesis

import (
	"context"
	"slices"
	"strings"
	"testing"

	"cadre.dev/client"
)

func (b *bench) replace(ctx context.Context, slot string) error {
	r, err := PrepareReplace(ctx, b.opts, slot)
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// uuids are the CVMs of the coordinators, by ordinal; "" for a missing one.
func (b *bench) uuids(t *testing.T) []string {
	t.Helper()
	list, err := b.opts.Cloud.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	out := make([]string, 3)
	for _, i := range list {
		out[slices.Index(three, i.Name)] = i.VMUUID
	}
	return out
}

// onNewCVM lets the coordinator answer once its CVM is another one, with a vote.
func (f *fakeCoordinators) onNewCVM(t *testing.T, slot string, n int) {
	t.Helper()
	was := f.bench.uuids(t)[n]
	f.mu.Lock()
	f.silent[slot] = true
	f.mu.Unlock()
	say := f.bench.opts.Say
	f.bench.opts.Say = func(text string) {
		say(text)
		if now := f.bench.uuids(t)[n]; strings.HasPrefix(text, "waiting") && now != "" && now != was {
			f.mu.Lock()
			delete(f.silent, slot)
			delete(f.lost, slot)
			f.mu.Unlock()
		}
	}
}

func TestReplaceMakesALostCoordinatorAgain(t *testing.T) {
	t.Parallel()
	b, f := upgradable(t)
	before := b.uuids(t)
	if err := b.replace(t.Context(), "coordinator-1"); err == nil || !strings.Contains(err.Error(), "coordinator-1 is well") {
		t.Errorf("a well coordinator: %v", err)
	}
	f.onNewCVM(t, "coordinator-1", 1)
	if err := b.replace(t.Context(), "coordinator-2"); err == nil || !strings.Contains(err.Error(), "is well") {
		t.Errorf("the wrong coordinator: %v", err)
	}
	if err := b.replace(t.Context(), "coordinator-1"); err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(b.said, "\n"))
	}
	after := b.uuids(t)
	if after[1] == before[1] || after[0] != before[0] || after[2] != before[2] {
		t.Errorf("CVMs %v, before %v", after, before)
	}
	if !slices.Equal(f.removed, []string{"coordinator-1"}) {
		t.Errorf("removed voters: %q", f.removed)
	}
	if env := b.fake.Env(three[1]); env["CADRE_SLOT"] != "coordinator-1" {
		t.Errorf("env %v", env)
	}
	if c, err := client.LoadContext(b.opts.ContextPath); err != nil || c.Replacing != nil {
		t.Errorf("the context notes %+v, %v", c.Replacing, err)
	}
}

// TestAnInterruptedReplacementContinues ends the first run at each line that it prints. No new CVM is
// deleted again.
func TestAnInterruptedReplacementContinues(t *testing.T) {
	t.Parallel()
	for stop := 1; ; stop++ {
		b, f := upgradable(t)
		before := b.uuids(t)
		f.onNewCVM(t, "coordinator-1", 1)
		ctx, cancel := context.WithCancel(t.Context())
		said, say := 0, b.opts.Say
		b.opts.Say = func(text string) {
			say(text)
			if said++; said == stop {
				cancel()
			}
		}
		err := b.replace(ctx, "coordinator-1")
		cancel()
		if said < stop {
			if err != nil || stop < 4 {
				t.Fatalf("the replacement ended after %d lines: %v", said, err)
			}
			return
		}
		made := b.uuids(t)[1]
		// After the last line nothing is left to do.
		if err := b.replace(t.Context(), "coordinator-1"); err != nil && !strings.Contains(err.Error(), "coordinator-1 is well") {
			t.Fatalf("after line %d: %v\n%s", stop, err, strings.Join(b.said, "\n"))
		}
		after := b.uuids(t)
		if after[1] == before[1] || made != "" && made != before[1] && after[1] != made {
			t.Errorf("after line %d: CVMs %v, before %v, made first %s", stop, after, before, made)
		}
	}
}

func TestReplaceRefuses(t *testing.T) {
	t.Parallel()
	b, f := upgradable(t)
	f.mu.Lock()
	f.silent["coordinator-1"] = true
	f.mu.Unlock()
	b.opts.Cluster = b.file(t, anImage, "image: d@")
	if err := b.replace(t.Context(), "coordinator-1"); err == nil || !strings.Contains(err.Error(), "use the file that the coordinators run") {
		t.Errorf("another version: %v", err)
	}
	for _, slot := range []string{"", "coordinator-9", "pg-0"} {
		if err := b.replace(t.Context(), slot); err == nil || !strings.Contains(err.Error(), "no coordinator") {
			t.Errorf("%q: %v", slot, err)
		}
	}
	if len(b.names(t)) != 3 || len(f.removed) > 0 {
		t.Errorf("a refused replacement changed something: %v, %v", b.names(t), f.removed)
	}
}
