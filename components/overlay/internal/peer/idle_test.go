package peer

import (
	"slices"
	"testing"

	"cadre.dev/overlay/internal/frame"
	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/session"
)

// tagged is a Link that holds Sessions with these tags, by number from 1.
func tagged(tags ...frame.SessionTag) *core {
	c := &core{sessions: map[uint64]*live{}}
	c.state, _ = c.state.Step(link.Changed{Facts: link.Facts{Boot: "b1", OnDemand: true}})
	for i, tag := range tags {
		number := uint64(i + 1)
		c.sessions[number] = &live{Session: &session.Session{Number: number, Tag: tag}}
		c.state, _ = c.state.Step(link.Connected{Session: number, Boot: "b1", Class: link.Gateway, Stray: i > 0})
	}
	return c
}

// A side that holds other Sessions than the question names does not agree: either side may
// use a Session that the other has not heard of yet.
func TestOnlyAHolderOfTheNamedSessionsAgrees(t *testing.T) {
	one, two, three := frame.SessionTag{1}, frame.SessionTag{2}, frame.SessionTag{3}
	for name, c := range map[string]struct {
		holds, asked []frame.SessionTag
		want         bool
	}{
		"the same":                       {[]frame.SessionTag{one, two}, []frame.SessionTag{two, one}, true},
		"a Session unknown to the Peer":  {[]frame.SessionTag{one, two}, []frame.SessionTag{one}, false},
		"a Session unknown to this side": {[]frame.SessionTag{one}, []frame.SessionTag{one, two}, false},
		"as many, and another":           {[]frame.SessionTag{one, two}, []frame.SessionTag{one, three}, false},
		"none of them, any more":         {nil, []frame.SessionTag{one}, false},
	} {
		if got := tagged(c.holds...).holdsJust(c.asked); got != c.want {
			t.Errorf("%s: agrees: %v, want %v", name, got, c.want)
		}
	}
	// A Session that the machine has released does not count.
	c := tagged(one, two)
	c.state, _ = c.state.Step(link.Lost{Session: 2})
	if !c.holdsJust([]frame.SessionTag{one}) {
		t.Error("a finished session counts as unknown to the peer")
	}
}

// A question names its Sessions.
func TestAQuestionNamesItsSessions(t *testing.T) {
	c := tagged(frame.SessionTag{1}, frame.SessionTag{2})
	if got := c.ending(); len(got) != 0 {
		t.Errorf("before the question %x are to end", got)
	}
	c.state, _ = c.state.Step(link.Wanted{})
	c.state, _ = c.state.Step(link.Idle{})
	got := c.ending()
	slices.SortFunc(got, func(a, b frame.SessionTag) int { return slices.Compare(a[:], b[:]) })
	if want := []frame.SessionTag{{1}, {2}}; !slices.Equal(got, want) {
		t.Errorf("the peer is asked about %x, want %x", got, want)
	}
}
