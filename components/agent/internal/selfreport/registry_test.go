package selfreport

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	"cadre.dev/raced/synctest"
)

// fileName is the tests' file of reports.
const fileName = "reports"

func owned(ttl time.Duration) map[string]time.Duration {
	return OfBackends(group.ServiceMesh{Proxies: []group.Proxy{
		{Backend: "queue", Owner: group.OwnerWorkload, TTL: group.Duration(ttl)},
		{Backend: "web", Owner: group.OwnerPlatform},
		{Service: "caller"},
	}})
}

// TestAWordHoldsForItsTime: a workload whose last report expired has an unknown state.
func TestAWordHoldsForItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		r := New()
		go func() { _ = r.Run(ctx) }()
		defer stop()
		r.Set(owned(10 * time.Second))
		state := func() State {
			synctest.Wait()
			all := r.States()
			if len(all) != 1 || all[0].Name != "queue" {
				t.Fatalf("states: %+v", all)
			}
			return all[0]
		}
		if got := state(); got.Health != rollout.Unknown {
			t.Errorf("before the first word: %+v", got)
		}
		say := func() {
			if ttl, err := r.Put("queue", Report{Status: Passing, Tags: []string{"master", "a", "a"}}); err != nil || ttl != 10*time.Second {
				t.Fatal(ttl, err)
			}
		}
		say()
		if got := state(); got.Health != rollout.Healthy || !slices.Equal(got.Tags, []string{"a", "master"}) {
			t.Errorf("after a word: %+v", got)
		}
		_, index := r.Changes().Get()
		for range 5 {
			time.Sleep(9 * time.Second)
			say()
		}
		if got := state(); got.Health != rollout.Healthy {
			t.Errorf("said again in time: %+v", got)
		}
		if _, now := r.Changes().Get(); now != index {
			t.Error("the same report again is notified as a change")
		}
		time.Sleep(9 * time.Second)
		if got := state(); got.Health != rollout.Healthy {
			t.Errorf("within its time: %+v", got)
		}
		time.Sleep(time.Second)
		if got := state(); got.Health != rollout.Unknown || len(got.Tags) != 0 {
			t.Errorf("after its time: %+v", got)
		}
		if _, now := r.Changes().Get(); now == index {
			t.Error("the expiry of a report is not notified")
		}
	})
}

func TestPutRefuses(t *testing.T) {
	r := New()
	r.Set(owned(time.Minute))
	for name, w := range map[string]Report{
		"status":   {Status: "fine"},
		"tags:":    {Status: Passing, Tags: strings.Split("a,b,c,d,e,f,g,h,i", ",")},
		"tags[0]:": {Status: Passing, Tags: []string{"Not A Name"}},
		"output":   {Status: Critical, Output: strings.Repeat("x", MaxOutput+1)},
	} {
		if _, err := r.Put("queue", w); !errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"web", "none"} {
		if _, err := r.Put(name, Report{Status: Passing}); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "queue") {
			t.Errorf("backend %s, which no workload owns: %v", name, err)
		}
	}
}

// TestAnotherSpec: a backend's report holds while a workload owns the registration.
func TestAnotherSpec(t *testing.T) {
	r := New()
	r.Set(owned(time.Minute))
	if _, err := r.Put("queue", Report{Status: Critical, Output: "full"}); err != nil {
		t.Fatal(err)
	}
	r.Set(owned(2 * time.Minute))
	if got := r.States(); got[0].Health != rollout.Unhealthy || got[0].Output != "full" {
		t.Errorf("another ttl: %+v", got)
	}
	r.Set(nil)
	r.Set(owned(time.Minute))
	if got := r.States(); got[0].Health != rollout.Unknown {
		t.Errorf("no workload owned it meanwhile: %+v", got)
	}
}

// TestAReportExpiresByThePresentTTL: the present TTL counts from the last report, even if the TTL
// was different then.
func TestAReportExpiresByThePresentTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New()
		set := func(ttl time.Duration) { r.Set(map[string]time.Duration{"a": ttl}) }
		wants := func(when string, want rollout.Health) {
			t.Helper()
			if got := r.States()[0].Health; got != want {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
		set(10 * time.Second)
		if _, err := r.Put("a", Report{Status: Passing}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		set(time.Minute)
		time.Sleep(20 * time.Second)
		r.expire(time.Now())
		wants("a longer time", rollout.Healthy)
		set(27 * time.Second)
		wants("a shorter one, which is not over", rollout.Healthy)
		time.Sleep(time.Second)
		r.expire(time.Now())
		wants("which is over", rollout.Unknown)
		if _, err := r.Put("a", Report{Status: Passing}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		set(5 * time.Second)
		wants("an expired report", rollout.Unknown)
	})
}
