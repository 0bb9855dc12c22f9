package agents

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"cadre.dev/bench/internal/world"
	"cadre.dev/overlay"
	"cadre.dev/overlay/grpcconn"
	"cadre.dev/overlay/grpcserver"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// heartbeat is how often an agent reports when nothing changes.
const heartbeat = 2 * time.Second

// Session is an admitted Boot's overlay node with its control session. It reports as
// an agent does.
type Session struct {
	agent *Agent
	stop  context.CancelFunc
	tasks sync.WaitGroup

	mu      sync.Mutex
	channel *grpc.ClientConn // of the newest control session; guarded by mu
	changed chan struct{}    // closed and renewed with channel; guarded by mu
}

// Open runs the node; it dials coordinator 0 at address. The caller must Close it.
func (a *Agent) Open(ctx context.Context, address string) (*Session, error) {
	credentials, err := a.Credentials()
	if err != nil {
		return nil, err
	}
	vip, err := netip.ParseAddr(a.Grant.GetVip())
	if err != nil {
		return nil, err
	}
	s := &Session{agent: a, changed: make(chan struct{})}
	node, err := overlay.New(overlay.Config{
		Self: overlay.ID{Cluster: world.Cluster, Group: a.Slot.Group, Slot: a.Slot.Name}, SelfVIP: vip, Listen: "127.0.0.1:0",
		Gateway: overlay.Gateway{Domain: world.Domain, Address: address}, Paths: []overlay.PathKind{overlay.PathGateway}, OnControl: s.onControl,
	})
	if err != nil {
		return nil, err
	}
	node.SetCredentials(credentials)
	for _, p := range a.Peers {
		if !p.GetCoordinator() {
			continue
		}
		if vip, err = netip.ParseAddr(p.GetVip()); err != nil {
			return nil, err
		}
		node.SetPeers([]overlay.Peer{{
			ID: overlay.ID{Cluster: world.Cluster, Group: p.GetGroup(), Slot: p.GetSlot()}, InstanceID: p.GetInstanceId(), VIP: vip, Coordinator: true,
		}})
		break
	}
	ctx, s.stop = context.WithCancel(ctx)
	s.tasks.Go(func() { _ = node.Run(ctx) })
	return s, nil
}

// Close ends the node.
func (s *Session) Close() {
	s.stop()
	s.tasks.Wait()
}

// Credentials are the Boot's credentials.
func (a *Agent) Credentials() (overlay.Credentials, error) {
	own, roots := tls.Certificate{PrivateKey: a.key}, x509.NewCertPool()
	for rest := a.Grant.GetSvidChainPem(); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		own.Certificate = append(own.Certificate, block.Bytes)
	}
	if !roots.AppendCertsFromPEM(a.Grant.GetCaBundlePem()) || len(own.Certificate) == 0 {
		return overlay.Credentials{}, errors.New("read credentials: no certificates")
	}
	var err error
	own.Leaf, err = x509.ParseCertificate(own.Certificate[0])
	return overlay.Credentials{Certificate: own, Roots: roots}, err
}

// woken takes the coordinator's calls.
type woken struct {
	controlv1.UnimplementedAgentServiceServer
}

func (woken) Wake(context.Context, *controlv1.WakeRequest) (*controlv1.WakeResponse, error) {
	return &controlv1.WakeResponse{}, nil
}

func (s *Session) onControl(ctx context.Context, _ overlay.Peer, conns overlay.ControlConns) {
	channel, err := grpcconn.Client(conns.First)
	if err != nil {
		return
	}
	defer func() { _ = channel.Close() }()
	var served sync.WaitGroup
	defer served.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served.Go(func() {
		_ = grpcconn.Serve(ctx, conns.Second, func(g *grpc.Server) { controlv1.RegisterAgentServiceServer(g, woken{}) }, grpcserver.Limits{})
	})
	s.mu.Lock()
	s.channel = channel
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()

	service, began := controlv1.NewCoordinatorServiceClient(channel), time.Now()
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for sequence := uint64(1); ; sequence++ {
		// The coordinator refuses a report that arrives before its view knows this Boot, and
		// accepts the next one.
		_, _ = service.Report(ctx, &controlv1.ReportRequest{Report: &controlv1.Report{
			Sequence: sequence, MemberKnown: true, HealthyFor: durationpb.New(time.Since(began)),
			Member: &controlv1.MemberView{Role: controlv1.Role_ROLE_NONE, Liveness: controlv1.Liveness_LIVENESS_ALIVE, Ready: true, MayDisrupt: true},
		}})
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// patience is how long a renewal is asked for again that may succeed later.
const patience = 30 * time.Second

// Renew asks for fresh credentials over the control session, for which it waits.
func (s *Session) Renew(ctx context.Context) error {
	until := time.Now().Add(patience)
	for {
		s.mu.Lock()
		channel, changed := s.channel, s.changed
		s.mu.Unlock()
		if channel == nil {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		answer, err := admissionv1.NewCredentialServiceClient(channel).Renew(ctx, &admissionv1.RenewRequest{BootId: s.agent.BootID, InUse: s.agent.inUse()})
		if code := status.Code(err); (code == codes.Unavailable || code == codes.ResourceExhausted) && time.Now().Before(until) {
			select {
			case <-time.After(time.Second):
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err != nil {
			return fmt.Errorf("renew %s: %w", s.agent.Slot.Name, err)
		}
		grant := answer.GetCredentials()
		if had := s.agent.Grant; grant.GetSlot() != s.agent.Slot.Name || bytes.Equal(grant.GetSvidChainPem(), had.GetSvidChainPem()) {
			return fmt.Errorf("renew %s: nothing is fresh", s.agent.Slot.Name)
		} else if grant.GetConsul().GetTokenKept() {
			grant.Consul = had.GetConsul()
		}
		s.agent.Grant = grant
		return nil
	}
}

// inUse reports the credentials in use, like cadre-agent.
func (a *Agent) inUse() *admissionv1.CredentialsInUse {
	return &admissionv1.CredentialsInUse{TokensId: a.Grant.GetConsul().GetTokensId(), KeepsToken: true}
}
