package operate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/specvalidate"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	"cadre.dev/platform"
)

// asked counts the Provision calls, and refuses each.
type asked struct {
	platform.Platform
	calls int
}

func (a *asked) Provision(context.Context, string, platform.Template) (platform.Provisioned, error) {
	a.calls++
	return platform.Provisioned{}, errors.New("no platform is here")
}

// TestAnOperationThatIsCalledOffIsNotPrepared: an adoption makes the step of the Slot unwanted after the
// step was recorded. The platform would be asked, and the policy would allow a Revision that never boots.
func TestAnOperationThatIsCalledOffIsNotPrepared(t *testing.T) {
	p := &asked{}
	o := New(Config{Platform: p, Now: time.Now})
	op := operation.Operation{ID: "pg.1.pg-0", Group: "pg", Slot: "pg-0", Kind: operation.Update, Phase: operation.Drained}
	unbound := op
	unbound.Kind = operation.Create
	for name, c := range map[string]struct {
		op    operation.Operation
		facts operation.Facts
	}{
		"the slot is not outdated any more": {op, operation.Facts{Will: operation.Will{Unwanted: "the slot is not outdated any more"}}},
		"the CVM belongs to another client": {unbound, operation.Facts{Platform: &operation.PlatformView{Unbound: true}}},
		"the group is paused":               {op, operation.Facts{Will: operation.Will{Paused: true}}},
		"the platform refuses the Revision": {op, operation.Facts{Refused: "it is not offered"}},
	} {
		if err := o.prepare(t.Context(), nil, &view.View{}, observe.Seen{}, c.op, &c.facts); err != nil || p.calls != 0 || c.facts.SafeReason != "" {
			t.Errorf("%s: %d calls, %v; judged: %s", name, p.calls, err, c.facts.SafeReason)
		}
	}
}

// TestPreparationsExpire: no event announces that another leader ended an Operation. A newer spec changes
// an Operation's Revision, and its document is then another one.
func TestPreparationsExpire(t *testing.T) {
	now := time.Now()
	o := New(Config{Now: func() time.Time { return now }})
	o.prepared["old"], o.prepared["young"] = prepared{at: now.Add(-provisionedFor)}, prepared{at: now.Add(-time.Second)}
	if _, ok := o.preparedFor(operation.Operation{ID: "another"}); ok || len(o.prepared) != 1 {
		t.Errorf("found %t, kept %d", ok, len(o.prepared))
	}
	if _, ok := o.preparedFor(operation.Operation{ID: "young"}); !ok {
		t.Error("what is young is prepared anew")
	}
	if _, ok := o.preparedFor(operation.Operation{ID: "young", To: "newer"}); ok {
		t.Error("what was prepared for an earlier revision is used for the newer one")
	}
}

// TestR62_TheClockIsSetBackAfterTheLeaseWasTaken: the new leader waits once for the calls of its
// predecessor, and not until the clock reaches the old time again.
func TestR62_TheClockIsSetBackAfterTheLeaseWasTaken(t *testing.T) {
	now := time.Now()
	o := New(Config{Now: func() time.Time { return now }})
	o.Took(now.Add(time.Hour))
	for _, later := range []time.Duration{0, time.Second, time.Minute} {
		if got := o.tookAt(now.Add(later)); !got.Equal(now) {
			t.Errorf("%s later it was taken %s ago", later, now.Add(later).Sub(got))
		}
	}
}

// TestANewCVMOfOwnHostsIsAskedAboutWithoutAnother: the image of another CVM's host says nothing about the host of the
// new CVM. The app of the records stays the group's app when all its CVMs are gone, since its id decides about keys.
func TestANewCVMOfOwnHostsIsAskedAboutWithoutAnother(t *testing.T) {
	app := strings.Repeat("a", 40)
	recorded := observe.Seen{}
	recorded.Records.Slots = []group.SlotRecord{{Slot: "pg-0", AppID: app}}
	listed := observe.Seen{}
	listed.Listing.Instances = []platform.Instance{{VMUUID: "vm-0", AppID: app}}
	silent := func(seen observe.Seen) observe.Seen {
		seen.Now.SilentNodes = []string{"host-b"}
		return seen
	}
	for name, c := range map[string]struct {
		seen         observe.Seen
		own          bool
		vm           string
		newApp, fail bool
	}{
		"own hosts, a CVM is there":               {seen: listed, own: true},
		"own hosts, all CVMs are gone":            {seen: silent(recorded), own: true},
		"own hosts, a new app":                    {seen: observe.Seen{}, own: true, newApp: true},
		"own hosts, a new app and a silent host":  {seen: silent(observe.Seen{}), own: true, fail: true},
		"another platform, a CVM is there":        {seen: listed, vm: "vm-0"},
		"another platform, the CVMs are all gone": {seen: recorded, newApp: true},
	} {
		o := New(Config{Now: time.Now, Timing: rollout.Timing{StopFirst: c.own}})
		vm, newApp, err := o.throughFor(c.seen, app)
		if vm != c.vm || newApp != c.newApp || (err != nil) != c.fail || c.fail && !strings.Contains(err.Error(), "host-b") {
			t.Errorf("%s: through %q, new app %t, %v", name, vm, newApp, err)
		}
	}
}

// made keeps the request of a Create.
type made struct {
	platform.Platform
	req platform.CreateRequest
}

func (m *made) Create(_ context.Context, req platform.CreateRequest) (platform.Instance, error) {
	m.req = req
	return platform.Instance{}, nil
}

// TestACreateHandsOverTheNodesWithoutItsName, and the app of the records.
func TestACreateHandsOverTheNodesWithoutItsName(t *testing.T) {
	p, app := &made{}, strings.Repeat("a", 40)
	o := New(Config{Platform: p, Now: time.Now, Cluster: "demo", Validator: &specvalidate.Validator{}})
	op := operation.Operation{ID: "pg.1.pg-0", Group: "pg", Slot: "pg-0", Kind: operation.Create}
	o.prepared[op.ID] = prepared{at: time.Now(), provisioned: platform.Provisioned{AppID: app}}
	var result operation.CallResult
	err := o.create(t.Context(), observe.Seen{}, op, operation.Effect{Call: operation.PartCreate, NotOn: []string{"host-b"}}, &result)
	if err != nil || !slices.Equal(p.req.NotOn, []string{"host-b"}) || p.req.AppID != app {
		t.Errorf("the platform got %+v, %v", p.req, err)
	}
}
