package admission

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/control"
	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/overlay"
	"cadre.dev/overlay/grpcconn"
	"cadre.dev/overlay/grpcserver"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/store"
	"cadre.dev/store/storetest"
)

// Two keys of one instance ask at two coordinators, at once and one after the other. The second key
// gets the Slot only after Consul has expired the first one's session.
func TestIDN03_PLT02_ACloneWaitsForTheLeaseOnRealConsul(t *testing.T) {
	h := newHarness(t)
	h.cfg.Issuer, h.cfg.LeaseTTL = &quickIssuer{}, storetest.SessionTTL
	one, two := h.coordinator("coordinator-0"), h.coordinator("coordinator-1")
	machine, copied := h.boot(composeText, h.seed), h.boot(composeText, h.seed)
	machine.at, copied.at = one, two

	errs := make([]error, 2)
	var both sync.WaitGroup
	both.Go(func() { _, errs[0] = machine.admit() })
	both.Go(func() { _, errs[1] = copied.admit() })
	both.Wait()
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Fatalf("two keys at once: %v, %v", errs[0], errs[1])
	}
	holder, claimant := machine, copied
	if errs[0] != nil {
		holder, claimant = copied, machine
	}
	last := time.Now() // the lease was last renewed when it was made
	refusals := 0
	for {
		_, err := claimant.admit()
		if err == nil {
			break
		}
		if code(err) != codeConflict || time.Since(last) > 30*time.Second {
			t.Fatal(err)
		}
		if refusals++; refusals == 1 {
			d, _, err := store.Read[policy.Decisions](t.Context(), h.store, store.DecisionsKey("pg-0"))
			if e := d.Last(); err != nil || e.What != policy.DecidedConflict || e.HolderBootID != holder.id() || e.BootID != claimant.id() {
				t.Errorf("decision %+v, %v", e, err)
			}
		}
		// The other coordinator refuses it too.
		if claimant.at == one {
			claimant.at = two
		} else {
			claimant.at = one
		}
		_, changed := h.views.Latest()
		select {
		case <-changed:
		case <-time.After(200 * time.Millisecond):
		}
	}
	waited := time.Since(last)
	t.Logf("refused %d times; admitted %v after the holder's last sign of life, TTL %v", refusals, waited.Round(time.Millisecond), h.cfg.LeaseTTL)
	if waited < h.cfg.LeaseTTL {
		t.Error("the lease had not ended")
	}
	if _, err := holder.admit(); code(err) != codeStale {
		t.Errorf("the replaced boot comes back: %v", err)
	}
	if a := h.admission(); a.BootID != claimant.id() || a.Generation != 2 {
		t.Errorf("admission %+v", a)
	}
}

// evicted is an admitted Boot with all its credentials, and a leading coordinator. The tests
// measure the effects of an eviction on it.
type evicted struct {
	*harness
	boot    *boot
	token   string
	control *control.Service
	reason  chan string // the code of its end, from a wake or a refused report
	closed  chan time.Time
	running sync.WaitGroup
}

type wakeServer struct {
	controlv1.UnimplementedAgentServiceServer
	reason chan<- string
}

func (s wakeServer) Wake(_ context.Context, r *controlv1.WakeRequest) (*controlv1.WakeResponse, error) {
	if r.GetEndedCode() != "" {
		s.reason <- r.GetEndedCode()
	}
	return &controlv1.WakeResponse{}, nil
}

type namedConn struct {
	net.Conn
	remote overlay.Addr
}

func (c namedConn) RemoteAddr() net.Addr { return c.remote }

func newEvicted(t *testing.T) *evicted {
	e := &evicted{harness: newHarness(t), reason: make(chan string, 8), closed: make(chan time.Time, 1)}
	e.boot = e.harness.boot(composeText, e.seed)
	e.token = e.boot.mustAdmit().GetCredentials().GetConsul().GetWorkloadToken()
	e.control = control.New(e.views, &control.Directory{}, reports.New(time.Now), func(ctx context.Context, group, slot, boot string, _ bool) (policy.Decision, error) {
		return Ended(ctx, e.store, group, slot, boot)
	}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); e.running.Wait() })
	e.running.Go(func() { e.service.Guard(ctx, e.leader) })
	e.running.Go(func() { // as followPeers does
		for {
			v, changed := e.views.Latest()
			e.control.EndStale(ctx, v, nil)
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	})
	for v, changed := e.views.Latest(); v.Admissions["pg-0"].Value.BootID != e.boot.id(); v, changed = e.views.Latest() {
		<-changed
	}
	e.session(ctx)
	return e
}

// session opens the Boot's control session and records when it last received data.
func (e *evicted) session(ctx context.Context) {
	id := overlay.ID{Cluster: "demo", Group: "pg", Slot: "pg-0"}
	peer := overlay.Peer{ID: id, BootID: e.boot.id()}
	near1, far1 := net.Pipe()
	near2, far2 := net.Pipe()
	remote := overlay.Addr{ID: id, BootID: e.boot.id()}
	e.running.Go(func() {
		e.control.OnControl(ctx, peer, overlay.ControlConns{First: namedConn{far1, remote}, Second: namedConn{far2, remote}})
		_, _ = far1.Close(), far2.Close()
	})
	e.running.Go(func() {
		_ = grpcconn.Serve(ctx, near2, func(s *grpc.Server) { controlv1.RegisterAgentServiceServer(s, wakeServer{reason: e.reason}) }, grpcserver.Limits{})
	})
	client, err := grpcconn.Client(near1)
	if err != nil {
		e.t.Fatal(err)
	}
	heard := make(chan struct{})
	e.running.Go(func() {
		defer func() { _ = client.Close() }()
		service := controlv1.NewCoordinatorServiceClient(client)
		last := time.Now()
		for sequence := uint64(1); ctx.Err() == nil; sequence++ {
			call, cancel := context.WithTimeout(ctx, 5*time.Second)
			_, err := service.Report(call, &controlv1.ReportRequest{Report: &controlv1.Report{Sequence: sequence}})
			cancel()
			if err != nil {
				if s := status.Convert(err); s.Code() == codes.FailedPrecondition {
					why, _, _ := strings.Cut(s.Message(), ":")
					e.reason <- why
				}
				e.closed <- last
				return
			}
			if last = time.Now(); sequence == 1 {
				close(heard)
			}
			<-time.After(5 * time.Millisecond)
		}
	})
	<-heard
}

// awaitEnd waits until the control session is over and returns the reason that the Boot has
// learned. A slow Boot may get neither a wake nor a refusal before the end. Such a Boot then asks
// for its admission status, as an agent does.
func (e *evicted) awaitEnd(limit time.Duration) (reason string, lastHeard time.Time) {
	select {
	case lastHeard = <-e.closed:
	case <-time.After(limit):
		e.t.Fatal("the control session lives on")
	}
	select {
	case reason = <-e.reason:
		return reason, lastHeard
	default:
	}
	why, err := Ended(e.t.Context(), e.store, "pg", "pg-0", e.boot.id())
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Log("the boot got no notification and asked for its status")
	return string(why.Code), lastHeard
}

// lastUse uses the token until Consul refuses it.
func (e *evicted) lastUse(limit time.Duration) (time.Time, error) {
	kv, last, until := e.as(e.token).KV(), time.Time{}, time.Now().Add(limit)
	for time.Now().Before(until) {
		_, _, err := kv.Get("service/pg/leader", nil)
		switch {
		case err == nil:
			last = time.Now()
		case strings.Contains(err.Error(), "403"):
			return last, nil
		default:
			return last, err
		}
	}
	return last, errors.New("the token still works")
}

// TestEvictionEndsEverythingWithinFifteenSeconds measures from the write that removes the Instance
// to the last accepted use of its token and of its control session.
func TestEvictionEndsEverythingWithinFifteenSeconds(t *testing.T) {
	e := newEvicted(t)
	var lease view.Boot
	var err error
	if lease, err = e.service.lease(t.Context(), "pg-0"); err != nil || !lease.Leased() {
		t.Fatalf("lease %+v, %v", lease, err)
	}
	sp, index, err := store.Read[policy.SlotPolicy](t.Context(), e.store, store.SlotPolicyKey("pg-0"))
	if err != nil {
		t.Fatal(err)
	}
	sp.InstanceID, sp.Epoch = strings.Repeat("0", 40), sp.Epoch+1
	put, err := store.Put(store.SlotPolicyKey("pg-0"), sp, index)
	if err != nil {
		t.Fatal(err)
	}
	written := time.Now()
	if err := e.store.Commit(t.Context(), append(e.leader.Fence(), put)...); err != nil {
		t.Fatal(err)
	}
	lastToken, err := e.lastUse(15 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	reason, lastHeard := e.awaitEnd(15 * time.Second)
	t.Logf("after the write: last use of the token %v, last accepted report %v", lastToken.Sub(written).Round(time.Millisecond), lastHeard.Sub(written).Round(time.Millisecond))
	if reason != string(policy.CodeInstanceMismatch) {
		t.Errorf("the boot got %q", reason)
	}
	if _, _, err := store.Read[policy.Admission](t.Context(), e.store, store.AdmissionKey("pg-0")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("its admission: %v", err)
	}
	if lease, err := e.service.lease(t.Context(), "pg-0"); err != nil || lease.Leased() {
		t.Errorf("its lease: %+v, %v", lease, err)
	}
	if err := e.store.RenewSession(t.Context(), lease.Session); err != nil {
		t.Errorf("the session that keeps other boots' leases too: %v", err)
	}
	d, _, err := store.Read[policy.Decisions](t.Context(), e.store, store.DecisionsKey("pg-0"))
	if last := d.Last(); err != nil || last.What != policy.DecidedEvict || last.BootID != e.boot.id() || last.Code != policy.CodeInstanceMismatch || d.Verify() != nil {
		t.Errorf("decision %+v, %v, %v", last, err, d.Verify())
	}
	if err := e.service.Evict(t.Context(), "pg-0", policy.CodePeerRevoked, "again"); err != nil {
		t.Errorf("the eviction without a boot: %v", err)
	}
}

// Credentials that are renewed during the eviction do not outlive it.
func TestEvictRevokesCredentialsIssuedMeanwhile(t *testing.T) {
	s := newSmall(t, 1, 1, "demo")
	b := s.newcomer(0, 0)
	if err := b.admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	revoked := map[string]bool{}
	s.services[0].cfg.Issuer = revoking{s, revoked}
	once := false
	s.store.OnCommit(func(ops []store.Op) storetest.Fault {
		for _, op := range ops {
			if op.Kind == store.OpDeleteCAS && op.Key == store.AdmissionKey("pg-0") && !once {
				once = true
				if err := b.again(s.services[0]).admit(context.Background()); err != nil {
					t.Error(err)
				}
			}
		}
		return storetest.None
	})
	if err := s.services[0].Evict(t.Context(), "pg-0", policy.CodePeerRevoked, "compromised"); err != nil {
		t.Fatal(err)
	}
	if !once || int64(len(revoked)) != s.issued.Load() {
		t.Errorf("%d accessors revoked of %d issued", len(revoked), s.issued.Load())
	}
	if err := b.again(s.services[0]).admit(t.Context()); code(err) != codeStale {
		t.Errorf("the evicted boot comes back: %v", err)
	}
	why, err := Ended(t.Context(), s.store, "pg", "pg-0", b.bootID)
	if err != nil || why.Code != policy.CodePeerRevoked {
		t.Errorf("it gets %+v, %v", why, err)
	}
	next := s.newcomer(0, 0)
	if err := next.admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := s.admission(0); a.Generation != 2 {
		t.Errorf("the generation went back: %+v", a)
	}
}

// A fenced leader evicts no Boot: its judgement may rest on outdated records.
func TestAFencedLeaderEvictsNoBoot(t *testing.T) {
	s := newSmall(t, 1, 1, "demo")
	if err := s.newcomer(0, 0).admit(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := s.services[0].Evict(t.Context(), "pg-0", policy.CodePeerRevoked, "x", store.FenceOps("session-of-old", 1)...)
	if !errors.Is(err, store.ErrFenced) {
		t.Errorf("evict: %v", err)
	}
	if a := s.admission(0); a.BootID == "" {
		t.Error("it evicted")
	}
}

type revoking struct {
	*small
	revoked map[string]bool
}

func (r revoking) Revoke(_ context.Context, accessors ...string) error {
	for _, a := range accessors {
		r.revoked[a] = true
	}
	return nil
}
