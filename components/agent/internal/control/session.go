package control

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"cadre.dev/overlay"
	"cadre.dev/overlay/grpcconn"
	"cadre.dev/overlay/grpcserver"
	"cadre.dev/overlaystatus/peermap"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

const (
	// poll is the longest time between two fetches; jittered downwards by half. It catches changes
	// without a wake-up and without a report's answer.
	poll = time.Minute
	// callLimit bounds one call; a coordinator that needs longer is not connected.
	callLimit = 5 * time.Second
	// messageLimit bounds a message from a coordinator.
	messageLimit = 4 << 20
	// askedLimit bounds a request of a coordinator: names and numbers.
	askedLimit = 64 << 10
	// pause after a call that failed.
	pause = 500 * time.Millisecond
)

// Serve runs one control session until ctx ends or it breaks. It is overlay's
// OnControl. Workers dial coordinators, so we are the client of First.
func (h *Hub) Serve(ctx context.Context, peer overlay.Peer, conns overlay.ControlConns) {
	if !peer.Coordinator || !conns.Dialer {
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	client, err := grpcconn.Client(conns.First)
	if err != nil {
		h.cfg.Log.Warn("control session did not open", "peer", peer.ID.Slot, "error", err)
		return
	}
	defer client.Close() //nolint:errcheck // ends with the session
	s := &session{hub: h, peer: peer.ID, conn: client, end: cancel, client: controlv1.NewCoordinatorServiceClient(client), fetch: make(chan struct{}, 1)}
	var serving sync.WaitGroup
	serving.Go(func() {
		err := grpcconn.Serve(ctx, conns.Second, func(g *grpc.Server) {
			controlv1.RegisterAgentServiceServer(g, &wakeServer{hub: h, from: peer.ID})
		}, grpcserver.Limits{Message: askedLimit})
		cancel(errors.Join(errors.New("control session closed"), err))
	})
	s.run(ctx, func() {
		// A session that is up with a dead gRPC connection would stay useless: closing the
		// connections makes the overlay dial again.
		_ = conns.First.Close()
		_ = conns.Second.Close()
	})
	serving.Wait()
}

// Talk runs one control session with a coordinator until ctx ends, without the overlay: for a
// simulated coordinator. It does the same as Serve, without connections.
func (h *Hub) Talk(ctx context.Context, peer overlay.ID, client controlv1.CoordinatorServiceClient) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &session{hub: h, peer: peer, end: cancel, client: client, fetch: make(chan struct{}, 1)}
	s.run(ctx, func() {})
}

// Wake serves the calls of a coordinator that uses Talk; from is its name.
func (h *Hub) Wake(ctx context.Context, from overlay.ID, r *controlv1.WakeRequest) error {
	_, err := (&wakeServer{hub: h, from: from}).Wake(ctx, r)
	return err
}

// run fetches and reports until ctx ends; then it has shut called, so that no call lasts.
func (s *session) run(ctx context.Context, shut func()) {
	h := s.hub
	h.mu.Lock()
	h.live[s] = struct{}{}
	h.mu.Unlock()
	h.sessions.Update(func(n int) int { return n + 1 })
	h.cfg.Log.Info("control session up", "peer", s.peer.Slot)

	var wg sync.WaitGroup
	wg.Go(func() { s.fetchLoop(ctx) })
	wg.Go(func() { s.reportLoop(ctx) })
	<-ctx.Done()
	shut()
	wg.Wait()
	h.mu.Lock()
	delete(h.live, s)
	h.mu.Unlock()
	h.sessions.Update(func(n int) int { return n - 1 })
	h.cfg.Log.Info("control session down", "peer", s.peer.Slot, "error", context.Cause(ctx))
}

// session is the client side towards one coordinator.
type session struct {
	hub    *Hub
	peer   overlay.ID
	conn   *grpc.ClientConn // nil: there is none to lose
	end    context.CancelCauseFunc
	client controlv1.CoordinatorServiceClient
	failed sync.Map      // call name → last error text, so that each is logged once
	fetch  chan struct{} // capacity 1: wakes the fetch loop
	last   update        // the report that this coordinator has; of reportLoop alone

	mu    sync.Mutex
	peers peermap.Known // guarded by mu; this coordinator's peer map
}

func (s *session) fetchLoop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.fetch:
		case <-timer.C:
		}
		next := poll/2 + rand.N(poll/2) //nolint:gosec // jitter is no secret
		if err := s.fetchNow(ctx); err != nil {
			next = pause
		}
		timer.Reset(next)
	}
}

func (s *session) fetchNow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	d, errDesired := s.client.GetDesired(ctx, s.hub.known(), grpc.MaxCallRecvMsgSize(messageLimit))
	s.note(ctx, "get desired state", errDesired)
	if errDesired == nil {
		errDesired = s.hub.acceptDesired(s.peer, d.GetDesired()) // a coordinator that is behind is asked again soon
	}
	p, errPeers := s.client.GetPeers(ctx, &controlv1.GetPeersRequest{KnownVersion: s.mapVersion(), Changes: true}, grpc.MaxCallRecvMsgSize(messageLimit))
	if errPeers == nil {
		errPeers = s.takePeers(p)
	}
	s.note(ctx, "get peers", errPeers)
	return errors.Join(errPeers, errDesired)
}

// takePeers applies a map, or a change of one. After an error the session requests the whole map.
func (s *session) takePeers(r *controlv1.GetPeersResponse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed, err := s.peers.Apply(r)
	if err == nil && changed {
		err = s.hub.acceptPeers(s.peer, r.GetTerm(), r.GetVersion(), s.peers.Peers())
	}
	if err != nil {
		s.peers = peermap.Known{}
	}
	return err
}

// mapVersion is the version of this coordinator's last peer map.
func (s *session) mapVersion() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peers.Version()
}

// again has the session fetch.
func (s *session) again() {
	select {
	case s.fetch <- struct{}{}:
	default:
	}
}

// note logs the first error of a kind of call, and its end.
func (s *session) note(ctx context.Context, call string, err error) {
	if err == nil {
		if _, was := s.failed.LoadAndDelete(call); was {
			s.hub.cfg.Log.Info("coordinator answers again", "call", call, "peer", s.peer.Slot)
		}
		return
	}
	s.hub.noteEnded(s.peer, err)
	if s.conn != nil && s.conn.GetState() == connectivity.Shutdown {
		s.end(err) // its one connection is gone: no call can succeed
		return
	}
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return
	}
	if old, was := s.failed.Swap(call, err.Error()); !was || old != err.Error() {
		s.hub.cfg.Log.Warn("coordinator does not answer", "call", call, "peer", s.peer.Slot, "error", err)
	}
}

// wakeServer serves the calls of coordinators.
type wakeServer struct {
	controlv1.UnimplementedAgentServiceServer
	hub  *Hub
	from overlay.ID
}

// Wake fetches, unless the sender's Term is old. The end of this Boot is final, so it is accepted
// from a sender of any Term.
func (w *wakeServer) Wake(_ context.Context, r *controlv1.WakeRequest) (*controlv1.WakeResponse, error) {
	if r.GetEndedCode() != "" {
		w.hub.end(w.from, r.GetEndedCode(), r.GetEndedMessage())
		return &controlv1.WakeResponse{}, nil
	}
	if !w.hub.term.note(r.GetTerm()) {
		return nil, status.Errorf(codes.FailedPrecondition, "FENCED: term %d is older than the last seen", r.GetTerm())
	}
	w.hub.wake()
	return &controlv1.WakeResponse{}, nil
}
