package admission

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/attest"
	"cadre.dev/attest/statement"
	"cadre.dev/raced"
)

// slowQuoter makes one quote at a time, each in a second, as the hardware does.
type slowQuoter struct {
	one *sync.Mutex
	s   *small
}

func (q slowQuoter) GetQuote(ctx context.Context, data []byte) (attest.Evidence, error) {
	q.one.Lock()
	defer q.one.Unlock()
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
		return q.s.GetQuote(ctx, data)
	case <-ctx.Done():
		return attest.Evidence{}, ctx.Err()
	}
}

// busy is about two milliseconds of CPU work, like a verification.
func busy() {
	var sum [32]byte
	for range 10_000 {
		sum = sha256.Sum256(sum[:])
	}
}

// insist retries as agents do: with full jitter over a range that doubles up to a second, and never
// before the coordinator's retry delay.
func insist(ctx context.Context, b *newcomer, at func() *Service) (tries int, err error) {
	for tries = 1; ; tries++ {
		if err = b.again(at()).admit(ctx); err == nil || ctx.Err() != nil {
			return tries, err
		}
		var wait time.Duration
		for _, detail := range status.Convert(err).Details() {
			if info, ok := detail.(*errdetails.RetryInfo); ok {
				wait = info.GetRetryDelay().AsDuration()
			}
		}
		if status.Code(err) != codes.Unavailable {
			return tries, err // a final refusal
		}
		select {
		case <-time.After(wait + rand.N(min(200*time.Millisecond<<min(tries, 5), time.Second))):
		case <-ctx.Done():
		}
	}
}

// Ten times as much valid-looking junk as can be verified, about the same Slot and about others.
func TestINP06_AFloodOfRequestsDelaysNoGenuineBoot(t *testing.T) {
	s := newSmall(t, 1, 4, "demo")
	s.verify = busy
	service := s.services[0]
	ctx, stop := context.WithCancel(t.Context())
	var junk, shed atomic.Int64
	var flood sync.WaitGroup
	defer flood.Wait()
	defer stop()
	for i := range 10 * (laneLength + service.verifying.size) {
		flood.Go(func() { // half of it about pg-0, half about pg-1
			for ctx.Err() == nil {
				b := s.newcomer(0, i%2)
				c, err := b.challenge(ctx)
				if err != nil {
					continue
				}
				req := b.request(c, nil)
				req.Evidence.Quote = append(req.Evidence.Quote, 'x')
				_, err = b.Admit(ctx, req)
				junk.Add(1)
				if code(err) == codeOverloaded {
					shed.Add(1)
				}
			}
		})
	}
	for shed.Load() < 200 {
		_, changed := s.views.Latest()
		select {
		case <-changed:
		case <-time.After(5 * time.Millisecond): // until the flood has built up
		}
	}
	for _, slot := range []int{3, 0} {
		limit, cancel := context.WithTimeout(ctx, 30*time.Second)
		began := time.Now()
		tries, err := insist(limit, s.newcomer(0, slot), func() *Service { return service })
		cancel()
		if err != nil {
			t.Fatalf("pg-%d: %v", slot, err)
		}
		t.Logf("pg-%d admitted after %v and %d tries; %d pieces of junk so far, %d of them shed", slot, time.Since(began).Round(time.Millisecond), tries, junk.Load(), shed.Load())
	}
	if junk.Load() < 500 {
		t.Errorf("only %d pieces of junk", junk.Load())
	}
}

// All agents start at once, a quote of a coordinator takes a second, and quotes are made one at a
// time. Every agent is admitted in the end.
func TestINP06_AStormOfAThousandAgentsIsAbsorbed(t *testing.T) {
	agents := 1000
	if raced.Enabled {
		agents = 300 // more agents reach no further code
	}
	s := newSmall(t, 3, agents, "demo")
	var quoting [3]sync.Mutex
	for i, service := range s.services {
		service.prover.quoter = slowQuoter{&quoting[i], s}
		// The leases have no control sessions here, and a storm on a slow machine outlasts their
		// normal TTL.
		service.cfg.LeaseTTL = time.Hour
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var storm sync.WaitGroup
	var most, total atomic.Int64
	began := time.Now()
	for i := range agents {
		storm.Go(func() {
			tries, err := insist(ctx, s.newcomer(0, i), func() *Service { return s.services[rand.N(3)] })
			if err != nil {
				t.Errorf("agent %d after %d tries: %v", i, tries, err)
			}
			total.Add(int64(tries))
			for was := most.Load(); int64(tries) > was && !most.CompareAndSwap(was, int64(tries)); was = most.Load() {
			}
		})
	}
	storm.Wait()
	t.Logf("%d agents admitted in %v with %d quotes of 3 coordinators; %.2f tries on average, %d at most",
		agents, time.Since(began).Round(time.Millisecond), s.quotes.Load(), float64(total.Load())/float64(agents), most.Load())
	if got := s.quotes.Load(); got > int64(agents/5) {
		t.Errorf("%d quotes for %d agents", got, agents)
	}
	for i := range agents {
		if a := s.admission(i); a.Generation != 1 || !s.lease(i).Leased() {
			t.Fatalf("slot %d: %+v", i, a)
		}
	}
}

// blockingQuoter is a quoter that waits until the test opens it.
type blockingQuoter struct {
	entered chan int
	open    chan error
	count   atomic.Int64
}

func (g *blockingQuoter) GetQuote(context.Context, []byte) (attest.Evidence, error) {
	g.entered <- int(g.count.Add(1))
	return attest.Evidence{Quote: []byte("q")}, <-g.open
}

// TestOneQuoteServesAllWaitingCallers: while a quote is made, further callers queue up. Each finds its
// exchange in the statement, and a caller that disconnects does not affect the others.
func TestOneQuoteServesAllWaitingCallers(t *testing.T) {
	g := &blockingQuoter{entered: make(chan int), open: make(chan error)}
	p := &prover{quoter: g, own: statement.Batch{Cluster: "demo", ClusterID: "0123456789abcdef0123456789abcdef", AppID: coordinatorApp, Slot: "coordinator-0", TLSPublicKey: make([]byte, 91), CABundleSHA256: make([]byte, 32)}}
	exchangeOf := func(i byte) statement.Exchange {
		e := sha256.Sum256([]byte{i})
		return statement.Exchange{Exporter: e[:], PeerNonce: e[:]}
	}
	var all sync.WaitGroup
	ask := func(ctx context.Context, i byte, wantErr bool) {
		all.Go(func() {
			got, refused := p.prove(ctx, exchangeOf(i))
			if wantErr {
				if refused == nil && got.err == nil {
					t.Errorf("%d: got a proof", i)
				}
				return
			}
			if refused != nil || got.err != nil {
				t.Errorf("%d: %v, %v", i, refused, got.err)
				return
			}
			said, err := statement.DecodeBatch(got.statement)
			if err != nil || !said.Commits(exchangeOf(i), got.leaf, got.path) {
				t.Errorf("%d is not in its batch: %v", i, err)
			}
		})
	}
	waiting := func(n int) {
		for {
			p.mu.Lock()
			now := len(p.waiting)
			p.mu.Unlock()
			if now == n {
				return
			}
			select {
			case <-time.After(time.Millisecond):
			case <-t.Context().Done():
				t.Fatal("they do not gather")
			}
		}
	}
	ask(t.Context(), 0, false)
	<-g.entered // the first caller's quote is being made
	gone, leave := context.WithCancel(t.Context())
	ask(gone, 1, true)
	waiting(1)
	for i := byte(2); i < 50; i++ {
		ask(t.Context(), i, false)
	}
	waiting(49)
	leave()
	waiting(48)
	g.open <- nil
	if n := <-g.entered; n != 2 {
		t.Errorf("quote %d", n)
	}
	ask(t.Context(), 60, true) // its quote fails
	waiting(1)
	g.open <- nil
	<-g.entered
	g.open <- errors.New("no hardware")
	all.Wait()
	ask(t.Context(), 61, false) // and the next one works again
	<-g.entered
	g.open <- nil
	all.Wait()
	if n := g.count.Load(); n != 4 {
		t.Errorf("%d quotes for 52 exchanges", n)
	}
}

// A long queue about one Slot does not delay the only caller for another Slot.
func TestLanesTakeTurnsAndShedTheirOwn(t *testing.T) {
	p := newPool(1, time.Now)
	done, refused := p.enter(t.Context(), "busy", "first")
	if refused != nil {
		t.Fatal(refused)
	}
	var all sync.WaitGroup
	var shed, keys atomic.Int64
	order := make(chan string, 3*laneLength)
	enter := func(lane string) {
		all.Go(func() {
			done, refused := p.enter(t.Context(), lane, fmt.Sprint(keys.Add(1)))
			if refused != nil {
				if refused.code != codeOverloaded || refused.wait <= 0 {
					t.Errorf("%+v", refused)
				}
				shed.Add(1)
				return
			}
			order <- lane
			done()
		})
	}
	count := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.count
	}
	for range 2 * laneLength {
		enter("flooded")
	}
	for count() < laneLength || shed.Load() < laneLength {
		<-time.After(time.Millisecond)
	}
	enter("other")
	for count() < laneLength+1 {
		<-time.After(time.Millisecond)
	}
	done()
	all.Wait()
	close(order)
	place := 0
	for lane := range order {
		if place++; lane == "other" {
			break
		}
	}
	if place > 2 {
		t.Errorf("the other lane was number %d", place)
	}
	if p.free != 1 || p.count != 0 || len(p.lanes) != 0 || len(p.turns) != 0 {
		t.Errorf("left behind: %+v", p)
	}
}

// Callers come and disconnect at every moment; the next caller is still served.
func TestADisconnectedCallerTakesNoTurn(t *testing.T) {
	s := newSmall(t, 1, 1, "demo")
	p := s.services[0].prover
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for range raced.Tenth(500) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(60))*time.Microsecond)
				e := sha256.Sum256(fmt.Append(nil, i, rng.Uint64()))
				_, _ = p.prove(ctx, statement.Exchange{Exporter: e[:], PeerNonce: e[:]})
				cancel()
			}
		})
	}
	all.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if got, refused := p.prove(ctx, statement.Exchange{Exporter: make([]byte, 32), PeerNonce: make([]byte, 32)}); refused != nil || got.err != nil {
		t.Fatalf("%v, %v", refused, got.err)
	}
	if p.busy || len(p.waiting) != 0 {
		t.Errorf("left behind: busy %t, %d waiting", p.busy, len(p.waiting))
	}
}
