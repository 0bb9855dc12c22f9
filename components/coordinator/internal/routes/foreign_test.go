package routes_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/coordinator/internal/routes"
	"cadre.dev/store"
)

// warnings collects the log lines at WARN.
type warnings struct {
	slog.Handler
	mu    *sync.Mutex
	texts *[]string // guarded by mu
}

func (w warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (w warnings) Handle(_ context.Context, r slog.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" {
			*w.texts = append(*w.texts, a.Value.String())
		}
		return true
	})
	return nil
}

func (w warnings) WithAttrs([]slog.Attr) slog.Handler { return w }

func (w warnings) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(*w.texts)
}

// others returns the same entries without Cadre's mark.
func others(e routes.Entries) routes.Entries {
	for _, one := range e {
		switch e := one.(type) {
		case *consul.ServiceResolverConfigEntry:
			e.Meta = nil
		case *consul.ServiceIntentionsConfigEntry:
			e.Meta = map[string]string{"managed-by": "somebody"}
		}
	}
	return e
}

// TestOthersEntriesAreNeitherWrittenNorRemoved: the error names each with the way out. A redirect
// to a role that the foreign entry lacks is not tried.
func TestOthersEntriesAreNeitherWrittenNorRemoved(t *testing.T) {
	theirs, want := others(routes.Wanted(config("leader", "web"))), routes.Wanted(config("leader", "web"))
	if got, _ := changesText(theirs, routes.Entries{}); len(got) != 0 {
		t.Errorf("others' are removed: %q", got)
	}
	rest, err := routes.KeepOff(theirs, want)
	if err == nil || len(rest) != 0 {
		t.Fatalf("others' are written over: %v, %v", rest, err)
	}
	lines := strings.Split(err.Error(), "\n")
	for n, words := range [][]string{
		{`service-resolver "pg-master"`, "consul config delete -kind service-resolver -name pg-master", "rename the route"},
		{`service-intentions "pg-pg"`, "consul config delete -kind service-intentions -name pg-pg", "another workload or parent"},
		{`service-resolver "pg-pg"`, "consul config delete -kind service-resolver -name pg-pg", "another workload or parent"},
	} {
		for _, word := range words {
			if len(lines) != 3 || !strings.Contains(lines[n], word) {
				t.Errorf("%q is not in %q", word, lines)
			}
		}
	}
	onlyService := func(role string) routes.Entries {
		out := routes.Entries{}
		for k, e := range others(routes.Wanted(config(role))) {
			if e.GetName() == "pg-pg" {
				out[k] = e
			}
		}
		return out
	}
	for role, left := range map[string][]string{"leader": {"put intentions pg-pg", "put resolver pg-master"}, "follower": {"put intentions pg-pg"}} {
		rest, err := routes.KeepOff(onlyService(role), want)
		if got, _ := changesText(onlyService(role), rest); err == nil || !slices.Equal(got, left) {
			t.Errorf("with %s: %q, %v", role, got, err)
		}
	}
}

// TestAnothersRedirectEndsNoRole: the role stays as long as the foreign redirect uses it, and no
// pass waits for that.
func TestAnothersRedirectEndsNoRole(t *testing.T) {
	found := routes.Wanted(config("leader", "web"))
	for k, e := range others(routes.Wanted(config("leader", "web"))) {
		if e.GetName() == "pg-master" {
			found[k] = e
		}
	}
	rest, _ := routes.KeepOff(found, routes.Wanted(config("follower", "web")))
	if _, more := changesText(found, rest); more {
		t.Error("it is compared repeatedly until another writer changes an entry")
	}
}

// TestAForeignEntryIsReportedOnce: it is reported once, unchanged, and replaced after its removal.
func TestAForeignEntryIsReportedOnce(t *testing.T) {
	w := newWorld(t)
	theirs := &consul.ServiceResolverConfigEntry{Kind: consul.ServiceResolver, Name: "pg-master", Redirect: &consul.ServiceResolverRedirect{Service: "elsewhere"}}
	if ok, _, err := w.admin.ConfigEntries().Set(theirs, nil); err != nil || !ok {
		t.Fatal(ok, err)
	}
	w.lead()
	w.accept(database(nil), spec("web"))
	w.await("the rest is written", func() bool { return w.has(declared...)() && w.writer.Failing() && w.writer.Settled() })
	for _, change := range []string{"a", "b", "c"} {
		w.ahead.Add(int64(time.Minute))
		w.put(store.OverrideKey(store.OverridePause, "pg"), store.Override{Reason: change}) // triggers a pass
		w.await("looked again", w.writer.Settled)
	}
	logged := w.log.all()
	if len(logged) != 1 || !strings.Contains(logged[0], `service-resolver "pg-master" is not Cadre's`) {
		t.Errorf("reported %q", logged)
	}
	if target, _ := w.resolved("pg-master"); target != "elsewhere" {
		t.Errorf("theirs leads to %s now", target)
	}
	if _, err := w.admin.ConfigEntries().Delete(consul.ServiceResolver, "pg-master", nil); err != nil {
		t.Fatal(err)
	}
	w.ahead.Add(int64(time.Minute))
	w.put(store.OverrideKey(store.OverridePause, "pg"), store.Override{Reason: "d"})
	w.await("it is ours", func() bool { target, _ := w.resolved("pg-master"); return target == "pg-pg" && !w.writer.Failing() })
}
