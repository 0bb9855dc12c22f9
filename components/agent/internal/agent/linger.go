package agent

import (
	"context"
	"time"
)

// lingerLimit leaves most of the parent's 8 s stop time for the steps after it.
const lingerLimit = 5 * time.Second

// lingering returns a context that ends after ctx: when no workload is connected to Consul any
// more, or lingerLimit later. A machine that stops signals all its services at once. A workload
// that cannot release its lock waits for Consul for its own limit: Patroni waits 20 s, in which no
// replacement can be admitted. Calling stop ends the context early.
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
