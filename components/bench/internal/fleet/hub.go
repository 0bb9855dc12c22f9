package fleet

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/bench/internal/world"
	"cadre.dev/overlay"
	"cadre.dev/overlay/grpcconn"
	"cadre.dev/overlay/grpcserver"
	"cadre.dev/overlaystatus/peermap"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// The times of cadre-agent.
const (
	// poll is the longest time between two fetches; jittered downwards by half.
	poll = time.Minute
	// heartbeat is the longest time between two reports; jittered downwards by a quarter.
	heartbeat = 5 * time.Second
	// callLimit bounds one call, pause follows a failed one.
	callLimit     = 5 * time.Second
	pause         = 500 * time.Millisecond
	farewellLimit = time.Second
	// renewEvery is how often credentials are renewed.
	renewEvery = 5 * time.Minute
)

// hub joins the control sessions of one Boot with all coordinators.
type hub struct {
	member *member
	end    context.CancelCauseFunc // of the Boot
	node   *overlay.Node
	began  time.Time

	mu       sync.Mutex
	sessions map[*session]struct{}            // guarded by mu
	desired  *controlv1.Desired               // guarded by mu
	term     uint64                           // of the peer map; guarded by mu
	version  uint64                           // of the peer map; guarded by mu
	members  int                              // Peers that are no coordinators; guarded by mu
	sequence uint64                           // of reports; guarded by mu
	steps    map[string]*controlv1.StepResult // by Operation; guarded by mu
}

func newHub(m *member, end context.CancelCauseFunc) *hub {
	return &hub{member: m, end: end, began: time.Now(), sessions: map[*session]struct{}{}, steps: map[string]*controlv1.StepResult{}}
}

// known: desired state has come, and how many other members the map names.
func (h *hub) known() (ordered bool, members int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.desired.GetVersion() > 0, h.members
}

// session is the client's side towards one coordinator.
type session struct {
	hub           *hub
	conn          *grpc.ClientConn
	client        controlv1.CoordinatorServiceClient
	fetch, report chan struct{} // capacity 1

	held    peermap.Known // of the fetch loop: this coordinator's map
	version atomic.Uint64 // of held
	said    said          // of the report loop
}

func upTo(d time.Duration) time.Duration { return rand.N(d) } //nolint:gosec // jitter is no secret

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// all nudges one channel of every session.
func (h *hub) all(which func(*session) chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.sessions {
		nudge(which(s))
	}
}

func (h *hub) fetchAll()  { h.all(func(s *session) chan struct{} { return s.fetch }) }
func (h *hub) reportAll() { h.all(func(s *session) chan struct{} { return s.report }) }

// serve is overlay's OnControl.
func (h *hub) serve(ctx context.Context, peer overlay.Peer, conns overlay.ControlConns) {
	if !peer.Coordinator || !conns.Dialer {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	channel, err := grpcconn.Client(conns.First)
	if err != nil {
		return
	}
	defer func() { _ = channel.Close() }()
	s := &session{hub: h, conn: channel, client: controlv1.NewCoordinatorServiceClient(channel), fetch: make(chan struct{}, 1), report: make(chan struct{}, 1)}
	h.mu.Lock()
	h.sessions[s] = struct{}{}
	h.mu.Unlock()
	var work sync.WaitGroup
	work.Go(func() {
		_ = grpcconn.Serve(ctx, conns.Second, func(g *grpc.Server) { controlv1.RegisterAgentServiceServer(g, woken{hub: h}) }, grpcserver.Limits{Message: 64 << 10})
		cancel()
	})
	work.Go(func() { s.loop(ctx, s.fetch, func() time.Duration { return poll/2 + upTo(poll/2) }, s.get) })
	work.Go(func() {
		s.loop(ctx, s.report, func() time.Duration { return heartbeat*3/4 + upTo(heartbeat/4) }, s.reportOnce)
	})
	<-ctx.Done()
	_ = conns.First.Close()
	_ = conns.Second.Close()
	work.Wait()
	h.mu.Lock()
	delete(h.sessions, s)
	h.mu.Unlock()
}

// loop does one thing at once, when nudged and when its time has come.
func (s *session) loop(ctx context.Context, nudged <-chan struct{}, every func() time.Duration, do func(context.Context) error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-nudged:
		case <-timer.C:
		}
		next := every()
		call, cancel := context.WithTimeout(ctx, callLimit)
		if err := do(call); err != nil {
			next = pause
			s.hub.noteEnded(err)
		}
		cancel()
		timer.Reset(next)
	}
}

// get fetches desired state and peers.
func (s *session) get(ctx context.Context) error {
	h := s.hub
	h.mu.Lock()
	known := &controlv1.GetDesiredRequest{KnownTerm: h.desired.GetTerm(), KnownVersion: h.desired.GetVersion(), KnownIndexSum: h.desired.GetIndexSum()}
	h.mu.Unlock()
	d, err := s.client.GetDesired(ctx, known)
	if err != nil {
		return err
	}
	h.takeDesired(d.GetDesired())
	p, err := s.client.GetPeers(ctx, &controlv1.GetPeersRequest{KnownVersion: s.held.Version(), Changes: true}, grpc.MaxCallRecvMsgSize(4<<20))
	if err != nil {
		return err
	}
	changed, err := s.held.Apply(p)
	if err != nil {
		s.held = peermap.Known{}
	}
	s.version.Store(s.held.Version())
	if err != nil || !changed {
		return err
	}
	return h.takePeers(p.GetTerm(), p.GetVersion(), s.held.Peers())
}

func (h *hub) takeDesired(d *controlv1.Desired) {
	h.mu.Lock()
	if d.GetVersion() == 0 || cmp.Or(cmp.Compare(d.GetTerm(), h.desired.GetTerm()), cmp.Compare(d.GetVersion(), h.desired.GetVersion()), cmp.Compare(d.GetIndexSum(), h.desired.GetIndexSum())) <= 0 {
		h.mu.Unlock()
		return
	}
	h.desired = d
	order := d.GetOperation()
	news := order != nil
	if news {
		h.steps[order.GetOperationId()] = &controlv1.StepResult{
			OperationId: order.GetOperationId(), Verb: order.GetVerb(), Attempt: order.GetAttempt(), State: controlv1.StepState_STEP_STATE_DONE,
		}
	}
	h.mu.Unlock()
	if news {
		h.member.noteOrder(order.GetOperationId())
		h.reportAll()
	}
}

// takePeers gives the node its Peers, without ports: see the package's comment.
func (h *hub) takePeers(term, version uint64, list []*controlv1.Peer) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if term < h.term || term == h.term && version < h.version {
		return nil // another coordinator sent a newer one
	}
	out := make([]overlay.Peer, 0, len(list))
	members := 0
	for _, p := range list {
		if !p.GetCoordinator() {
			members++
			if h.member.fleet.cfg.OnlyCoordinators {
				continue
			}
		}
		vip, err := netip.ParseAddr(p.GetVip())
		if err != nil {
			return err
		}
		out = append(out, overlay.Peer{
			ID: overlay.ID{Cluster: world.Cluster, Group: p.GetGroup(), Slot: p.GetSlot()}, BootID: p.GetBootId(), InstanceID: p.GetInstanceId(),
			VIP: vip, Coordinator: p.GetCoordinator(),
		})
	}
	if len(out) == 0 {
		return errors.New("a peer map without coordinators")
	}
	h.term, h.version, h.members = term, version, members
	h.node.SetPeers(out)
	return nil
}

// reportOnce reports a healthy member that has followed every order. If nothing changed since this
// coordinator's last report, it reports only that.
func (s *session) reportOnce(ctx context.Context) error {
	h := s.hub
	h.mu.Lock()
	h.sequence++
	content := content{h.desired.GetTerm(), h.desired.GetVersion(), len(h.steps)}
	healthy := time.Since(h.began)
	r := &controlv1.Report{
		Sequence: h.sequence, At: timestamppb.Now(), Term: content.term, DesiredVersion: content.version, State: h.desired.GetState(),
		MemberKnown: true, HealthyFor: durationpb.New(healthy), BootAt: timestamppb.New(h.began), AgentVersion: "bench",
		Member: &controlv1.MemberView{Role: controlv1.Role_ROLE_NONE, Liveness: controlv1.Liveness_LIVENESS_ALIVE, Ready: true, MayDisrupt: true},
	}
	for _, step := range h.steps {
		r.Steps = append(r.Steps, step)
	}
	h.mu.Unlock()
	req := &controlv1.ReportRequest{Report: r}
	if s.said.sequence != 0 && s.said.content == content {
		req = &controlv1.ReportRequest{Heartbeat: &controlv1.Heartbeat{Sequence: r.GetSequence(), Report: s.said.sequence, HealthyMs: uint64(healthy.Milliseconds())}}
	}
	answer, err := s.client.Report(ctx, req)
	if err == nil && answer.GetReportWanted() {
		req = &controlv1.ReportRequest{Report: r}
		answer, err = s.client.Report(ctx, req)
	}
	if err != nil {
		s.said = said{}
		return err
	}
	if req.GetReport() != nil {
		s.said = said{r.GetSequence(), content}
	}
	if answer.GetDesiredVersion() > content.version || answer.GetPeersVersion() > s.version.Load() {
		nudge(s.fetch)
	}
	return nil
}

// content distinguishes reports here; said is the content that a coordinator has accepted.
type (
	content struct {
		term, version uint64
		steps         int
	}
	said struct {
		sequence uint64
		content  content
	}
)

// noteEnded ends the Boot when a coordinator says that it no longer is its Slot.
func (h *hub) noteEnded(err error) {
	if status.Code(err) == codes.FailedPrecondition {
		h.end(err)
	}
}

// farewell says that this Boot ends, as an agent does that is stopped.
func (h *hub) farewell(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, farewellLimit)
	defer cancel()
	h.mu.Lock()
	all := slices.Collect(maps.Keys(h.sessions))
	h.mu.Unlock()
	var asking sync.WaitGroup
	for _, s := range all {
		asking.Go(func() { _, _ = s.client.Farewell(ctx, &controlv1.FarewellRequest{}) })
	}
	asking.Wait()
}

// woken takes the coordinators' calls.
type woken struct {
	controlv1.UnimplementedAgentServiceServer
	hub *hub
}

func (w woken) Wake(_ context.Context, r *controlv1.WakeRequest) (*controlv1.WakeResponse, error) {
	if r.GetEndedCode() != "" {
		w.hub.end(errors.New(r.GetEndedCode()))
		return &controlv1.WakeResponse{}, nil
	}
	w.hub.fetchAll()
	return &controlv1.WakeResponse{}, nil
}

// renew asks one coordinator for fresh credentials now and then, as an agent does.
func (h *hub) renew(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(renewEvery*9/10 + upTo(renewEvery/5)):
		}
		h.mu.Lock()
		var one *session
		for s := range h.sessions {
			one = s
		}
		h.mu.Unlock()
		if one == nil {
			continue
		}
		call, cancel := context.WithTimeout(ctx, callLimit)
		_, _ = admissionv1.NewCredentialServiceClient(one.conn).Renew(call, &admissionv1.RenewRequest{BootId: h.member.agent.BootID})
		cancel()
	}
}
