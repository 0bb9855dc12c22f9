package admission

import (
	"context"
	"slices"
	"sync"
	"time"

	"cadre.dev/attest"
	"cadre.dev/attest/statement"
)

const (
	// quoteLimit bounds one quote: it takes up to a second on real hardware, and the guest makes
	// one at a time.
	quoteLimit = 15 * time.Second
	// maxWaiting bounds the callers that wait for a quote, to two batches: further callers would
	// time out.
	maxWaiting = 2 * statement.MaxBatch
)

// prover makes this coordinator's own evidence, one quote for all waiting callers. Callers that
// arrive while a quote is made form the next batch. The first caller that finds the prover idle
// makes the quote for its batch; there is no separate goroutine.
type prover struct {
	quoter Quoter
	// own is the statement without its root.
	own statement.Batch

	mu      sync.Mutex
	waiting []*waiter // guarded by mu
	busy    bool      // guarded by mu; a caller makes a quote, or is about to
}

// proof is the coordinator's evidence for one exchange.
type proof struct {
	evidence  attest.Evidence
	statement []byte
	leaf      uint32
	path      [][]byte
	err       error
}

type waiter struct {
	exchange statement.Exchange
	done     chan proof    // capacity 1
	turn     chan struct{} // closed: make the quote for all waiting callers
}

// prove waits for evidence that commits to e.
func (p *prover) prove(ctx context.Context, e statement.Exchange) (proof, *refusal) {
	w := &waiter{exchange: e, done: make(chan proof, 1), turn: make(chan struct{})}
	p.mu.Lock()
	if len(p.waiting) >= maxWaiting {
		p.mu.Unlock()
		return proof{}, refuse(codeOverloaded, "too many boots wait for this coordinator's evidence").later().in(2 * time.Second)
	}
	p.waiting = append(p.waiting, w)
	if !p.busy {
		p.busy = true
		close(w.turn)
	}
	p.mu.Unlock()
	select {
	case <-w.turn:
		p.quote(ctx)
	case got := <-w.done:
		return got, nil
	case <-ctx.Done():
		p.leave(w)
		return proof{}, refuse(codeOverloaded, "the exchange ended while it waited for this coordinator's evidence").later()
	}
	return <-w.done, nil
}

// quote serves the first batch, which includes the caller, and passes the turn on.
func (p *prover) quote(ctx context.Context) {
	p.mu.Lock()
	n := min(len(p.waiting), statement.MaxBatch)
	batch := slices.Clone(p.waiting[:n])
	p.waiting = slices.Delete(p.waiting, 0, n)
	p.mu.Unlock()

	// The other callers must not lose their quote when this caller disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quoteLimit)
	defer cancel()
	for i, got := range p.make(ctx, batch) {
		batch[i].done <- got
	}
	p.next()
}

// next passes the turn to the first waiting caller.
func (p *prover) next() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy = len(p.waiting) > 0
	if p.busy {
		close(p.waiting[0].turn)
	}
}

// leave removes w; a turn that w received meanwhile passes to the next caller.
func (p *prover) leave(w *waiter) {
	p.mu.Lock()
	p.waiting = slices.DeleteFunc(p.waiting, func(o *waiter) bool { return o == w })
	p.mu.Unlock()
	select {
	case <-w.turn:
		p.next()
	default:
	}
}

func (p *prover) make(ctx context.Context, batch []*waiter) []proof {
	out := make([]proof, len(batch))
	exchanges := make([]statement.Exchange, len(batch))
	for i, w := range batch {
		exchanges[i] = w.exchange
	}
	said := p.own
	root, paths, err := statement.Gather(exchanges)
	said.Root = root
	var evidence attest.Evidence
	if err == nil {
		data := said.ReportData()
		evidence, err = p.quoter.GetQuote(ctx, data[:])
	}
	encoded := said.Encode()
	for i := range out {
		if err != nil {
			out[i].err = err
			continue
		}
		out[i] = proof{evidence: evidence, statement: encoded, leaf: uint32(i), path: paths[i]}
	}
	return out
}
