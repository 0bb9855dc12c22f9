package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/core/policy"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/raced/synctest"
	"cadre.dev/store"
)

// slowReads is a store whose reads take a moment and are counted.
type slowReads struct {
	store.Store
	reads, now, most atomic.Int64
}

func (s *slowReads) Get(ctx context.Context, key string) (store.Entry, error) {
	s.reads.Add(1)
	now := s.now.Add(1)
	defer s.now.Add(-1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
	time.Sleep(time.Millisecond)
	return s.Store.Get(ctx, key)
}

func (n *newcomer) status(ctx context.Context, slot string) (*admissionv1.AdmissionStatusResponse, error) {
	return n.AdmissionStatus(ctx, &admissionv1.AdmissionStatusRequest{Group: "pg", Slot: slot})
}

// asked returns a cluster whose first coordinator reads from reads.
func asked(t *testing.T, slots int) (s *small, reads *slowReads) {
	s = newSmall(t, 1, slots, "demo")
	reads = &slowReads{Store: s.store}
	s.services[0].store = reads
	return s, reads
}

// The answer for the holder costs no read, and is given only while the records are readable.
func TestTheHoldersStatusCostsNoRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, reads := asked(t, 1)
		b := s.newcomer(0, 0)
		if err := b.admit(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(time.Second) // until the View has the admission
		reads.reads.Store(0)
		for range 2 * askers {
			if got, err := b.again(s.services[0]).status(t.Context(), "pg-0"); err != nil || !got.GetHolds() {
				t.Errorf("admission status %v, %v", got, err)
			}
		}
		if n := reads.reads.Load(); n != 0 {
			t.Errorf("%d reads for a known status", n)
		}
		other, err := b.again(s.services[0]).AdmissionStatus(t.Context(), &admissionv1.AdmissionStatusRequest{Group: "web", Slot: "pg-0"})
		if err != nil || other.GetHolds() {
			t.Errorf("in another group: %v, %v", other, err)
		}
		s.store.FailReads(errors.New("no leader"))
		time.Sleep(time.Minute)
		if got, err := b.again(s.services[0]).status(t.Context(), "pg-0"); status.Code(err) != codes.Unavailable {
			t.Errorf("a minute after the records were readable last: %v, %v", got, err)
		}
		s.store.FailReads(nil)
	})
}

// Many callers that ask for their status, about existing and unknown Slots, cause few reads. A Boot
// that has lost its Slot still gets its answer.
func TestINP06_UnauthenticatedCallersCauseFewReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const flood, lasting = 200, 3 * time.Second
		s, reads := asked(t, 3)
		evicted := s.newcomer(0, 2)
		if err := evicted.admit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.services[0].Evict(t.Context(), "pg-2", policy.CodePeerRevoked, "stolen"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		reads.reads.Store(0)
		reads.most.Store(0)
		ctx, stop := context.WithTimeout(t.Context(), lasting)
		defer stop()
		var shed atomic.Int64
		var crowd sync.WaitGroup
		for i := range flood {
			unknown := s.newcomer(0, 0)
			crowd.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					slot := fmt.Sprint("pg-", i%2)
					if i%4 == 3 {
						slot = fmt.Sprintf("none%d-%d", i, n)
					}
					if _, err := unknown.again(s.services[0]).status(ctx, slot); status.Code(err) == codes.Unavailable {
						shed.Add(1)
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		time.Sleep(time.Second)
		began := time.Now()
		why, err := evicted.again(s.services[0]).status(ctx, "pg-2")
		if err != nil || why.GetCode() != string(policy.CodePeerRevoked) || time.Since(began) > time.Second {
			t.Errorf("the evicted boot learns %v, %v after %v", why, err, time.Since(began))
		}
		crowd.Wait()
		if n := reads.reads.Load(); n > 4*askers*int64(lasting/askPause+1) || n < askers {
			t.Errorf("%d reads in %v", n, lasting)
		}
		if n := reads.most.Load(); n > askers {
			t.Errorf("%d reads at once", n)
		}
		if shed.Load() < flood {
			t.Errorf("only %d of the unknown were turned away", shed.Load())
		}
		time.Sleep(queueWait)
	})
}
