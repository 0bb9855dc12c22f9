package control

import (
	"context"
	"log/slog"
	"math"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/contain"
	"cadre.dev/coordinator/internal/peering"
	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/overlay"
	"cadre.dev/overlay/grpcconn"
	"cadre.dev/overlay/grpcserver"
	"cadre.dev/overlaystatus/peermap"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// Service serves CoordinatorService on each control session.
type Service struct {
	controlv1.UnimplementedCoordinatorServiceServer

	views     Views
	directory *Directory
	reports   *reports.Reports
	log       *slog.Logger
	ended     Ended
	// panics contain the panic of a call; nil: it ends the process.
	panics *contain.Panics
	// credentials is also served on control sessions; nil: it is not.
	credentials admissionv1.CredentialServiceServer
	// noted is called for each accepted report; nil: no call.
	noted Noted
	// farewell is called at the farewell of a Boot; nil: farewells are rejected.
	farewell Farewell
	// begins and ends are the calls to agents that begin or end a hand-over.
	begins, ends latestCall

	mu     sync.Mutex
	wakes  map[string]map[*session]struct{} // guarded by mu; by Slot
	groups map[string]map[*session]struct{} // guarded by mu; the same by group
	count  uint64                           // guarded by mu; number of sessions so far
}

// Views returns the records, like a [view.Watcher].
type Views interface {
	Latest() (v *view.View, changed <-chan struct{})
	Subscribe() *view.Subscription
}

// New makes the service.
func New(views Views, directory *Directory, r *reports.Reports, ended Ended, log *slog.Logger) *Service {
	return &Service{views: views, directory: directory, reports: r, ended: ended, log: log, wakes: map[string]map[*session]struct{}{}, groups: map[string]map[*session]struct{}{}}
}

// Contain limits the effect of a panic to its call. Call it before the first session.
func (s *Service) Contain(panics *contain.Panics) { s.panics = panics }

// ServeCredentials adds c to every control session. Call it before the first session.
func (s *Service) ServeCredentials(c admissionv1.CredentialServiceServer) { s.credentials = c }

// Noted takes an accepted report of the Boot that holds slot. The function always gets the whole
// report. After a heartbeat without changes the function gets the last report again, with its
// earlier number. Reports are numbered by their Boot, and calls come concurrently. A Noted must not
// block or change the report.
type Noted func(slot, boot string, r *controlv1.Report)

// NoteReports sets f as the function for accepted reports. Call it before the first control
// session.
func (s *Service) NoteReports(f Noted) { s.noted = f }

// session is one agent's control session.
type session struct {
	group, slot, bootID string
	wake                chan struct{} // capacity 1: one pending wake-up covers all
	agent               controlv1.AgentServiceClient
	number              uint64 // a later session has a greater number; set by add
	end                 context.CancelFunc
	notified            stamp // the desired state of the last wake-up; guarded by Service.mu

	mu    sync.Mutex
	given *peermap.Map // guarded by mu; the last map sent to the agent
}

// OnControl serves one control session until it ends; the overlay calls it.
func (s *Service) OnControl(ctx context.Context, peer overlay.Peer, conns overlay.ControlConns) {
	if peer.ID.Group == peering.CoordinatorGroup {
		// Coordinators exchange state only through the records.
		return
	}
	log := s.log.With("slot", peer.ID.Slot, "boot", peer.BootID)
	// The agent's heartbeats show that it is alive, so keepalives are off.
	client, err := grpcconn.Client(conns.Second, grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: math.MaxInt64}))
	if err != nil {
		log.Warn("control session not usable", "error", err)
		_ = conns.First.Close() // ends the Session; the agent makes a new one
		return
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	one := &session{
		group: peer.ID.Group, slot: peer.ID.Slot, bootID: peer.BootID, end: cancel,
		wake: make(chan struct{}, 1), agent: controlv1.NewAgentServiceClient(client),
	}
	s.add(one)
	defer s.remove(one)
	defer s.reports.Connect(one.slot, one.bootID)()
	log.Info("control session opened")

	var wakes sync.WaitGroup
	defer wakes.Wait()
	wakes.Go(func() { s.endLate(ctx, one) })
	wakes.Go(func() { s.wakeLoop(ctx, one) })
	err = grpcconn.Serve(ctx, conns.First, func(server *grpc.Server) {
		controlv1.RegisterCoordinatorServiceServer(server, served{s, one})
		if s.credentials != nil {
			admissionv1.RegisterCredentialServiceServer(server, s.credentials)
		}
	}, grpcserver.Limits{Message: maxMessage, Calls: maxCalls, Contain: s.panics.In("control")})
	cancel()
	log.Info("control session closed", "error", err)
}

// GetDesired implements CoordinatorService.
func (s *Service) GetDesired(ctx context.Context, req *controlv1.GetDesiredRequest) (*controlv1.GetDesiredResponse, error) {
	id, boot, v, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	spec, ok := s.directory.Spec(id.Group)
	if !ok {
		return &controlv1.GetDesiredResponse{Desired: &controlv1.Desired{}}, nil
	}
	if short := Unchanged(v, id.Slot, req); short != nil {
		return &controlv1.GetDesiredResponse{Desired: short}, nil
	}
	desired, err := Desired(v, spec, id.Slot, boot)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &controlv1.GetDesiredResponse{Desired: desired}, nil
}

// Report implements CoordinatorService.
func (s *Service) Report(ctx context.Context, req *controlv1.ReportRequest) (*controlv1.ReportResponse, error) {
	id, boot, v, err := s.caller(ctx)
	report, beat := req.GetReport(), req.GetHeartbeat()
	if err != nil {
		if report != nil && status.Code(err) == codes.FailedPrecondition && !s.reports.Left(id.Slot, boot) && !strings.HasPrefix(status.Convert(err).Message(), string(policy.CodePeerRevoked)) {
			// The caller's certificate names the Slot, and the records do not. The term and state
			// in the report show whether these records were rolled back.
			s.reports.NoteWatermark(id.Slot, report)
		}
		return nil, err
	}
	out := &controlv1.ReportResponse{PeersVersion: s.directory.VersionOf(id.Group), Term: v.Term, Heartbeats: true}
	if beat != nil {
		report = s.reports.Beat(id.Slot, boot, beat)
		out.ReportWanted = report == nil
	} else {
		if err := bound(report); err != nil {
			return nil, err
		}
		if !s.reports.Put(id.Slot, boot, report) {
			report = nil
		}
	}
	if report != nil && s.noted != nil {
		s.noted(id.Slot, boot, report)
	}
	if s.directory.Knows(id.Group) {
		out.DesiredVersion = Version(v, id.Slot)
	}
	return out, nil
}

// GetPeers implements CoordinatorService without a session: it returns whole maps.
func (s *Service) GetPeers(ctx context.Context, _ *controlv1.GetPeersRequest) (*controlv1.GetPeersResponse, error) {
	return s.peersSince(ctx, nil, nil)
}

// served is the Service on one control session.
type served struct {
	*Service
	one *session
}

// GetPeers implements CoordinatorService. An agent that has the last map of this session gets the
// changes since then.
func (s served) GetPeers(ctx context.Context, req *controlv1.GetPeersRequest) (*controlv1.GetPeersResponse, error) {
	return s.peersSince(ctx, s.one, req)
}

// peersSince answers with the changes since one's last map, if the caller has it. A nil one gets
// the whole map.
func (s *Service) peersSince(ctx context.Context, one *session, req *controlv1.GetPeersRequest) (*controlv1.GetPeersResponse, error) {
	id, _, v, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	now := s.directory.Map(id.Group)
	before := one.gave(now)
	if before != nil && (!req.GetChanges() || before.Version != req.GetKnownVersion()) {
		before = nil
	}
	out := now.Answer(before, id.Slot)
	out.Term = v.Term
	return out, nil
}

// gave records that the session got map m, and returns its previous map.
func (one *session) gave(m *peermap.Map) (before *peermap.Map) {
	if one == nil {
		return nil
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	before, one.given = one.given, m
	return before
}

// caller authenticates the caller: the name and Boot come from the session's certificate, and the
// Boot must hold the Slot now.
func (s *Service) caller(ctx context.Context) (overlay.ID, string, *view.View, error) {
	id, boot, ok := grpcconn.PeerFromContext(ctx)
	if !ok {
		return id, "", nil, status.Error(codes.Unauthenticated, "PEER_NOT_ADMITTED: the call did not come over an overlay session")
	}
	v, _ := s.views.Latest()
	if v == nil {
		return id, "", nil, status.Error(codes.Unavailable, "records are not readable yet")
	}
	admission, ok := v.Admissions[id.Slot]
	if !ok || admission.Value.Group != id.Group || admission.Value.BootID != boot {
		return id, "", nil, s.notHolder(ctx, id, boot)
	}
	if err := s.left(id, boot, v.Boots[id.Slot].EndedBy(boot)); err != nil {
		return id, boot, nil, err
	}
	return id, boot, v, nil
}

// Wire turns a peer map into its message.
func Wire(peers []peering.Peer) []*controlv1.Peer {
	out := make([]*controlv1.Peer, 0, len(peers))
	for _, p := range peers {
		out = append(out, &controlv1.Peer{
			Group: p.Group, Slot: p.Slot, Vip: p.VIP, AppId: p.AppID, InstanceId: p.InstanceID, BootId: p.BootID,
			Offers: wirePorts(p.Offers), Accepts: wirePorts(p.Accepts), Coordinator: p.Coordinator,
		})
	}
	return out
}

func wirePorts(ports []peering.Port) []*controlv1.Port {
	out := make([]*controlv1.Port, 0, len(ports))
	for _, p := range ports {
		protocol := controlv1.Protocol_PROTOCOL_TCP
		if p.Protocol == "udp" {
			protocol = controlv1.Protocol_PROTOCOL_UDP
		}
		out = append(out, &controlv1.Port{Protocol: protocol, Port: uint32(p.Number), Loopback: p.Loopback})
	}
	return out
}
