package client_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/core/group"
)

// impatient is a client with short calls.
func impatient(t *testing.T, c client.Context) *client.Client {
	t.Helper()
	cl, err := client.Dial(c, client.Options{CallTimeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	return cl
}

// A Look ends when no coordinator answers, even if its caller has no deadline.
func TestALookEndsWithoutAnAnswer(t *testing.T) {
	s := clienttest.New(t)
	c := impatient(t, s.Start(t))
	for _, code := range []codes.Code{codes.Unavailable, codes.Internal} {
		s.Fail("WatchGroup", status.Error(code, "no leader"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		_, err := c.Look(ctx, "web")
		cancel()
		if client.KindOf(err) != client.Unavailable {
			t.Errorf("%s: %v has kind %s", code, err, client.KindOf(err))
		}
	}
}

// An update continues when coordinators come back, and meanwhile reports that none answers.
func TestAnUpdateReportsMissingAnswers(t *testing.T) {
	s := clienttest.New(t)
	c := impatient(t, s.Start(t))
	s.Set("web", func(g *clienttest.Group) {
		g.Status = group.Status{Group: "web", Target: "r2", Instances: []group.InstanceStatus{{Slot: "web-0", State: client.StateAvailable, Observed: "r2"}}}
	})
	s.Fail("WatchGroup", status.Error(codes.Unavailable, "no leader"))
	told := 0
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := c.UpdateInstance(ctx, "web-0", client.UpdateOptions{Revision: "r2", Lost: func(error) {
		if told++; told == 3 {
			s.Fail("WatchGroup", nil)
		}
	}})
	if err != nil || got.Observed != "r2" || told < 3 {
		t.Errorf("%+v, %v; reported %d times", got, err, told)
	}
}

// WaitGone reports a loss of all coordinators, and ends when the group is gone.
func TestWaitGoneOutlivesCoordinators(t *testing.T) {
	s := clienttest.New(t)
	c := impatient(t, s.Start(t))
	s.Set("web", func(g *clienttest.Group) { g.Deleting, g.Status.Message = true, "2 slots are left" })
	var said []string
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := c.WaitGone(ctx, "web", func(text string) {
		said = append(said, text)
		s.Fail("GetGroup", status.Error(codes.Unavailable, "no leader"))
	}, func(error) {
		said = append(said, "lost")
		s.Fail("GetGroup", status.Error(codes.NotFound, "no such group"))
	})
	if err != nil || len(said) != 2 || said[0] != "2 slots are left" || said[1] != "lost" {
		t.Errorf("%v, said %q", err, said)
	}
}
