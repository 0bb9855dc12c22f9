package observe_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/platform"
)

// slowCloud answers when it is told to, with how often it was asked.
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

// TestListAskedForBeforeACallIsNotKept: after a call with an effect the own write
// must be seen (R69), also when another group was listing meanwhile.
func TestListAskedForBeforeACallIsNotKept(t *testing.T) {
	cloud := &slowCloud{entered: make(chan struct{}, 2), answer: make(chan error, 2)}
	p := observe.NewPlatform(cloud, time.Now, time.Minute)
	first := make(chan observe.Listing, 1)
	go func() { first <- p.List(t.Context(), time.Hour) }()
	<-cloud.entered
	p.Forget()
	cloud.answer <- nil
	<-first
	cloud.answer <- nil
	if got := p.List(t.Context(), time.Hour); len(got.Instances) != 2 {
		t.Error("a list from before the call was given out after it")
	}
	if got := p.List(t.Context(), time.Hour); len(got.Instances) != 2 || cloud.asked != 2 {
		t.Error("a fresh list was not kept")
	}
}

func TestFailedListIsAnErrorInTheListing(t *testing.T) {
	cloud := &slowCloud{entered: make(chan struct{}, 1), answer: make(chan error, 1)}
	cloud.answer <- errors.New("502")
	if got := observe.NewPlatform(cloud, time.Now, time.Minute).List(t.Context(), time.Hour); got.Err == nil {
		t.Errorf("%+v", got)
	}
}
