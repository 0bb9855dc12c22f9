package peer

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"cadre.dev/overlay/internal/carrier"
	"cadre.dev/overlay/internal/control"
	"cadre.dev/overlay/internal/link"
	"cadre.dev/overlay/internal/peermap"
)

// core is the changing state of a Peer. The loop alone uses core's own methods and
// fields. Any goroutine may use the embedded Peer's, also the goroutines that core
// launches.
type core struct {
	*Peer
	entry    peermap.Peer
	state    link.State
	since    time.Time        // when its phase began
	sessions map[uint64]*live // every Session not over yet
	crowd    crowd
	record   control.Record
	lastErr  error
	abandon  context.CancelFunc // ends the running dial; nil when there is none
	timer    *time.Timer        // of the machine's Arm
	idle     *alarm             // for the next look at a Link on demand; nil while it rests
	due      bool               // that look waits for the end of a dial
	question *question          // that the Peer has not answered; nil for none
	epochs   uint64             // the number before this Link's first search epoch; constant
	class    link.Class         // the class of the datagram path in use
	history  history
	ended    carrier.Stats // the traffic of the finished Sessions
	benchEnd time.Time     // until when the Peer may begin a bench; zero when it may not
}

// over reports that the Link has ended.
func (c *core) over() bool { return c.state.Phase() == link.Over }

// all gives the Sessions by number.
func (c *core) all() []*live {
	list := slices.Collect(maps.Values(c.sessions))
	slices.SortFunc(list, func(a, b *live) int { return cmp.Compare(a.Number, b.Number) })
	return list
}

// launch runs f as part of the Link.
func (c *core) launch(f func(context.Context)) context.CancelFunc { return c.node.Launch(&c.wg, f) }

// changed feeds the map's present facts to the machine.
func (c *core) changed(f link.Facts) {
	f.Epoch = c.epochs
	c.step(link.Changed{Facts: f})
}

// step feeds one event to the machine and executes the effects.
func (c *core) step(ev link.Event) {
	before := c.state.Phase()
	var effects []link.Effect
	c.state, effects = c.state.Step(ev)
	for _, e := range effects {
		c.do(e)
	}
	if c.state.Phase() != before {
		c.since = time.Now()
	}
	c.watchIdle()
	c.dialed()
}

func (c *core) do(e link.Effect) {
	switch e := e.(type) {
	case link.Cancel:
		c.cancel()
	case link.Dial:
		c.abandon = c.launch(func(ctx context.Context) { c.dial(ctx, e) })
	case link.Arm:
		c.timer = time.AfterFunc(e.After, func() { c.feed(link.Timer{Try: e.Try}) })
	case link.Use:
		c.use(e.Session)
	case link.Close:
		s := c.sessions[e.Session]
		c.lastErr = e.Reason
		c.wg.Go(func() { s.Close(e.Reason) })
	case link.Retire:
		c.retire(c.sessions[e.Session])
	case link.Rest:
		s, ending := c.sessions[e.Session], c.ending()
		c.launch(func(context.Context) { c.propose(s, e.Question, ending) })
	case link.Yield:
		s := c.sessions[e.Session]
		s.yielded = true
		c.launch(func(ctx context.Context) { yield(ctx, s) })
	case link.Forget:
		c.forgetPaths()
	default:
		c.find(e)
	}
}

// cancel abandons the running dial and its timer.
func (c *core) cancel() {
	if c.abandon != nil {
		c.abandon()
		c.abandon = nil
	}
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

// jitter spreads the tries of many Links; nothing rests on its being secret.
func jitter() float64 {
	return rand.Float64() //nolint:gosec // spreads load, is no secret
}
