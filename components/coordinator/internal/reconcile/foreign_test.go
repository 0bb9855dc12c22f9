package reconcile_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/platform"
)

// another cluster of the account has a CVM of this name; its app.
func (w *world) another(name string) string {
	w.t.Helper()
	link := w.cloud.Link(w.carry)
	p, err := link.Provision(w.t.Context(), "", platform.Template{AppCompose: []byte(`{"name":"another"}`)})
	if err != nil {
		w.t.Fatal(err)
	}
	made, err := link.Create(w.t.Context(), platform.CreateRequest{Name: name, Provisioned: p})
	if err != nil {
		w.t.Fatal(err)
	}
	return made.AppID
}

// TestTwoClustersWhoseNamesMeetInOneAccount: another cluster that is called demo has the CVM demo-pg-1 already. That
// CVM is not touched, and nothing is made in its app.
func TestTwoClustersWhoseNamesMeetInOneAccount(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		app := w.another("demo-pg-1")
		w.apply(spec("one"))
		w.until("the others", 2*time.Minute, func() bool { return w.status().Available == 2 })
		w.until("the hold", time.Minute, func() bool {
			return slices.ContainsFunc(w.instance("pg-1").Holds, func(h group.Hold) bool {
				return strings.Contains(h.Message, "carries the name of pg-1") || strings.Contains(h.Message, "under the name of pg-1")
			})
		})
		w.apply(spec("two"))
		tick(t.Context(), 10*time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range w.cloud.AllLocked() {
			if own := c.Name != "demo-pg-1"; own == (c.AppID == app) {
				t.Errorf("%s is in app %s", c.Name, c.AppID)
			}
		}
		for _, call := range w.calls {
			if strings.Contains(call, "demo-pg-1") && call != "create demo-pg-1" {
				t.Errorf("%s of a CVM of another cluster", call)
			}
		}
	})
}

// TestTheNameIsTakenBetweenTheListAndTheCall by another cluster: the CVM that the platform lists then is not taken
// for the one that the call made, and the message names it.
func TestTheNameIsTakenBetweenTheListAndTheCall(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.mu.Lock()
		taken := false
		w.fault = func(call string) (bool, error) {
			if call != "create demo-pg-0" || taken {
				return true, nil
			}
			taken = true
			time.AfterFunc(0, func() { w.another("demo-pg-0") })
			return false, errors.New("no answer")
		}
		w.mu.Unlock()
		w.apply(spec("one"))
		w.until("the reason", 10*time.Minute, w.says("the name demo-pg-0 is taken by CVM"))
		tick(t.Context(), 10*time.Minute)
		if got := w.view().Slots["pg-0"].Value; got.VMUUID != "" || got.InstanceID != "" {
			t.Errorf("bound to a CVM of another cluster: %+v", got)
		}
		for _, call := range w.made("") {
			if !strings.HasPrefix(call, "create ") {
				t.Errorf("%s", call)
			}
		}
	})
}
