package agent

import (
	"context"
	"time"
)

// lingerLimit leaves a good part of the 8 s in which the parent wants the end for what
// comes after it.
const lingerLimit = 5 * time.Second

// lingering gives a context that ends after ctx: when no workload is connected to Consul
// any more, or lingerLimit later. A machine that stops tells all its services at once, and
// a workload that cannot give its lock back waits for Consul as long as it bears: Patroni
// for 20 s, in which nobody can be admitted in its place. The other way to end it is stop.
func (a *Agent) lingering(ctx context.Context) (longer context.Context, stop context.CancelFunc) {
	longer, stop = context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		defer stop()
		if a.node.Load() == nil {
			return // not admitted: nothing is carried
		}
		limited, done := context.WithTimeout(longer, lingerLimit)
		defer done()
		a.consulProxy.Unused(limited)
	})
	return longer, stop
}
