package observe_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/platform"
)

// slowCloud answers on the test's signal, with the number of its calls.
type slowCloud struct {
	asked   int
	entered chan struct{}
	answer  chan error
}

func (c *slowCloud) List(context.Context, string) ([]platform.Instance, error) {
	c.asked++
	n := c.asked
	c.entered <- struct{}{}
	return make([]platform.Instance, n), <-c.answer
}

// TestListAskedForBeforeACallIsNotKept: after a call with an effect, the list must include that
// effect (R69), even if another group requested a list meanwhile.
func TestListAskedForBeforeACallIsNotKept(t *testing.T) {
	cloud := &slowCloud{entered: make(chan struct{}, 2), answer: make(chan error, 2)}
	p := observe.NewPlatform(cloud, time.Now, time.Minute)
	first := make(chan observe.Listing, 1)
	go func() { first <- p.List(t.Context(), "one", time.Hour) }()
	<-cloud.entered
	p.Forget("one")
	cloud.answer <- nil
	<-first
	cloud.answer <- nil
	if got := p.List(t.Context(), "one", time.Hour); len(got.Instances) != 2 {
		t.Error("a list from before the call was given out after it")
	}
	if got := p.List(t.Context(), "one", time.Hour); len(got.Instances) != 2 || cloud.asked != 2 {
		t.Error("a fresh list was not kept")
	}
}

// A call for one group does not cost the others a list; a list for all groups includes its effect.
func TestACallForOneGroupCostsTheOthersNoList(t *testing.T) {
	cloud := &slowCloud{entered: make(chan struct{}, 8), answer: make(chan error, 8)}
	p := observe.NewPlatform(cloud, time.Now, time.Minute)
	list := func(group string, want int) {
		t.Helper()
		cloud.answer <- nil
		if got := p.List(t.Context(), group, time.Hour); len(got.Instances) != want {
			t.Errorf("%q has list %d, want %d", group, len(got.Instances), want)
		}
		if cloud.asked == want && len(cloud.answer) > 0 {
			<-cloud.answer
		}
	}
	list("one", 1)
	p.Forget("one")
	list("two", 1)
	list("one", 2)
	list("one", 2)
	p.Forget("one")
	list("", 3)
	list("one", 3)
	p.Forget("")
	list("two", 4)
}

func TestFailedListIsAnErrorInTheListing(t *testing.T) {
	cloud := &slowCloud{entered: make(chan struct{}, 1), answer: make(chan error, 1)}
	cloud.answer <- errors.New("502")
	if got := observe.NewPlatform(cloud, time.Now, time.Minute).List(t.Context(), "one", time.Hour); got.Err == nil {
		t.Errorf("%+v", got)
	}
}

// TestANodeThatDoesNotAnswerHidesItsCVMsOnly: the listing of the other nodes counts, and the group's Slots there are
// seen as usual. A caller that needs every CVM learns that some are missing.
func TestANodeThatDoesNotAnswerHidesItsCVMsOnly(t *testing.T) {
	cloud := &slowCloud{entered: make(chan struct{}, 1), answer: make(chan error, 1)}
	cloud.answer <- &platform.Unanswered{Nodes: []platform.NodeError{{Node: "b", Err: errors.New("no route")}, {Node: "a", Err: errors.New("refused")}}}
	got := observe.NewPlatform(cloud, time.Now, time.Minute).List(t.Context(), "db", 0)
	if got.Err != nil || len(got.Instances) != 1 || got.Lacks() == nil {
		t.Fatalf("%d instances, error %v, lacks %v", len(got.Instances), got.Err, got.Lacks())
	}
	seen := observe.Group(&view.View{}, group.Spec{Name: "db"}, "c", got, nil)
	if !seen.Now.Complete() || !slices.Equal(seen.Now.SilentNodes, []string{"a", "b"}) {
		t.Errorf("complete %t, silent %q", seen.Now.Complete(), seen.Now.SilentNodes)
	}
}
